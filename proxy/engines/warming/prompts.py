"""Bodies of calls that warm an engine's cache: a system prompt, a conversation's next turn.

A short message of a user, or an empty result of each tool that was called, stands for what is not
known yet: chat templates write the messages before it as they will in the call itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from proxy.prefix.layouts.agent_shapes import without_attribution
from proxy.records.call import MESSAGES

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
#: Fields of a Responses body whose conversation is kept elsewhere, so that it is not all here.
_KEPT_ELSEWHERE: Final = ("previous_response_id", "conversation", "prompt")
_UNSAID: Final = frozenset({b"", b"null", b'""', b"[]"})
_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError)


class _ToolCall(msgspec.Struct):
    id: str = ""


class _Message(msgspec.Struct):
    role: Any = None
    tool_calls: list[_ToolCall] | None = None


class _Item(msgspec.Struct):
    type: Any = None
    call_id: str = ""


_Fields = Mapping[str, msgspec.Raw]
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_raw_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_message: Final = msgspec.json.Decoder(_Message).decode
_items: Final = msgspec.json.Decoder(list[_Item]).decode


class SystemPrompt(NamedTuple):
    """The beginning that calls of a feature share.

    Attributes:
        digest: Names it.
        body: Body of a call that reads it.
    """

    digest: bytes
    body: bytes


class _Form(NamedTuple):
    """The form of a conversation in one API.

    Attributes:
        turns: Field of its turns.
        before: Fields that stand before them in the prompt.
        instructions: The one of these that is a system prompt by itself; "" for none.
        answered: Turns that an answer becomes, and those that are to follow it; None for Messages,
            whose calls and answers engines get in chat.
    """

    turns: str
    before: tuple[str, ...]
    instructions: str
    answered: Callable[[bytes], list[bytes]] | None


def system_prompt(body: bytes, endpoint: str) -> SystemPrompt | None:
    """The tools, instructions and leading system messages of a body; None where it has none.

    Args:
        body: Of a chat, Responses or Messages call.
        endpoint: Its path below ``/v1/``.
    """
    form = _FORMS.get(endpoint)
    if form is None or len(body) > _MAX_SEARCHED_BYTES:
        return None
    if endpoint == MESSAGES:
        body = without_attribution(body)  # it differs from call to call, and no engine gets it
    try:
        fields = _fields(body)
        leading = _leading_turns(_turns(fields, form))
    except _ERRORS:
        return None
    if not leading and bytes(fields.get(form.instructions, b"")) in _UNSAID:
        return None
    named = blake2b(digest_size=_DIGEST_BYTES)
    for part in (*(fields.get(name, b"") for name in form.before), *leading):
        named.update(len(part := bytes(part)).to_bytes(8, "big") + part)
    return SystemPrompt(named.digest(), _with_turns(fields, form, [*leading, _UNKNOWN_QUESTION]))


def next_turn(body: bytes, answer: bytes, endpoint: str) -> bytes | None:
    """The body of the turn that follows an answer, as far as it is known; None where it is not.

    Args:
        body: Body of the turn that was answered, at most 1 MiB with its answer.
        answer: The assistant's message in chat; the list of output items in Responses.
        endpoint: Path of the call below ``/v1/``.
    """
    form = _FORMS.get(endpoint)
    if form is None or form.answered is None or len(body) + len(answer) > MAX_BODY_BYTES:
        return None
    try:
        fields = _fields(body)
        turns = [bytes(turn) for turn in _turns(fields, form)]
        return _with_turns(fields, form, [*turns, *form.answered(answer)])
    except _ERRORS:
        return None


def _turns(fields: _Fields, form: _Form) -> list[msgspec.Raw]:
    """The turns of a conversation, all of which are in its body.

    Raises:
        KeyError: If some are kept elsewhere.
    """
    for name in _KEPT_ELSEWHERE if form.turns == "input" else ():
        if bytes(fields.get(name, b"")) not in _UNSAID:
            raise KeyError(name)
    turns = fields[form.turns]
    if form.turns == "input" and bytes(turns).startswith(b'"'):
        return [msgspec.Raw(b'{"role":"user","content":' + bytes(turns) + b"}")]
    return _raw_list(turns)


def _leading_turns(turns: Sequence[msgspec.Raw]) -> list[bytes]:
    leading: list[bytes] = []
    for turn in turns[:_MAX_LEADING]:
        if _message(turn).role not in _LEADING_ROLES:
            break
        leading.append(bytes(turn))
    return leading


def _after_message(answer: bytes) -> list[bytes]:
    """The assistant's message, and empty results of its tool calls or an unknown question."""
    results = [
        msgspec.json.encode({"role": "tool", "tool_call_id": tool_call.id, "content": ""})
        for tool_call in _message(answer).tool_calls or ()
    ]
    return [answer, *(results or [_UNKNOWN_QUESTION])]


def _after_items(answer: bytes) -> list[bytes]:
    """The items of an answer, and empty outputs of its calls or an unknown question."""
    outputs = [
        msgspec.json.encode({"type": f"{item.type}_output", "call_id": item.call_id, "output": ""})
        for item in _items(answer)
        if item.call_id
    ]
    items = [bytes(item) for item in _raw_list(answer)]
    return [*items, *(outputs or [_UNKNOWN_QUESTION])]


def _with_turns(fields: _Fields, form: _Form, turns: Iterable[bytes]) -> bytes:
    prompt_fields = {name: raw for name, raw in fields.items() if name not in _ABOUT_QUEUES}
    return msgspec.json.encode({**prompt_fields, form.turns: [msgspec.Raw(turn) for turn in turns]})


_FORMS: Final[Mapping[str, _Form]] = MappingProxyType(
    {
        "chat/completions": _Form("messages", ("tools",), "", _after_message),
        "responses": _Form("input", ("tools", "instructions"), "instructions", _after_items),
        MESSAGES: _Form("messages", ("tools", "system"), "system", None),
    }
)
