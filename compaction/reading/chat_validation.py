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
        call_ids = [call.id for call in self.tool_calls or ()]
        return [*call_ids, _LEGACY + self.function_call.name] if self.function_call else call_ids

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
    decoded = [_decoded_message(raw) for raw in raws]
    messages = [message for message in decoded if message is not None]
    if len(messages) < len(decoded):
        return tuple(
            f"messages[{index}] is no message" for index, one in enumerate(decoded) if one is None
        )
    return (
        *_message_faults(raws, messages, frozenset(before)),
        *_pairing_faults(messages),
        *_end_faults(messages, before),
    )


def _decoded_message(raw: bytes) -> _ChatMessage | None:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _message_faults(
    raws: Sequence[bytes], messages: Sequence[_ChatMessage], earlier: Collection[bytes]
) -> Iterator[str]:
    """The faults of a message wherever it stands."""
    for index, message in enumerate(messages):
        if raws[index] in earlier:
            continue
        if message.role not in _ROLES:
            yield f"messages[{index}] has a role that no chat has"
        elif _is_empty(message):
            yield f"messages[{index}] says nothing, or a part of it does"


def _is_empty(message: _ChatMessage) -> bool:
    if isinstance(message.content, list) and any(
        part.type == "text" and not part.text for part in message.content
    ):
        return True
    if message.content or message.role in _RESULT:
        return False
    audible = message.audio != msgspec.Raw(b"null")
    return not (message.call_ids() or message.refusal or audible)


def _pairing_faults(messages: Sequence[_ChatMessage]) -> Iterator[str]:
    """Results that answer nothing, and calls that nothing answers in time."""
    waiting: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message.role in _RESULT:
            if waiting.pop(message.answered_call_id(), None) is None:
                yield f"messages[{index}] answers no call that waits for a result"
            continue
        for name, call_index in waiting.items():
            yield f"messages[{index}] comes before the result of {name!r} in messages[{call_index}]"
        call_ids = message.call_ids()
        waiting = dict.fromkeys(call_ids, index)
        if len(waiting) < len(call_ids):
            yield f"messages[{index}] makes two calls of one id"
    for name, call_index in waiting.items():
        yield f"no result of {name!r} in messages[{call_index}]"


def _end_faults(messages: Sequence[_ChatMessage], before: Sequence[bytes]) -> Iterator[str]:
    """The faults of the first or the last message."""
    spoken = [message for message in messages if message.role not in _AUTHORITY]
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
