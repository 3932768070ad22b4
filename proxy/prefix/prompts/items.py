"""A Responses body in chat's shape, so that one planner reads both; written back byte for byte.

=======================================  ====================================================
of the Responses API                     as a message or a tool
=======================================  ====================================================
``instructions``                         the first developer message; fixed where stored
``input`` as a text                      a user's message
a message of user, system or developer   the same, with chat's types of parts
``function_call_output``                 a tool's message
``additional_tools``                     a developer message with the tools as its part
any other item                           the assistant's, left alone
a function or custom tool                nested in one of chat's form
=======================================  ====================================================

Each form is text put around or in place of the caller's, so taking it away again gives the caller's
bytes; what is left in it then is what planning changed.

A response that its provider stores may be gone on from by name, and then what stands in its input
is history while its instructions are not: they stay where they are.

Source: OpenAI API reference, Responses, input items (2026-11) and openai 3.52.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Final

from proxy.prefix.prompts.objects import (
    Unplannable,
    elements,
    may_hold_tags,
    members,
    write_list,
    write_object,
)

#: Bytes above which a piece's conversion is not remembered, and most that are: 32 MiB at most.
_MAX_CACHED_BYTES, _MAX_CACHED = 2**13, 2_048
INPUT: Final = "input"
_INSTRUCTIONS: Final = "instructions"
_TOOLS: Final = "tools"
_NULL: Final = b"null"
_NOTHING: Final = b"[]"
#: Fields that bring in what the provider keeps.
_KEPT: Final = ("previous_response_id", "conversation", "prompt")
_ELSEWHERE: Final = "it goes on from what its provider keeps"
#: Speakers of items that are messages.
_SPEAKERS: Final = frozenset({b'"user"', b'"system"', b'"developer"', b'"assistant"'})
_MESSAGES: Final = frozenset({b'"message"', _NULL})
_RESULT: Final = b'"function_call_output"'
#: Tools in the input, which Codex sends from GPT-5.6 on; they have a role and are no message.
_TOOLS_ITEM: Final = b'"additional_tools"'
_KINDS: Final = (b"function", b"custom")
#: Stands in for ``input`` where that was a text.
_TEXT: Final = b'"'

#: Frame around each; no text of a caller may begin like it.
_ITEM: Final = b'{"role":"assistant","item":true,'
_ANSWER: Final = b'{"role":"tool","item":true,'
_WRAPPED: Final = b'{"role":"assistant","item":"wrapped","wrapped":'
#: Beginning of the part that stands for tools in the input.
OFFERED_PART: Final = b'{"type":"additional_tools","tools":'
#: Their ids are new in every session and no part of a prompt, so they stand beside the part.
_OFFERED: Final = b'{"role":"developer","content":[' + OFFERED_PART
_OFFERED_END: Final = b'}],"wrapped":'
_MOVABLE: Final = b'{"role":"developer","instructions":true,"content":'
_FIXED: Final = b'{"role":"developer","content":[{"type":"instructions","text":'
_FIXED_END: Final = b"}]}"
_USER: Final = b'{"role":"user","content":'
_TOOL: Final = {kind: b'{"type":"%b","%b":' % (kind, kind) for kind in _KINDS}
_OURS: Final = (_ITEM, _ANSWER, _WRAPPED, _OFFERED, _MOVABLE, _FIXED)

_THERE: Final = {b"input_text": b"text", b"input_image": b"image_url", b"input_file": b"file"}
_BACK: Final = {ours: theirs for theirs, ours in _THERE.items()}
#: The type of a part, as most writers put it and as any may; in a text the quotes are escaped.
_KEY: Final = b'"type"'
_COMPACT: Final = b'"type":"'
_TYPE: Final = rb'("type"[ \t\r\n]*:[ \t\r\n]*")(%b)"'
_OUTPUT, _CONTENT = b'"output"', b'"content"'


def known_conversion(convert: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """The conversion of a piece, remembered where that is short; the same for equal pieces."""
    known = lru_cache(_MAX_CACHED)(convert)
    return lambda piece: (known if len(piece) <= _MAX_CACHED_BYTES else convert)(piece)


def is_items(fields: Mapping[str, bytes]) -> bool:
    """True if a body with these fields is one of the Responses API; it may have no input."""
    return "messages" not in fields and (INPUT in fields or _INSTRUCTIONS in fields)


def is_stored(fields: Mapping[str, bytes]) -> bool:
    """True if its provider keeps the response, so that nothing in it may change its place."""
    return is_items(fields) and fields.get("store", _NULL).strip() != b"false"


def read_items(
    fields: Mapping[str, bytes], *, goes_on: bool = False
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The messages and the tools of a Responses body with these fields.

    With ``goes_on``, one that goes on from what its provider keeps is read, too.

    Raises:
        Unplannable: If it cannot be read, or goes on from what its provider keeps.
    """
    if not goes_on and any(fields.get(name, _NULL) != _NULL for name in _KEPT):
        raise Unplannable(_ELSEWHERE)
    if not goes_on and INPUT not in fields:
        raise Unplannable("it has no input")
    tools = fields.get(_TOOLS, _NULL)
    raw_input = fields.get(INPUT, _NOTHING)
    messages = (*_instructions_message(fields), *_input_messages(raw_input, goes_on=goes_on))
    return messages, tuple(map(_known_tool, elements(tools))) if tools != _NULL else ()


def empty_fields(fields: Mapping[str, bytes]) -> dict[str, bytes]:
    """The fields without those that ``read_items`` returns; each keeps its place."""
    emptied = dict(fields)
    if INPUT in emptied:
        emptied[INPUT] = _TEXT if emptied[INPUT][:1] == _TEXT else b""
    for name in (_INSTRUCTIONS, _TOOLS):
        if emptied.get(name, _NULL) != _NULL:
            emptied[name] = b""
    return emptied


def freeze_instructions(message: bytes) -> bytes:
    """The first message, its instructions being no text that could move; any other as it is.

    So what is left in their place stays there once what is declared has moved.
    """
    if not message.startswith(_MOVABLE):
        return message
    content = members(message)["content"]
    first, *rest = (content,) if content[:1] == _TEXT else elements(content)
    words = first if first[:1] == _TEXT else members(first)["text"]
    more = b"".join(b"," + part for part in rest)
    return _FIXED + words + b"}" + more + _FIXED_END[1:]


def items_body(
    fields: Mapping[str, bytes], messages: tuple[bytes, ...], tools: tuple[bytes, ...]
) -> bytes:
    """The Responses body with these emptied fields, messages and tools."""
    body_fields = dict(fields)
    if body_fields.get(_INSTRUCTIONS) == b"" and messages:
        body_fields[_INSTRUCTIONS], rest = _split_instructions(messages[0])
        messages = (*rest, *messages[1:])
    if body_fields.get(_INSTRUCTIONS) == b"":
        del body_fields[_INSTRUCTIONS]
    if body_fields.get(_TOOLS) == b"":
        body_fields[_TOOLS] = write_list(map(_original_tool, tools))
    items = list(map(_known_item, messages))
    if items or INPUT in body_fields:
        text = (
            _plain_input(items[0]) if body_fields.get(INPUT) == _TEXT and len(items) == 1 else b""
        )
        body_fields[INPUT] = text or write_list(items)
    return write_object(body_fields)


def _instructions_message(fields: Mapping[str, bytes]) -> Iterator[bytes]:
    """The instructions as a message; none where there are none."""
    raw = fields.get(_INSTRUCTIONS, _NULL)
    if raw == _NULL:
        return
    if raw[:1] != _TEXT:
        raise Unplannable("instructions that are no text")
    moves = may_hold_tags(raw) or not is_stored(fields)
    yield _MOVABLE + raw + b"}" if moves else _FIXED + raw + _FIXED_END


def _split_instructions(message: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """The instructions in a message, b"" for none, and what has to stay one."""
    if message.startswith(_FIXED):
        first, *rest = elements(members(message)["content"])
        more = write_object({"role": b'"developer"', "content": write_list(rest)})
        return members(first)["text"], (more,) if rest else ()
    content = members(message)["content"] if message.startswith(_MOVABLE) else b""
    return (content, ()) if content[:1] == _TEXT else (b"", (message,))


def _input_messages(raw: bytes, *, goes_on: bool) -> list[bytes]:
    if raw[:1] == _TEXT:
        return [_USER + raw + b"}"]
    message = partial(_message_of_item, goes_on=True) if goes_on else _known_message
    return [message(item.strip()) for item in elements(raw)]


def _message_of_item(item: bytes, *, goes_on: bool = False) -> bytes:
    """The message for an item of the input."""
    fields = members(item)
    kind = fields.get("type", _NULL)
    if item.startswith(_OURS):
        raise Unplannable("an item that begins like one of ours")
    if fields.get("role") in _SPEAKERS and kind in _MESSAGES:
        if len(fields) == 2 and fields.get("content", _NULL)[:1] == _TEXT:
            return item  # no parts, and nothing else that could hold any
        if _rename_part_types(item, _BACK) is not item:
            raise Unplannable("a message with parts of chat's types")
        return item if fields["role"] == b'"assistant"' else _rename_part_types(item, _THERE)
    if kind in (_NULL, b'"item_reference"') and not (goes_on and fields):
        raise Unplannable(_ELSEWHERE)
    return _wrapped_item(item, fields, kind)


def _wrapped_item(item: bytes, fields: Mapping[str, bytes], kind: bytes) -> bytes:
    """The message of an item that is none itself."""
    if "role" in fields and kind == _TOOLS_ITEM:
        return _offered_tools(item, fields) or _WRAPPED + item + b"}"
    if "role" in fields:
        raise Unplannable("an item of an unknown kind has a role")
    if kind == _RESULT and _may_mark(item, fields.get("output", _NULL)):
        return _ANSWER + _rename_part_types(item, _THERE)[1:].replace(_OUTPUT, _CONTENT)
    return _ITEM + item[1:]


def _offered_tools(item: bytes, fields: Mapping[str, bytes]) -> bytes:
    """The message that tools in the input are; b"" for an item that is not written compactly."""
    tools = fields.get(_TOOLS, _NULL)
    if tools[:1] != b"[" or write_object(fields) != item:
        return b""
    rest = write_object({**fields, _TOOLS: _NULL})
    return _OFFERED + tools + _OFFERED_END + rest + b"}"


def _offered_item(message: bytes) -> bytes:
    """The item with the tools that a message stands for."""
    fields = members(message)
    tools = members(elements(fields["content"])[0])[_TOOLS]
    return write_object({**members(fields["wrapped"]), _TOOLS: tools})


def _may_mark(item: bytes, output: bytes) -> bool:
    """True if a tool's result can be said as a message, and back again."""
    once = item.count(_OUTPUT) == 1 and _CONTENT not in item
    return once and _rename_part_types(item, _BACK) is item and output[:1] in (b'"', b"[")


def _item_of_message(message: bytes) -> bytes:
    """The item for a message; the other way round."""
    if message.startswith(_ITEM):
        return b"{" + message[len(_ITEM) :]
    if message.startswith(_WRAPPED):
        return message[len(_WRAPPED) : -1]
    if message.startswith(_OFFERED):
        return _offered_item(message)
    if message.startswith(_ANSWER):
        item = message[len(_ANSWER) :].replace(_CONTENT, _OUTPUT)
        return b"{" + _rename_part_types(item, _BACK)
    if message.startswith(_MOVABLE):
        fields = members(message)
        del fields[_INSTRUCTIONS]
        message = write_object(fields)
    return _rename_part_types(message, _BACK)


def _rename_part_types(raw: bytes, names: Mapping[bytes, bytes]) -> bytes:
    """JSON whose parts have other types, by name; the same object where there are none."""
    if raw.rfind(_KEY) < 0:  # the fastest way to see that a text has none
        return raw
    if raw.count(_KEY) == raw.count(_COMPACT):
        renamed = raw
        for name, other in names.items():
            if _COMPACT + name + b'"' in renamed:
                renamed = renamed.replace(_COMPACT + name + b'"', _COMPACT + other + b'"')
        return renamed
    types = re.compile(_TYPE % b"|".join(names))
    changed, times = types.subn(lambda match: match[1] + names[match[2]] + b'"', raw)
    return changed if times else raw


def _plain_input(item: bytes) -> bytes:
    """The text of an input that was one; b"" where it is none any more."""
    fields = members(item)
    content = fields.get("content", b"")
    return content if content[:1] == _TEXT and item == _USER + content + b"}" else b""


def _chat_tool(raw: bytes) -> bytes:
    """The tool in chat's form; one that runs elsewhere stays as it is."""
    fields = members(raw)
    for kind, opening in _TOOL.items():
        if raw.startswith(opening) or kind.decode() in fields:
            raise Unplannable("a tool in chat's form")
        if fields.get("type") == b'"%b"' % kind:
            return opening + raw + b"}"
    return raw


def _responses_tool(tool: bytes) -> bytes:
    """The tool unmodified; what was put beside it is put into it."""
    for kind, opening in _TOOL.items():
        if tool.startswith(opening):
            fields = members(tool)
            inner = fields[kind.decode()]
            beside = {k: v for k, v in fields.items() if k not in ("type", kind.decode())}
            return write_object({**members(inner), **beside}) if beside else inner
    return tool


#: Items and tools seen lately, of all callers.
_known_message: Final = known_conversion(_message_of_item)
_known_item: Final = known_conversion(_item_of_message)
_known_tool: Final = known_conversion(_chat_tool)
_original_tool: Final = known_conversion(_responses_tool)
