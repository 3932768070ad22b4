"""The filter of a round's answer that each API fills in, and what it makes of a recall; pure.

::

    answer ── feed ──▶ what its caller gets     calls of the tool ──▶ RecallRequest
    body, request, answers ── append ──▶ body of the next round

Where the model calls tools of its caller in the same answer, these are delivered, renumbered, and
the recall is left out: the model can ask again with the next call.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

import msgspec
import orjson

from proxy.providers.json_size import MAX_OBJECTS, may_exceed
from proxy.providers.sse import parse_event, to_line_feeds
from proxy.records.request_fields import replace_fields

Json = dict[str, Any]
#: Bytes of thinking that are held back until it shows what follows. Longer thinking goes out at
#: once, so that neither the caller nor a proxy before it takes the connection for dead.
MAX_HELD_THINKING_BYTES: Final = 64 * 1024
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class RecallCall(msgspec.Struct, frozen=True):
    """A call of the recall tool."""

    id: str
    arguments: str


class RecallRequest(msgspec.Struct, frozen=True):
    """The calls of an answer that has none but those of the recall tool.

    Attributes:
        answer: The answer as the next round sends it back: messages, or items of Responses.
    """

    answer: tuple[Json, ...]
    calls: tuple[RecallCall, ...]


class RecallFilter(ABC):
    """Takes calls of the recall tool out of one round's answer, a stream or a whole one.

    Args:
        name: The tool's.
        streamed: True for a stream of events.
    """

    def __init__(self, name: str, *, streamed: bool) -> None:
        self._name = name
        self._streamed = streamed
        self._held: list[bytes] = []
        self._is_held = False

    @property
    def request(self) -> RecallRequest | None:
        """The recall that the answer ended with; None for none."""
        return self._request() if self._is_held else None

    @abstractmethod
    def next_round(self) -> Self:
        """The filter of the next round, which goes on as the same answer."""

    def feed(self, piece: bytes) -> bytes:
        """The caller's part of a piece: whole events, or the one body."""
        if not self._streamed:
            is_read = self._may_change(piece) and not may_exceed(piece, MAX_OBJECTS)
            answer = parse_object(piece) if is_read else None
            return piece if answer is None else self._feed_whole(answer, piece)
        blocks = to_line_feeds(piece).split(b"\n\n")
        return b"".join(self._feed_block(block) for block in blocks if block.strip(b"\n"))

    def end(self) -> bytes:
        """The part held back, for an answer whose recall is not followed by another round."""
        held, self._held = b"".join(self._held), []
        self._is_held = False
        return held

    def _feed_block(self, block: bytes) -> bytes:
        """The caller's part of the lines of one event."""
        framed = block + b"\n\n"
        parsed = parse_event(block)
        if parsed is None:
            return framed
        event = parse_object(parsed.data)
        if self._is_held:
            return self._hold(framed)
        return framed if event is None else self._feed_event(event, framed)

    def _hold(self, framed: bytes) -> bytes:
        """Keep an event for the end; nothing for the caller now."""
        self._held.append(framed)
        self._is_held = True
        return b""

    def _may_change(self, body: bytes) -> bool:
        """True if a whole answer may not be its caller's as it came."""
        return self._name.encode() in body

    @abstractmethod
    def _request(self) -> RecallRequest | None:
        """The recall of an answer that is held back at its end."""

    @abstractmethod
    def _feed_event(self, event: Json, framed: bytes) -> bytes:
        """The caller's part of an event before the end; ``framed`` is itself as it came."""

    @abstractmethod
    def _feed_whole(self, answer: Json, body: bytes) -> bytes:
        """The caller's part of a whole answer; ``body`` is itself as it came."""


class RecallFormat(msgspec.Struct, frozen=True):
    """The recalls of one API.

    Attributes:
        filter_type: The filter of its answers.
        append: Appends an answer's recalls and what was recalled to a body.
    """

    filter_type: type[RecallFilter]
    append: Callable[[bytes, RecallRequest, Sequence[str]], bytes]


def append_to_list(body: bytes, field: str, added: Sequence[Json]) -> bytes:
    """The body with more at the end of the list in a field; all else stays byte for byte.

    Raises:
        KeyError: If the body has no such field.
        ValueError: If it cannot be read.
    """
    raws = [*map(bytes, _list(_fields(body)[field])), *map(orjson.dumps, added)]
    return replace_fields(body, {field: b"[" + b",".join(raws) + b"]"})


def parse_object(data: bytes) -> Json | None:
    """The object in some JSON; None where there is none."""
    try:
        value = orjson.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def object_in(value: Json, key: str) -> Json:
    """The object under a key; an empty one where there is none."""
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def named_event(event: Json) -> bytes:
    """An event of Messages or Responses as bytes, with its type as its name."""
    return b"event: %b\ndata: %b\n\n" % (str(event.get("type")).encode(), orjson.dumps(event))
