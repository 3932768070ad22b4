"""Turns of the Messages API as chat messages.

::

    system blocks                 a system message, first
    system in mid-conversation    a system message in its place
    user: tool_result …           a tool message for each, right behind the calls
          their images, files     a user message behind those: chat's tool messages hold text
          anything else           a user message
    assistant                     one assistant message; thinking as the target takes it

Neighbours of one role are one turn, as for Anthropic. A conversation that goes on keeps all
messages it had, so its prefix stays.

Source: Anthropic, Messages API, tool use, mid-conversation system messages (2026-11).
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from proxy.providers.chat.block_order import BlockOrder
from proxy.providers.chat.chat_body import invalid_parameter
from proxy.providers.gemini.signatures import UNSIGNED, extra_content
from proxy.providers.messages.body import (
    Json,
    MessagesBlock,
    MessagesBody,
    MessagesTurn,
    blocks_of_content,
)
from proxy.providers.messages.names import chat_call_id
from proxy.providers.messages.parts import (
    chat_content,
    mark_member,
    plain_part,
    text_parts,
    user_parts,
)
from proxy.providers.messages.server_tools import is_server_block
from proxy.providers.messages.signatures import (
    call_extras,
    has_reasoning_items,
    is_own_signature,
    reasoning_of,
    sealed_phase,
)
from proxy.providers.messages.target import ChatTarget
from proxy.providers.messages.tools import tool_call

#: Line that coding agents put first for Anthropic's accounts; elsewhere it only changes the prefix.
_ATTRIBUTION: Final = re.compile(r"x-anthropic-billing-header:[^\n]*\n*")
_ROLES: Final = frozenset({"user", "assistant", "system"})
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_FAILED: Final = "The tool failed."
_BELOW: Final = "(The result's images and files follow in the next message.)"
#: Attached to a call that another model made.
_UNSIGNED: Final = extra_content(UNSIGNED)
_CONTROL: Final = "cache_control"
_MEDIA: Final = frozenset({"image_url", "file"})
_Turn = list[tuple[str, MessagesBlock]]


def chat_messages(body: MessagesBody, target: ChatTarget, notes: list[str]) -> list[Json]:
    """The chat messages of the whole conversation."""
    if not body.messages:
        raise invalid_parameter("messages", "There is nothing to answer: send a message.")
    conversation = _Conversation(target, notes)
    messages = [*_system(body, target, notes), *conversation.messages(body.messages)]
    if body.messages[-1].role == "assistant":
        notes.append("the model does not go on from a last assistant message, but answers it")
    return messages


def _system(body: MessagesBody, target: ChatTarget, notes: list[str]) -> list[Json]:
    """The system prompt: one message, a part for each block."""
    blocks = []
    for block in blocks_of_content(body.system):
        attribution = _ATTRIBUTION.match(block.text or "")
        if attribution is not None and block.text is not None:
            notes.append("dropped x-anthropic-billing-header: it is for Anthropic's accounts")
            block.text = block.text[attribution.end() :]
        if block.text != "":
            blocks.append(block)
    parts = text_parts(blocks, "system", target)
    return [{"role": "system", "content": chat_content(parts, target)}] if parts else []


class _Conversation:
    """Turns messages into chat's, turn by turn."""

    def __init__(self, target: ChatTarget, notes: list[str]) -> None:
        self._target = target
        self._notes = notes
        self._calls: list[str] = []
        self._tools: dict[str, str] = {}
        self._calls_at = ""

    def messages(self, given: list[MessagesTurn]) -> Iterator[Json]:
        """The chat messages in order."""
        for number, message in enumerate(given):
            if message.role not in _ROLES:
                raise invalid_parameter(
                    f"messages[{number}].role",
                    f"Unknown role {message.role!r}: use user, assistant or system.",
                )
        turns = groupby(enumerate(given), key=lambda numbered: numbered[1].role)
        for role, run in turns:
            turn = list(run)
            if role == "assistant":
                yield from self._assistant_message(turn)
            elif role == "user":
                yield from self._user_messages(turn)
            else:
                yield from self._system_messages(turn)
        self._check_answered([])

    def _system_messages(self, run: list[tuple[int, MessagesTurn]]) -> Iterator[Json]:
        self._check_answered([])
        for number, message in run:
            path = f"messages[{number}].content"
            parts = text_parts(blocks_of_content(message.content), path, self._target)
            if parts:
                yield {"role": "system", "content": chat_content(parts, self._target)}

    def _user_messages(self, run: list[tuple[int, MessagesTurn]]) -> Iterator[Json]:
        """Results first, then their images, then each message's own words."""
        results = [(path, block) for path, block in _blocks(run) if block.type == "tool_result"]
        self._check_answered([self._id_of_result(path, block) for path, block in results])
        media: list[Json] = []
        for path, block in results:
            yield self._result(path, block, media)
        if media:
            yield {"role": "user", "content": media}
        for number, message in run:
            path = f"messages[{number}].content"
            blocks = [b for b in blocks_of_content(message.content) if b.type != "tool_result"]
            if blocks:
                parts = user_parts(blocks, path, self._target, self._notes)
                yield {"role": "user", "content": chat_content(parts, self._target)}
            elif not blocks_of_content(message.content):
                raise invalid_parameter(path, f"`{path}` is empty: send at least one block.")

    def _id_of_result(self, path: str, block: MessagesBlock) -> str:
        if not block.tool_use_id:
            raise invalid_parameter(
                f"{path}.tool_use_id", f"`{path}` must name the call it answers: add `tool_use_id`."
            )
        return block.tool_use_id

    def _result(self, path: str, block: MessagesBlock, media: list[Json]) -> Json:
        """The tool message of a result; images and files go to ``media`` where it cannot hold them.

        A failure is said in words where chat has no field for it.
        """
        target = self._target
        parts = user_parts(blocks_of_content(block.content), f"{path}.content", target, self._notes)
        name = block.tool_use_id or ""
        message: Json = {"role": "tool", "tool_call_id": chat_call_id(name, target.ids)}
        mark = mark_member(block.cache_control, target)
        if target.takes_extras:
            message |= {"is_error": True} if block.is_error else {}
            message["content"] = chat_content(parts, target)
        else:
            parts = self._without_media(parts, self._tools.get(name, ""), media)
            if block.is_error:
                parts = [plain_part(_FAILED), *parts]
                self._notes.append("wrote is_error into the text: chat has no such field")
            # Marks move on with the conversation; what a text is made of must not change with them.
            inner = [part.pop(_CONTROL) for part in parts if _CONTROL in part]
            mark = mark or ({_CONTROL: inner[-1]} if inner else {})
            message["content"] = chat_content(parts, target, joins=True)
        return message | mark

    def _without_media(self, parts: list[Json], tool: str, media: list[Json]) -> list[Json]:
        shown = [part for part in parts if part["type"] in _MEDIA]
        if not shown:
            return parts
        media += [plain_part(f"From the result of the tool {tool}:"), *shown]
        self._notes.append("sent images of tool results in a user message: chat takes text there")
        return [*(part for part in parts if part["type"] not in _MEDIA), plain_part(_BELOW)]

    def _assistant_message(self, run: list[tuple[int, MessagesTurn]]) -> Iterator[Json]:
        """The assistant's turn as one message; none where nothing of it is left."""
        self._check_answered([])
        parts: list[Json] = []
        calls: list[Json] = []
        thoughts, order = _Thoughts(self._target, self._notes), BlockOrder()
        for path, block in _blocks(run):
            if block.type in _THOUGHTS:
                thoughts.add(block, order)
            elif block.type == "tool_use":
                calls.append(tool_call(block, path, self._target))
                order.note_call(calls[-1]["id"])
                self._calls.append(block.id or "")
                self._tools[block.id or ""] = block.name or ""
                self._calls_at = path
            elif not is_server_block(block, path, self._target, self._notes):
                new_parts = user_parts([block], path, self._target, self._notes)
                order.note_words(block.text or "")
                parts += new_parts
        if not parts and not calls and not thoughts.blocks:
            return
        if self._target.takes_call_extras:
            _attach_extras(calls, thoughts.extras)
        message: Json = {"role": "assistant"}
        message["content"] = chat_content(parts, self._target) if parts else None
        yield message | thoughts.fields(order) | ({"tool_calls": calls} if calls else {})

    def _check_answered(self, results: list[str]) -> None:
        """Check that these are the results of all open calls, each once."""
        calls, self._calls = self._calls, []
        for name in calls:
            if name not in results:
                raise invalid_parameter(
                    "messages",
                    f"No result for tool call {name!r} of `{self._calls_at}`: send a tool_result"
                    " for it in the very next message, or leave the call out.",
                )
        for place, name in enumerate(results):
            if name not in calls or name in results[:place]:
                raise invalid_parameter(
                    "messages",
                    f"The tool_result {name!r} answers no tool_use of the message before it: send"
                    " it once, right after its call, or leave it out.",
                )


class _Thoughts:
    """Thinking of an earlier answer, in the form that the target takes."""

    def __init__(self, target: ChatTarget, notes: list[str]) -> None:
        self.blocks: list[Json] = []
        self.extras: dict[str, Json] = {}
        self._form = target.thinking
        self._text = ""
        self._notes = notes

    def add(self, block: MessagesBlock, order: BlockOrder) -> None:
        """Add a block, with a note where it is left out."""
        is_own, words = is_own_signature(block.signature), reasoning_of(block)
        self.extras |= call_extras(block)
        if self._form == "sealed" and (phase := sealed_phase(block.signature)) is not None:
            # No thinking: nothing is bound to what stands before it.
            self.blocks += order.entries_for_block(phase)
            return
        is_sealed = self._form == "sealed" and has_reasoning_items(block.signature)
        if is_own and not words and not is_sealed:
            return
        if is_sealed or (self._form == "blocks" and not is_own):
            members = {"thinking": block.thinking, "signature": block.signature, "data": block.data}
            given_members = {name: value for name, value in members.items() if value is not None}
            self.blocks += order.entries_for_block({"type": block.type, **given_members})
        elif self._form == "text" and words:
            self._text += words
        elif not is_own:  # a chat caller sends back none of a model's own reasoning either
            self._notes.append("dropped thinking blocks: this model takes none of another's")

    def fields(self, order: BlockOrder) -> Json:
        """The members of the assistant message."""
        if self.blocks:
            return {"thinking_blocks": self.blocks + order.final_entries()}
        return {"reasoning_content": self._text} if self._text else {}


def _attach_extras(calls: list[Json], extras: dict[str, Json]) -> None:
    """Attach to the calls what came with them; the first is always given something."""
    for place, call in enumerate(calls):
        if attached := extras.get(call["id"]):
            call["extra_content"] = attached
        elif place == 0:
            call.update(_UNSIGNED)


def _blocks(run: Iterable[tuple[int, MessagesTurn]]) -> _Turn:
    """The blocks of a turn, each with its place in the body."""
    return [
        (f"messages[{number}].content[{place}]", block)
        for number, message in run
        for place, block in enumerate(blocks_of_content(message.content))
    ]
