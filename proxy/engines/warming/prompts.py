"""Bodies of calls that warm an engine's cache: a system prompt, a conversation's next turn.

A short message of a user, or an empty result of each tool that was called, stands for what is not
known yet: chat templates write the messages before it as they will in the call itself.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

#: Larger bodies are not read ahead.
MAX_BODY_BYTES: Final = 1024 * 1024
#: System prompts are not looked for in larger ones: by then their conversation has begun long ago.
_MAX_SEARCHED_BYTES: Final = 256 * 1024
#: System messages in a row that are looked at.
_MAX_LEADING: Final = 16
_DIGEST_BYTES: Final = 16
_LEADING_ROLES: Final = frozenset({"system", "developer"})
_UNKNOWN_QUESTION: Final = b'{"role":"user","content":"."}'
#: Fields of a body that are about this one call's place in a queue, not about its prompt.
_ABOUT_QUEUES: Final = ("priority", "nvext")
_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _ToolCall(msgspec.Struct):
    id: str = ""


class _Message(msgspec.Struct):
    role: Any = None
    tool_calls: list[_ToolCall] | None = None


_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_messages: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_message: Final = msgspec.json.Decoder(_Message).decode


class SystemPrompt(NamedTuple):
    """The beginning that calls of a feature share.

    Attributes:
        digest: Names it.
        body: Body of a call that reads it.
    """

    digest: bytes
    body: bytes


def system_prompt(body: bytes) -> SystemPrompt | None:
    """The tools and leading system messages of a chat body; None where it has none."""
    try:
        fields = _fields(body) if len(body) <= _MAX_SEARCHED_BYTES else {}
        leading = _leading(_messages(fields["messages"])) if "messages" in fields else []
    except _ERRORS:
        return None
    if not leading:
        return None
    named = blake2b(bytes(fields.get("tools", b"")), digest_size=_DIGEST_BYTES)
    for each in leading:
        named.update(each)
    return SystemPrompt(named.digest(), _with_messages(fields, [*leading, _UNKNOWN_QUESTION]))


def next_turn(body: bytes, answer: bytes) -> bytes | None:
    """The body of the turn that follows an answer, as far as it is known; None if it is too large.

    Args:
        body: Body of the turn that was answered.
        answer: The assistant's message.
    """
    if len(body) + len(answer) > MAX_BODY_BYTES:
        return None
    try:
        fields = _fields(body)
        messages = [bytes(each) for each in _messages(fields["messages"])]
        called = _message(answer).tool_calls or ()
    except (*_ERRORS, KeyError):
        return None
    unknown = [_tool_result(each.id) for each in called] or [_UNKNOWN_QUESTION]
    return _with_messages(fields, [*messages, answer, *unknown])


def _leading(messages: Sequence[msgspec.Raw]) -> list[bytes]:
    found: list[bytes] = []
    for each in messages[:_MAX_LEADING]:
        if _message(each).role not in _LEADING_ROLES:
            break
        found.append(bytes(each))
    return found


def _tool_result(call_id: str) -> bytes:
    return msgspec.json.encode({"role": "tool", "tool_call_id": call_id, "content": ""})


def _with_messages(fields: dict[str, msgspec.Raw], messages: Iterable[bytes]) -> bytes:
    kept = {name: raw for name, raw in fields.items() if name not in _ABOUT_QUEUES}
    return msgspec.json.encode({**kept, "messages": [msgspec.Raw(each) for each in messages]})
