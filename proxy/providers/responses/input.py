"""Items of a Responses conversation as chat messages.

::

    message of user, system, developer   ─▶  a message of its own
    compaction, reasoning,               ┐
    message of the assistant,            ├▶  neighbours become one assistant message
    function_call, custom_tool_call      ┘
    function_call_output and the like    ─▶  a tool message

Neighbours are joined because chat wants all calls of a turn in the message that its tool messages
follow. A conversation that goes on after anything but the assistant's items keeps all messages it
had, so its prefix stays.

Source: OpenAI API reference, Responses, input items (2026-11).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeGuard, get_args

import msgspec

from proxy.errors import CallerError
from proxy.providers.chat.block_order import BlockOrder
from proxy.providers.responses.fields import Json, convert_value, known_kinds
from proxy.providers.responses.namespaces import ADDITIONAL, flat_name
from proxy.providers.responses.parts import Content, chat_content
from proxy.providers.responses.reasoning import OpaqueParts, unseal_parts

_FIX: Final = (
    "Send messages, reasoning, function_call and function_call_output; "
    "nothing is stored here, so send the items themselves, with `store` false."
)


class InputItem(msgspec.Struct, frozen=True, tag_field="type"):
    """One item; ids and statuses of earlier answers are left out."""


class InputMessage(InputItem, frozen=True, tag="message"):
    """A message."""

    role: Literal["user", "system", "developer", "assistant"]
    content: Content

    def chat(self) -> Json:
        """The chat message."""
        return {"role": self.role, "content": chat_content(self.content)}


class InputCall(InputItem, frozen=True, kw_only=True):
    """A call that the model wanted to make."""

    call_id: str
    name: str
    namespace: str | None = None

    def _chat_call(self, kind: str, member: str, value: str) -> Json:
        called = {"name": flat_name(self.namespace, self.name), member: value}
        return {"id": self.call_id, "type": kind, kind: called}


class FunctionCall(InputCall, frozen=True, kw_only=True, tag="function_call"):
    """A call of a function."""

    arguments: str

    def chat(self) -> Json:
        """The entry of ``tool_calls``."""
        return self._chat_call("function", "arguments", self.arguments)


class CustomCall(InputCall, frozen=True, kw_only=True, tag="custom_tool_call"):
    """A call of a tool with free text as its input."""

    input: str

    def chat(self) -> Json:
        """The entry of ``tool_calls``."""
        return self._chat_call("custom", "input", self.input)


class CallOutput(InputItem, frozen=True, tag="function_call_output"):
    """The result of a call."""

    call_id: str
    output: Content

    def chat(self) -> Json:
        """The tool message."""
        return {
            "role": "tool",
            "tool_call_id": self.call_id,
            "content": chat_content(self.output),
        }


class CustomOutput(CallOutput, frozen=True, tag="custom_tool_call_output"):
    """The result of a call with free text."""


class AdditionalTools(InputItem, frozen=True, tag=ADDITIONAL):
    """Tools in place of those of the body, or beside them; they make no message."""

    tools: list[Any]


class InputReasoning(InputItem, frozen=True, tag="reasoning"):
    """Reasoning of the model; only what was sealed here goes back, the rest is left out."""

    encrypted_content: str | None = None

    def __post_init__(self) -> None:
        unseal_parts(self.encrypted_content)


class InputCompaction(InputItem, frozen=True, tag="compaction"):
    """The compaction of all before it; only a block that was sealed here can be read."""

    encrypted_content: str

    def __post_init__(self) -> None:
        if not unseal_parts(self.encrypted_content):
            raise ValueError(
                "`encrypted_content` is a compaction of another provider, which this model cannot"
                " read; send the items that it stands for"
            )


AnyItem = (
    InputMessage
    | FunctionCall
    | CustomCall
    | CallOutput
    | CustomOutput
    | AdditionalTools
    | InputReasoning
    | InputCompaction
)
#: Items that become one chat message, with their places in the input.
Run = list[tuple[int, AnyItem]]

_KINDS: Final = tuple(kind.__struct_config__.tag for kind in get_args(AnyItem))


def messages(instructions: object, given: object, *, compacts: bool = False) -> list[Json]:
    """The chat messages for ``instructions`` and ``input``.

    Args:
        compacts: True if the model reads the compactions sealed here.
    """
    first: list[Json] = []
    if instructions is not None:
        first = [{"role": "system", "content": convert_value(instructions, str, "instructions")}]
    if given is None:
        raise CallerError(
            "`input` is missing. Send a text or a list of items.",
            code="missing_required_parameter",
            param="input",
        )
    if isinstance(given, str):
        return [*first, {"role": "user", "content": given}]
    items = [_with_kind(item) for item in convert_value(given, list[Any], "input")]
    known_kinds(items, _KINDS if compacts else _KINDS[:-1], "input", _FIX)
    return first + [message for run in _group_items(items) for message in _message_of_run(run)]


def runs(given: list[Any]) -> list[Run]:
    """The items of each chat message that ``messages`` has made of this input, in order."""
    return [run for run in _group_items(map(_with_kind, given)) if _message_of_run(run)]


def _with_kind(item: object) -> object:
    """The item with its type, which may be left out of messages and of references."""
    if not isinstance(item, dict) or item.get("type") is not None:
        return item
    return item | {"type": "message" if "role" in item else "item_reference"}


def _group_items(items: Iterable[object]) -> Iterator[Run]:
    """Neighbours of the assistant's, and each other item for itself."""
    answer: Run = []
    for number, item in enumerate(convert_value(list(items), list[AnyItem], "input")):
        if _is_alone(item):
            yield answer
            yield [(number, item)]
            answer = []
        else:
            answer.append((number, item))
    yield answer


def _is_alone(item: AnyItem) -> TypeGuard[InputMessage | CallOutput]:
    """True if it is not the assistant's, and so a message by itself."""
    return isinstance(item, CallOutput) or (
        isinstance(item, InputMessage) and item.role != "assistant"
    )


def _message_of_run(run: Run) -> list[Json]:
    """The chat message of a run, if it has one."""
    if run and _is_alone(item := run[0][1]):
        return [item.chat()]
    return _answer(item for _, item in run)


def _answer(run: Iterable[AnyItem]) -> list[Json]:
    """The assistant message of a run of its items; none where nothing was said or called."""
    contents: list[str | list[Json]] = []
    calls: list[Json] = []
    opaque, order, compacted = OpaqueParts(), BlockOrder(), False
    for item in run:
        compacted = compacted or isinstance(item, InputCompaction)
        if isinstance(item, InputMessage):
            contents.append(chat_content(item.content))
            order.note_words(_content_text(contents[-1]))
        elif isinstance(item, AdditionalTools):
            continue
        elif isinstance(item, InputReasoning | InputCompaction):
            opaque.join(unseal_parts(item.encrypted_content), order)
        else:
            calls.append(item.chat())
            order.note_call(item.call_id)
    if not contents and not calls and not compacted:
        return []
    opaque.thinking_blocks += order.final_entries()
    message: Json = {
        "role": "assistant",
        "content": _merge_contents(contents),
    } | msgspec.to_builtins(opaque)
    return [message | {"tool_calls": calls} if calls else message]


def _content_text(content: str | list[Json]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or part.get("refusal") or "" for part in content)


def _merge_contents(contents: list[str | list[Json]]) -> str | list[Json] | None:
    """The contents of several messages as one; a single text stays plain, which all accept."""
    parts = [
        part
        for content in contents
        for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
    ]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts or None
