"""Parses only the new part of a request body: a conversation resends most of its last one.

::

    last body   head [ m1 , m2 , m3 , m4 ] tail
    next body   head [ m1 , m2 ,│m3 , m4 , m5 , m6 ] tail
                      known     │parsed anew

Bytes that equal those of the last body are compared, not parsed. Any other body is read as a whole,
with an equal result.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from proxy.errors import CallerError
from proxy.records.lru_cache import LruCache
from proxy.records.message_traits import (
    NO_MESSAGES,
    UNREADABLE,
    MessageTraits,
    read_messages,
)
from proxy.records.request_fields import RequestFields, parse_request_fields

#: Bytes of the latest bodies that are kept, of all teams, and those of one besides its texts.
DEFAULT_BYTES: Final = 32 * 2**20
_ENTRY_BYTES: Final = 2_000
#: Bytes of messages below which a body is read as a whole, and bytes of a body above which it is.
_MIN_MESSAGES_BYTES, _MAX_BODY_BYTES = 4_096, 2 * 2**20
#: Messages at the end of a call that the next one may leave out or replace.
_LAST_MESSAGES: Final = 2
#: Conversations that begin alike, and places where conversations begin in bodies that begin alike.
_MAX_ALIKE, _MAX_PLACES = 32, 8
_HEAD_BYTES, _FIRST_BYTES = 64, 256
_KEY: Final = b'"messages":'
#: Stands for messages in a body without them; nobody writes such a list.
READ_ALREADY: Final = b"[-0E-0]"
_gap = re.compile(rb"[ \t\n\r]*").match
_is_instructions = re.compile(rb'\{\s*"role"\s*:\s*"(?:system|developer)"').match
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


class SplitBody(msgspec.Struct, frozen=True):
    """A body's messages, and all else in it.

    Attributes:
        around: The body with ``READ_ALREADY`` in place of its messages.
        known: Number of its first messages that the last body of its conversation held, too.
        traits: Traits of its messages; None where one of them is no JSON object.
    """

    body: bytes
    messages: tuple[bytes, ...]
    around: bytes
    known: int = 0
    traits: MessageTraits | None = None

    @property
    def repeatable(self) -> int:
        """Number of its first messages that the next body of its conversation may hold, too."""
        return max(0, len(self.messages) - _LAST_MESSAGES)


class _Messages(msgspec.Struct):
    """The messages of a body; all else in it is skipped."""

    messages: list[msgspec.Raw] = []


class _LatestBody(msgspec.Struct, frozen=True):
    """The latest body of a conversation, up to the last messages that the next one repeats.

    Attributes:
        head: All before its first message.
        tail: All behind its last message.
        comma: Bytes between two messages.
        end: Number of bytes up to the end of the last message that is kept.
        fields: Its fields but for its messages.
        traits: Traits of its messages; None where one of them is no JSON object.
    """

    head: bytes
    messages: tuple[bytes, ...]
    tail: bytes
    comma: bytes
    end: int
    around: bytes
    fields: RequestFields
    traits: MessageTraits | None = NO_MESSAGES

    def begins(self, body: bytes) -> bool:
        """True if a body is this one with other last messages."""
        last = self.messages[-1]
        return (
            body.startswith(last, self.end - len(last))
            and body.startswith(self.comma, self.end)
            and body.startswith(self.head)
            and body.endswith(self.tail)
            and body.startswith(self.comma.join(self.messages), len(self.head))
        )

    def fields_of(self, body: bytes) -> RequestFields:
        """The fields of a body that begins and ends as this one."""
        held = memoryview(body)[len(self.head) - 1 : 1 - len(self.tail) or None]
        return msgspec.structs.replace(self.fields, messages=msgspec.Raw(held))


_decode_messages = msgspec.json.Decoder(_Messages).decode
_BodyKey = tuple[str, bytes]


class BodyReader:
    """Reads the bodies of one process's calls; the latest ones are remembered, by team."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self._places: LruCache[_BodyKey, tuple[int, ...]] = LruCache(most=4_096)
        self._latest: LruCache[_BodyKey, tuple[_LatestBody, ...]] = LruCache(max_bytes, _size_of)

    @property
    def size_bytes(self) -> int:
        """About how many bytes of bodies are kept."""
        return self._latest.size_bytes

    def read(self, team: str, body: bytes) -> tuple[RequestFields, SplitBody | None]:
        """The fields of a body, and its messages apart where they are long and easily found.

        Raises:
            CallerError: If it is not a JSON object or one of the fields we read has the wrong type.
        """
        if not _MIN_MESSAGES_BYTES <= len(body) <= _MAX_BODY_BYTES:
            return parse_request_fields(body), None
        for latest in self._find(team, body):
            new = _new_messages(body, latest)
            if new:
                split = SplitBody(body, latest.messages + new, latest.around, len(latest.messages))
                return latest.fields_of(body), self._remember(team, split, latest, before=latest)
        try:
            first = _split_body(body)
        except (*UNREADABLE, CallerError):  # the error is that of the body read as a whole
            first = None
        if first is None:
            return parse_request_fields(body), None
        split = SplitBody(body, first.messages, first.around)
        return first.fields_of(body), self._remember(team, split, first)

    def _find(self, team: str, body: bytes) -> Sequence[_LatestBody]:
        """The latest body of the conversation that this one may go on with; none where unknown."""
        for place in self._places.get((team, body[:_HEAD_BYTES])) or ():
            for latest in self._latest.get((team, body[place : place + _FIRST_BYTES])) or ():
                if latest.begins(body):
                    return (latest,)
        return ()

    def _remember(
        self,
        team: str,
        split: SplitBody,
        form: _LatestBody,
        before: _LatestBody | None = None,
    ) -> SplitBody:
        """Keep a body but for its last messages, in place of the one that it goes on with.

        Returns:
            The body with the traits of its messages.
        """
        repeatable = split.messages[: split.repeatable]
        read_before = split.known if split.known <= len(repeatable) else 0
        traits = read_messages(
            repeatable[read_before:], form.traits if read_before else NO_MESSAGES
        )
        last = split.messages[len(repeatable) :]
        split = msgspec.structs.replace(split, traits=read_messages(last, traits))
        if not repeatable or not repeatable[-1].endswith(b"}"):
            return split
        place = len(form.head)
        for message in repeatable[:-1]:
            if not _is_instructions(message):
                break
            place += len(message) + len(form.comma)
        end = len(form.head) + sum(map(len, repeatable)) + len(form.comma) * (len(repeatable) - 1)
        latest = msgspec.structs.replace(form, messages=repeatable, end=end, traits=traits)
        start = (team, split.body[:_HEAD_BYTES])
        places = self._places.get(start) or ()
        if place not in places:
            self._places.put(start, (place, *places)[:_MAX_PLACES])
        key = (team, split.body[place : place + _FIRST_BYTES])
        others = [
            latest_body for latest_body in self._latest.get(key) or () if latest_body is not before
        ]
        self._latest.put(key, (latest, *others)[:_MAX_ALIKE])
        return split


def _size_of(bodies: tuple[_LatestBody, ...]) -> int:
    return sum([_ENTRY_BYTES + latest.end + 2 * len(latest.around) for latest in bodies])


def _new_messages(body: bytes, latest: _LatestBody) -> tuple[bytes, ...]:
    """The messages behind those that are known; none where the rest is read otherwise."""
    rest = body[latest.end + len(latest.comma) : 1 - len(latest.tail) or None]
    try:
        return tuple(map(bytes, _elements(b"[" + rest)))
    except UNREADABLE:
        return ()


def _split_body(body: bytes) -> _LatestBody | None:
    """The body in its parts; None where its messages are few, or not surely those found first.

    Raises:
        CallerError: If a field that we read has the wrong type.
        msgspec.DecodeError: If it has no list of messages, or is no JSON object.
    """
    start = body.find(_KEY)
    if start < 0:
        return None
    messages = tuple(map(bytes, _decode_messages(body).messages))
    white = _gap(body, start + len(_KEY))
    start = white.end() if white else start
    first = start + 1 + len(messages[0]) if messages else start
    comma = b", " if body.startswith(b", ", first) else b","
    end = _list_end(body, start, messages, comma)
    if end - start < _MIN_MESSAGES_BYTES:
        return None
    around = body[:start] + READ_ALREADY + body[end:]
    rest = parse_request_fields(around)
    if bytes(rest.messages) != READ_ALREADY:
        return None
    return _LatestBody(body[: start + 1], messages, body[end - 1 :], comma, 0, around, rest)


def _list_end(body: bytes, start: int, messages: Sequence[bytes], comma: bytes) -> int:
    """The end of the list of these messages that begins there; -1 where another text stands."""
    end, separator = start, b"["
    for message in messages:
        begin = end + len(separator)
        if not body.startswith(separator, end) or not body.startswith(message, begin):
            return -1
        end, separator = begin + len(message), comma
    return end + 1 if messages and body.startswith(b"]", end) else -1
