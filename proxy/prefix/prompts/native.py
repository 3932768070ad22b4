"""A body of Anthropic's Messages API in chat's shape, so that one planner reads both.

==============================  ==================================
of the Messages API             as a message or a tool
==============================  ==================================
``system``, a text or blocks    the first system message
a message                       itself
a tool of the caller's own      nested in one of chat's form
a tool that Anthropic defines   itself
==============================  ==================================

Each form is text put around the caller's, so taking it away again gives the caller's bytes; what is
left in it then is what planning changed.

Source: Anthropic API, create a message (2026-11).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from proxy.prefix.prompts.items import known_conversion
from proxy.prefix.prompts.objects import (
    Unplannable,
    as_content_part,
    elements,
    known_elements,
    members,
    write_list,
)

_SYSTEM: Final = "system"
_MESSAGES: Final = "messages"
_TOOLS: Final = "tools"
_THREAD: Final = "thread"
_NULL: Final = b"null"
#: Frames around the system prompt and around a tool.
_FRAME: Final = b'{"role":"system","content":'
_TOOL: Final = b'{"type":"function","function":'
#: Types of tools that the caller runs and describes; all others are Anthropic's.
_OWN_TOOLS: Final = frozenset({_NULL, b'"custom"'})
_SYSTEM_ROLE: Final = b'"system"'


def read_native(
    fields: Mapping[str, bytes], messages: tuple[bytes, ...]
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The messages and the tools of a Messages body with these fields, which holds ``messages``.

    Raises:
        Unplannable: If it cannot be read, or is part of a thread that its provider keeps.
    """
    if fields.get(_THREAD, _NULL) != _NULL:
        raise Unplannable("its provider keeps the conversation")
    if messages and members(messages[0]).get("role") == _SYSTEM_ROLE:
        raise Unplannable("its first message is the system's")
    tools = fields.get(_TOOLS, _NULL)
    offered = () if tools == _NULL else tuple(map(_known_tool, known_elements(tools)))
    return (*_system_message(fields), *messages), offered


def empty_native_fields(fields: Mapping[str, bytes]) -> dict[str, bytes]:
    """The fields without those that ``read_native`` returns; each keeps its place."""
    emptied = {**fields, _MESSAGES: b""}
    for name in (_SYSTEM, _TOOLS):
        if emptied.get(name, _NULL) != _NULL:
            emptied[name] = b""
    return emptied


def native_fields(
    fields: Mapping[str, bytes], messages: Sequence[bytes], tools: Sequence[bytes]
) -> dict[str, bytes]:
    """The fields of a Messages body from emptied ones, with these messages and tools."""
    body_fields = dict(fields)
    first = 0
    if body_fields.get(_SYSTEM) == b"":
        roles = [members(message).get("role") for message in messages]
        first = next(
            (index for index, role in enumerate(roles) if role != _SYSTEM_ROLE), len(roles)
        )
        body_fields[_SYSTEM] = _system_field(messages[:first])
        if not body_fields[_SYSTEM]:
            del body_fields[_SYSTEM]
    if body_fields.get(_TOOLS) == b"":
        body_fields[_TOOLS] = write_list(map(_original_tool, tools))
    body_fields[_MESSAGES] = write_list(messages[first:])
    return body_fields


def _system_message(fields: Mapping[str, bytes]) -> Iterator[bytes]:
    raw = fields.get(_SYSTEM, _NULL)
    if raw == _NULL:
        return
    if raw[:1] not in (b'"', b"["):
        raise Unplannable("a system prompt that is neither text nor blocks")
    if raw not in (b'""', b"[]"):
        yield _FRAME + raw + b"}"
    else:
        raise Unplannable("a system prompt without words")


def _system_field(messages: Sequence[bytes]) -> bytes:
    """The system prompt of the messages that lead; b"" for none."""
    contents = [members(message)["content"] for message in messages]
    if len(contents) < 2:
        return contents[0] if contents else b""
    parts = (
        (as_content_part(content),) if content[:1] == b'"' else elements(content)
        for content in contents
    )
    return write_list(chain.from_iterable(parts))


def _chat_tool(raw: bytes) -> bytes:
    """The tool in chat's form; one of Anthropic's own stays as it is."""
    fields = members(raw)
    if "function" in fields:
        raise Unplannable("a tool in chat's form")
    return _TOOL + raw + b"}" if fields.get("type", _NULL) in _OWN_TOOLS else raw


def _native_tool(tool: bytes) -> bytes:
    """The tool unmodified; what was put beside it is put into it, at its end."""
    if not tool.startswith(_TOOL):
        return tool
    fields = members(tool)
    beside = {name: raw for name, raw in fields.items() if name not in ("type", "function")}
    inner = fields["function"]
    for name, raw in beside.items():
        inner = inner.rstrip()[:-1] + b',"%b":%b}' % (name.encode(), raw)
    return inner


#: Tools seen lately, of all callers.
_known_tool: Final = known_conversion(_chat_tool)
_original_tool: Final = known_conversion(_native_tool)
