"""Checks of a conversation for what providers would refuse.

Source: OpenAI, chat completions and function calling; Anthropic, Messages API and tool use, once
neighbours of one role are joined (2026-11).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import msgspec

_AUTHORITY: Final = frozenset({"system", "developer"})
_RESULT: Final = frozenset({"tool", "function"})
_ROLES: Final = _AUTHORITY | _RESULT | {"user", "assistant"}
_LEGACY: Final = "function_call:"


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None


class _Function(msgspec.Struct):
    name: str = ""


class _Call(msgspec.Struct):
    id: str


class _ChatMessage(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    function_call: _Function | None = None
    name: str | None = None
    refusal: str | None = None
    audio: msgspec.Raw = msgspec.Raw(b"null")

    def call_ids(self) -> list[str]:
        """The ids of the calls it makes."""
        made = [call.id for call in self.tool_calls or ()]
        return [*made, _LEGACY + self.function_call.name] if self.function_call else made

    def answered_call_id(self) -> str:
        """The id of the call it is the result of."""
        if self.role == "function":
            return _LEGACY + (self.name or "")
        return self.tool_call_id or ""


_decode = msgspec.json.Decoder(_ChatMessage).decode


def chat_faults(raws: Sequence[bytes], before: Sequence[bytes] = ()) -> tuple[str, ...]:
    """The reasons why a provider would refuse these messages; none where it would not.

    Args:
        raws: The messages as they would be sent.
        before: The unmodified messages: what they do themselves is no fault. A message that
            stands there is not looked at for itself, and where they begin or end with the
            assistant, so may ``raws``.
    """
    said = [_decoded_message(raw) for raw in raws]
    held = [message for message in said if message is not None]
    if len(held) < len(said):
        return tuple(f"messages[{at}] is no message" for at, one in enumerate(said) if one is None)
    return (
        *_message_faults(raws, held, frozenset(before)),
        *_pairing_faults(held),
        *_end_faults(held, before),
    )


def _decoded_message(raw: bytes) -> _ChatMessage | None:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _message_faults(
    raws: Sequence[bytes], said: Sequence[_ChatMessage], known: Collection[bytes]
) -> Iterator[str]:
    """The faults of a message wherever it stands."""
    for at, message in enumerate(said):
        if raws[at] in known:
            continue
        if message.role not in _ROLES:
            yield f"messages[{at}] has a role that no chat has"
        elif _is_empty(message):
            yield f"messages[{at}] says nothing, or a part of it does"


def _is_empty(message: _ChatMessage) -> bool:
    if isinstance(message.content, list) and any(
        part.type == "text" and not part.text for part in message.content
    ):
        return True
    if message.content or message.role in _RESULT:
        return False
    audible = message.audio != msgspec.Raw(b"null")
    return not (message.call_ids() or message.refusal or audible)


def _pairing_faults(said: Sequence[_ChatMessage]) -> Iterator[str]:
    """Results that answer nothing, and calls that nothing answers in time."""
    waiting: dict[str, int] = {}
    for at, message in enumerate(said):
        if message.role in _RESULT:
            if waiting.pop(message.answered_call_id(), None) is None:
                yield f"messages[{at}] answers no call that waits for a result"
            continue
        for name, asked in waiting.items():
            yield f"messages[{at}] comes before the result of {name!r} in messages[{asked}]"
        made = message.call_ids()
        waiting = dict.fromkeys(made, at)
        if len(waiting) < len(made):
            yield f"messages[{at}] makes two calls of one id"
    for name, asked in waiting.items():
        yield f"no result of {name!r} in messages[{asked}]"


def _end_faults(said: Sequence[_ChatMessage], before: Sequence[bytes]) -> Iterator[str]:
    """The faults of the first or the last message."""
    spoken = [message for message in said if message.role not in _AUTHORITY]
    if not spoken:
        yield "no message of a user"
        return
    if spoken[0].role == "assistant" and not _is_assistants(before, _from_start):
        yield "the assistant speaks first"
    if spoken[-1].role == "assistant" and not _is_assistants(before, _from_end):
        yield "the assistant speaks last"


def _from_start(raws: Sequence[bytes]) -> Iterator[bytes]:
    return iter(raws)


def _from_end(raws: Sequence[bytes]) -> Iterator[bytes]:
    return reversed(raws)


def _is_assistants(
    raws: Sequence[bytes], ordered: Callable[[Sequence[bytes]], Iterator[bytes]]
) -> bool:
    """True if the first of these messages, in that order, that is no authority's is a model's."""
    opened = (_decoded_message(raw) for raw in ordered(raws))
    roles = (message.role for message in opened if message is not None)
    return next((role for role in roles if role not in _AUTHORITY), "") == "assistant"
