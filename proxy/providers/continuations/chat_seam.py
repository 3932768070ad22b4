"""Chat completions that broke off, and the chunks that go on from them; pure."""

from typing import Any, Final

import msgspec
import orjson

from proxy.providers.continuations.seam import (
    Json,
    Seam,
    SeamText,
    cannot_continue,
    checked_text,
    thinks_anew,
)
from proxy.providers.recalls.recall_filter import object_in, parse_object
from proxy.providers.sse import parse_events

_REASONING: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
#: Members of a delta that an answer may hold and be gone on from.
_SAID: Final = frozenset({"role", "content", *_REASONING})
_NAMES: Final = ("id", "created")
_DONE: Final = b"[DONE]"


class OpenChat(msgspec.Struct, frozen=True):
    """A chat completion that broke off in its text.

    Attributes:
        names: Id and time of its chunks.
    """

    text: str
    names: Json

    def seam(self, *, echoes: bool) -> "ChatSeam":
        """As ``OpenAnswer.seam``."""
        return ChatSeam(self, SeamText(self.text, echoes=echoes))


def read_open_chat(delivered: bytes) -> OpenChat:
    """The answer in these chunks.

    Raises:
        ValueError: If it cannot be gone on from.
    """
    pieces: list[str] = []
    names: Json = {}
    is_thinking = False
    for event in parse_events(delivered):
        chunk = parse_object(event.data)
        if event.data == _DONE or chunk is None or chunk.get("error"):
            raise cannot_continue()
        names = {name: chunk[name] for name in _NAMES if name in chunk} | names
        for delta in _deltas(chunk):
            if content := _content(delta):
                pieces.append(content)
            is_thinking = not content and (is_thinking or _has_reasoning(delta))
    if is_thinking:
        raise cannot_continue()
    return OpenChat(checked_text("".join(pieces)), names)


class ChatSeam(Seam):
    """Goes on with a chat completion."""

    def __init__(self, answer: OpenChat, text: SeamText) -> None:
        self._names = answer.names
        self._text = text

    def _feed_event(self, event: Json) -> bytes:
        event |= {name: value for name, value in self._names.items() if name in event}
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, dict) and not self._feed_choice(choice) and not event.get("usage"):
            return b""
        return b"data: " + orjson.dumps(event) + b"\n\n"

    def _feed_choice(self, choice: Json) -> bool:
        """True if the caller gets the choice, which is changed to what goes on."""
        delta = object_in(choice, "delta")
        if _has_reasoning(delta):
            raise thinks_anew()
        delta.pop("role", None)
        content = delta.get("content")
        text = self._text.feed(content) if isinstance(content, str) else ""
        ends = bool(choice.get("finish_reason") or delta.get("tool_calls"))
        if ends:
            text += self._text.end()
        if text or isinstance(content, str):
            delta["content"] = text
            choice["delta"] = delta
        return ends or any(delta.values())


def _deltas(chunk: Json) -> list[Json]:
    """The deltas of a chunk's choice.

    Raises:
        ValueError: If it ends, is not the only one, or says more than words.
    """
    choices = chunk.get("choices") or []
    if not isinstance(choices, list):
        raise cannot_continue()
    for choice in choices:
        if not isinstance(choice, dict) or choice.get("index") or choice.get("finish_reason"):
            raise cannot_continue()
        if any(value and name not in _SAID for name, value in object_in(choice, "delta").items()):
            raise cannot_continue()
    return [object_in(choice, "delta") for choice in choices]


def _content(delta: Json) -> str:
    content: Any = delta.get("content") or ""
    if not isinstance(content, str):
        raise cannot_continue()
    return content


def _has_reasoning(delta: Json) -> bool:
    return any(delta.get(name) for name in _REASONING)
