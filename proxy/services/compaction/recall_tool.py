"""The calls that may be given the recall tool, and their prompt with it; pure.

A call without it is compacted as in mode ``facts``. Its own tools, ``tool_choice`` and all other
fields stay as they are; the tool comes last, so that those before it stay in the provider's cache.
"""

from typing import Final

import msgspec

from compaction.recall.tool_index import TOOL, TOOL_NAME
from proxy.catalog.entries import Route
from proxy.prefix.prompts.prompt import Prompt
from proxy.services.compaction.signed_thinking import may_return_thinking

_TOOLS: Final = "tools"
#: Fields with which a call without tools of its own is left without one: they rule tools out, or
#: say how a prompt that has none is answered.
_WITHOUT_TOOLS: Final = ("tool_choice", "prediction", "modalities", "audio", "web_search_options")
#: Fields with which no call is given one: the form of its answer is its caller's.
_NEVER: Final = ("functions", "function_call", "prediction", "audio")
_NULL: Final = b"null"
_ONE: Final = b"1"
_FUNCTION: Final = "function"
_TEXT: Final = "text"
#: Most tools of a call. Source: OpenAI API reference, create a chat completion (2026-11).
_MAX_TOOLS: Final = 128


class _Typed(msgspec.Struct):
    type: str = ""


_typed: Final = msgspec.json.Decoder(_Typed).decode
_typed_or_null: Final = msgspec.json.Decoder(_Typed | None).decode


def route_takes_recall(body: bytes, route: Route) -> bool:
    """True if a route's model calls tools, and sends back nothing that is bound to its place.

    Args:
        body: The call's, or as much of it as asks for thinking.
    """
    calls_tools = route.can is None or "tools" in route.can
    return calls_tools and not may_return_thinking(body, route)


def takes_recall(prompt: Prompt) -> bool:
    """True if a call may be given the recall tool: one answer in words, and no tool of its name."""
    fields = {name: raw.strip() for name, raw in prompt.fields.items() if raw.strip() != _NULL}
    if fields.get("n", _ONE) != _ONE or any(name in fields for name in _NEVER):
        return False
    if not prompt.tools and any(name in fields for name in _WITHOUT_TOOLS):
        return False
    if any(TOOL_NAME.encode() in tool for tool in prompt.tools):
        return False
    try:
        kinds = {_typed(tool).type for tool in prompt.tools}
        answer_form = _typed_or_null(fields.get("response_format", _NULL))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    has_room = len(prompt.tools) < _MAX_TOOLS and kinds <= {_FUNCTION}
    return has_room and (answer_form is None or answer_form.type == _TEXT)


def with_recall_tool(prompt: Prompt) -> Prompt:
    """The prompt with the recall tool behind its own."""
    fields = prompt.fields if _TOOLS in prompt.fields else {**prompt.fields, _TOOLS: b""}
    if fields[_TOOLS].strip() == _NULL:
        fields = {**fields, _TOOLS: b""}
    return msgspec.structs.replace(prompt, fields=fields, tools=(*prompt.tools, TOOL))
