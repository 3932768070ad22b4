"""Messages and Responses conversations as chat messages, and back byte for byte; pure.

==================================  =============================================================
of the caller                       as chat messages
==================================  =============================================================
a chat message                      itself
Messages: ``tool_result`` blocks    a tool's message each; the other blocks of theirs a user's
Messages: an assistant's blocks     one message: texts, calls, and thinking as ``thinking_blocks``
Responses: items of one answer      one message: texts, calls, and reasoning as the same
Responses: a call's output          a tool's message
==================================  =============================================================

What compaction leaves as it came goes out in the caller's own bytes. Items of other kinds are bound
to their place, or pair with others: such a conversation is left alone.

Source: Anthropic API, create a message; OpenAI API reference, Responses, input items (2026-11).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from compaction.compact import CompactedChat
from compaction.reading.message import CannotCompactError
from proxy.prefix.prompts.items import is_items
from proxy.prefix.prompts.objects import Unplannable, elements, members, write_list, write_object
from proxy.prefix.prompts.prompt import Prompt

_API: Final = "api"
_encoded = msgspec.json.encode
_NULL: Final = b"null"
_EMPTY: Final = b'""'
_TOOL: Final = b'"tool"'
_USER: Final = b'"user"'
_ASSISTANT: Final = b'"assistant"'
_AUTHORITY: Final = frozenset({b'"system"', b'"developer"'})
_RESULT: Final = b'"tool_result"'
_CALL: Final = b'"tool_use"'
_THINKING: Final = frozenset({b'"thinking"', b'"redacted_thinking"'})
#: Items of an answer by what they are; others of an answer are named and not kept.
_CALLS: Final = {b'"function_call"': "arguments", b'"custom_tool_call"': "input"}
_OUTPUTS: Final = frozenset({b'"function_call_output"', b'"custom_tool_call_output"'})
_REASONING: Final = b'"reasoning"'
_HOSTED: Final = frozenset(
    {
        b'"code_interpreter_call"',
        b'"file_search_call"',
        b'"image_generation_call"',
        b'"web_search_call"',
    }
)


class ChatPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A chat message, and the part of the caller's messages that it stands for.

    Attributes:
        raw: The chat message, as JSON.
        start: The first of the caller's messages.
        end: The first after them.
        blocks: The blocks of it, where it stands for a part of one message.
    """

    raw: bytes
    start: int
    end: int
    blocks: tuple[bytes, ...] = ()


class ChatForm(msgspec.Struct, frozen=True):
    """A conversation of any API as chat messages.

    Attributes:
        messages: The caller's, in the shape that planning has of them.
        pieces: The chat messages that stand for them, in order; none where they are such.
    """

    messages: tuple[bytes, ...]
    pieces: tuple[ChatPiece, ...]

    @property
    def raws(self) -> tuple[bytes, ...]:
        """Each chat message as JSON."""
        return tuple([piece.raw for piece in self.pieces]) or self.messages

    def caller_messages(self, chat: CompactedChat) -> tuple[bytes, ...]:
        """The caller's messages as they are sent, once their chat form was compacted."""
        if not self.pieces:
            return chat.messages
        many = Counter(piece.start for piece in self.pieces)
        sent = zip(chat.messages, chat.origins, strict=True)
        messages: list[bytes] = []
        for start, group in groupby(sent, key=lambda one: self._start(one[1])):
            if start < 0:
                messages += [raw for raw, _ in group]
            else:
                run = [(raw, self.pieces[origin]) for raw, origin in group]
                messages += self._restored_run(run, is_all=len(run) == many[start])
        return tuple(messages)

    def _start(self, origin: int) -> int:
        return -1 if origin < 0 else self.pieces[origin].start

    def _restored_run(
        self, run: Sequence[tuple[bytes, ChatPiece]], *, is_all: bool
    ) -> Sequence[bytes]:
        """The caller's messages that some neighbouring pieces stand for, of all or some of them."""
        first = run[0][1]
        whole = self.messages[first.start : first.end]
        if is_all and all(raw == piece.raw for raw, piece in run):
            return whole
        if not first.blocks:
            return [_changed_message(whole[0], run[0][0])]
        blocks = [block for raw, piece in run for block in _sent_blocks(raw, piece)]
        return [write_object({**members(whole[0]), "content": write_list(blocks)})]


def chat_form(prompt: Prompt) -> ChatForm:
    """The conversation of a call as chat messages.

    Raises:
        CannotCompactError: If it holds what nothing may be taken away around.
    """
    messages = prompt.messages
    try:
        if prompt.is_native:
            pieces = tuple(_native_pieces(messages))
        elif is_items(prompt.fields):
            pieces = tuple(_item_pieces(messages))
        else:
            pieces = ()
    except (KeyError, Unplannable, UnicodeDecodeError):
        raise CannotCompactError(_API) from None
    return ChatForm(messages, pieces)


def _native_pieces(messages: Sequence[bytes]) -> Iterator[ChatPiece]:
    """The pieces of a Messages conversation; its system text is the first."""
    for index, raw in enumerate(messages):
        fields = members(raw)
        role, content = fields["role"], fields["content"]
        if role in _AUTHORITY and index:
            raise CannotCompactError(_API)  # its place among the others is checked
        if content[:1] != b"[" or role in _AUTHORITY:
            yield ChatPiece(raw=raw, start=index, end=index + 1)
            continue
        blocks = elements(content)
        kinds = [members(block)["type"] for block in blocks]
        if role == _ASSISTANT:
            called = _CALL in kinds or not _THINKING.isdisjoint(kinds)
            message = _answer_message(zip(kinds, blocks, strict=True)) if called else raw
            yield ChatPiece(raw=message, start=index, end=index + 1)
        else:
            yield from _user_pieces(raw, index, kinds, blocks)


def _user_pieces(
    raw: bytes, index: int, kinds: Sequence[bytes], blocks: Sequence[bytes]
) -> Iterator[ChatPiece]:
    """The results in a user's message, and what else stands there."""
    if _RESULT not in kinds:
        yield ChatPiece(raw=raw, start=index, end=index + 1)
        return
    for is_result, run in groupby(zip(kinds, blocks, strict=True), lambda one: one[0] == _RESULT):
        own = [block for _, block in run]
        if not is_result:
            message = write_object({"role": _USER, "content": write_list(own)})
            yield ChatPiece(raw=message, start=index, end=index + 1, blocks=tuple(own))
            continue
        for block in own:
            fields = members(block)
            message = _result_message(fields["tool_use_id"], fields.get("content", _EMPTY))
            yield ChatPiece(raw=message, start=index, end=index + 1, blocks=(block,))


def _answer_message(parts: Iterator[tuple[bytes, bytes]]) -> bytes:
    """The chat message of an answer's blocks."""
    content_parts, calls, thinking = list[bytes](), list[bytes](), list[bytes]()
    for kind, block in parts:
        if kind == _CALL:
            fields = members(block)
            calls.append(_call(fields["id"], fields["name"], _encoded(fields["input"].decode())))
        else:
            (thinking if kind in _THINKING else content_parts).append(block)
    return _assistant_message(content_parts, calls, thinking)


def _item_pieces(messages: Sequence[bytes]) -> Iterator[ChatPiece]:
    """The pieces of a Responses conversation: items of one answer together."""
    parsed = [members(raw) for raw in messages]
    for is_answer, run in groupby(range(len(messages)), lambda i: _is_answer(parsed[i])):
        places = list(run)
        if is_answer:
            raw = _items_message([parsed[i] for i in places])
            yield ChatPiece(raw=raw, start=places[0], end=places[-1] + 1)
            continue
        for index in places:
            fields, raw = parsed[index], messages[index]
            if fields.get("type") in _OUTPUTS:
                output = fields.get("content", fields.get("output", _EMPTY))
                raw = _result_message(fields["call_id"], output)
            elif fields["role"] not in {_USER, *_AUTHORITY}:
                raise CannotCompactError(_API)
            yield ChatPiece(raw=raw, start=index, end=index + 1)


def _is_answer(fields: dict[str, bytes]) -> bool:
    """True if an item is a part of an answer."""
    return fields["role"] == _ASSISTANT and fields.get("type") not in _OUTPUTS


def _items_message(items: Sequence[dict[str, bytes]]) -> bytes:
    """The chat message of an answer's items."""
    content_parts, calls, thinking = list[bytes](), list[bytes](), list[bytes]()
    for fields in items:
        kind = fields.get("type", b'"message"')
        if kind in _CALLS:
            calls.append(_call(fields["call_id"], fields["name"], fields[_CALLS[kind]]))
        elif kind == _REASONING:
            thinking.append(write_object({**fields, "role": _NULL}))
        elif kind in _HOSTED:
            content_parts.append(write_object({"type": kind}))
        elif kind == b'"message"' and "content" in fields:
            content = fields["content"]
            content_parts += elements(content) if content[:1] == b"[" else [_text_part(content)]
        else:
            raise CannotCompactError(_API)
    return _assistant_message(content_parts, calls, thinking)


def _assistant_message(
    content_parts: Sequence[bytes], calls: Sequence[bytes], thinking: Sequence[bytes]
) -> bytes:
    fields = {"role": _ASSISTANT, "content": write_list(content_parts) if content_parts else _NULL}
    if calls:
        fields["tool_calls"] = write_list(calls)
    if thinking:
        fields["thinking_blocks"] = write_list(thinking)
    return write_object(fields)


def _call(call_id: bytes, name: bytes, arguments: bytes) -> bytes:
    function = write_object({"name": name, "arguments": arguments})
    return write_object({"id": call_id, "type": b'"function"', "function": function})


def _result_message(call_id: bytes, content: bytes) -> bytes:
    return write_object({"role": _TOOL, "tool_call_id": call_id, "content": content})


def _text_part(text: bytes) -> bytes:
    return write_object({"type": b'"text"', "text": text})


def _sent_blocks(raw: bytes, piece: ChatPiece) -> Sequence[bytes]:
    """The blocks of a piece as they are sent."""
    if raw == piece.raw:
        return piece.blocks
    content = members(raw)["content"]
    if members(raw)["role"] == _TOOL:
        return [write_object({**members(piece.blocks[0]), "content": content})]
    return elements(content)


def _changed_message(came: bytes, raw: bytes) -> bytes:
    """The caller's message with what its chat form says now."""
    fields, sent = members(came), members(raw)
    if sent["role"] != _TOOL:
        return raw
    name = "content" if "content" in fields else "output"
    return write_object({**fields, name: sent["content"]})
