"""The calls that may be given the recall tool, and their prompt with it; pure.

===========  ====================================================================================
use          its prompt
===========  ====================================================================================
``OFFERED``  has the tool behind its own, so that those before it stay in the provider's cache; all
             other fields stay as they are
``LISTED``   has it too, with ``tool_choice`` ``none``: its answer has a form of its own. Without
             the tool its prompt would begin otherwise than that of the call before it
``NONE``     is compacted as in mode ``facts``
===========  ====================================================================================

Source: OpenAI API reference, create a chat completion, create a response; Anthropic API, create a
message, and tools that Anthropic defines (2026-11).
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

import msgspec

from compaction.recall.tool_index import TOOL, TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA
from proxy.catalog.entries import Route
from proxy.prefix.prompts.items import is_items, is_stored
from proxy.prefix.prompts.prompt import Prompt

_TOOLS: Final = "tools"
#: Fields with which a call without tools of its own is left without one: they rule tools out, or
#: say how a prompt that has none is answered.
_WITHOUT_TOOLS: Final = ("tool_choice", "prediction", "modalities", "audio", "web_search_options")
#: Fields with which no call is given one: the form of its answer is its caller's, or the provider
#: acts for itself.
_NEVER: Final = (
    "functions",
    "function_call",
    "prediction",
    "audio",
    "mcp_servers",
    "container",
    "output_format",
)
_NULL: Final = b"null"
_FALSE: Final = b"false"
_ONE: Final = b"1"
_TEXT: Final = "text"
#: Tools that callers run: by all of their type, and by how it begins.
_OWN_TOOLS: Final = frozenset({"function", "custom"})
_OWN_ANTHROPIC_TOOLS: Final = ("bash_", "computer_", "memory_", "text_editor_")
#: Most tools of a call. Source: OpenAI API reference, create a chat completion (2026-11).
_MAX_TOOLS: Final = 128
_NAMED: Final[dict[str, Any]] = {"name": TOOL_NAME, "description": TOOL_DESCRIPTION}
_PARAMETERS: Final = {"parameters": TOOL_SCHEMA, "strict": False}
#: The tool of a Messages and of a Responses body, in the shape that planning has of them.
_MESSAGES_TOOL: Final = msgspec.json.encode(
    {"type": "function", "function": {**_NAMED, "input_schema": TOOL_SCHEMA}}
)
_RESPONSES_TOOL: Final = msgspec.json.encode(
    {"type": "function", "function": {"type": "function", **_NAMED, **_PARAMETERS}}
)


class RecallUse(Enum):
    """The part of the recall tool in a call."""

    NONE = auto()
    LISTED = auto()
    OFFERED = auto()


class RecallRules(msgspec.Struct, frozen=True):
    """The rules of a route about the tool.

    Attributes:
        calls_tools: True if its model calls tools.
        keeps_responses: True if its provider keeps Responses that do not say otherwise. Its caller
            might go on from one that has a recall, which nothing answers there.
        lists_tools: True if it takes tools that must not be called beside a form of the answer, and
            its cache reads a prompt whatever its ``tool_choice``.
    """

    calls_tools: bool = False
    keeps_responses: bool = True
    lists_tools: bool = False


class _Typed(msgspec.Struct):
    type: str = ""


class _Formed(msgspec.Struct):
    format: _Typed | None = None


_typed: Final = msgspec.json.Decoder(_Typed).decode
_typed_or_null: Final = msgspec.json.Decoder(_Typed | None).decode
_formed_or_null: Final = msgspec.json.Decoder(_Formed | None).decode


def recall_rules(route: Route) -> RecallRules:
    """The rules of a route about the tool."""
    upstream = route.upstream
    return RecallRules(
        calls_tools=route.can is None or "tools" in route.can,
        keeps_responses=upstream.serves_responses,
        lists_tools=upstream.kind == "openai",
    )


def recall_use(prompt: Prompt, rules: RecallRules) -> RecallUse:
    """The part of the tool in a call; only one answer of words is offered it."""
    fields = {name: raw.strip() for name, raw in prompt.fields.items() if raw.strip() != _NULL}
    if not rules.calls_tools or not _has_room(prompt) or _rule_out(prompt, fields):
        return RecallUse.NONE
    if is_items(prompt.fields) and not _is_stateless(fields, rules):
        return RecallUse.NONE
    if _answers_in_words(fields):
        return RecallUse.OFFERED
    return RecallUse.LISTED if rules.lists_tools and not prompt.tools else RecallUse.NONE


def _rule_out(prompt: Prompt, fields: Mapping[str, bytes]) -> bool:
    """True if fields of a call leave no place for the tool."""
    if fields.get("n", _ONE) != _ONE or any(name in fields for name in _NEVER):
        return True
    return not prompt.tools and any(name in fields for name in _WITHOUT_TOOLS)


def _is_stateless(fields: Mapping[str, bytes], rules: RecallRules) -> bool:
    """True if the provider keeps nothing of a Responses call."""
    is_kept = rules.keeps_responses and is_stored(fields)
    return not is_kept and fields.get("background", _FALSE) == _FALSE


def _has_room(prompt: Prompt) -> bool:
    """True if one more tool of the caller's kind may stand beside its own."""
    if any(TOOL_NAME.encode() in tool for tool in prompt.tools):
        return False
    try:
        kinds = {_typed(tool).type for tool in prompt.tools}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    others = kinds - _OWN_TOOLS
    has_own = not others or (
        prompt.is_native and all(kind.startswith(_OWN_ANTHROPIC_TOOLS) for kind in others)
    )
    return has_own and len(prompt.tools) < _MAX_TOOLS


def _answers_in_words(fields: Mapping[str, bytes]) -> bool:
    """True if the answer has no form that its caller gave it."""
    try:
        form = _typed_or_null(fields.get("response_format", _NULL))
        options = [_formed_or_null(fields.get(name, _NULL)) for name in (_TEXT, "output_config")]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    forms = [form, *(option.format for option in options if option is not None)]
    return all(one is None or one.type == _TEXT for one in forms)


def with_recall_tool(prompt: Prompt, use: RecallUse) -> Prompt:
    """The prompt with the recall tool behind its own."""
    fields = dict(prompt.fields)
    if fields.get(_TOOLS, _NULL).strip() == _NULL:
        fields[_TOOLS] = b""
    if use is RecallUse.LISTED:
        fields["tool_choice"] = b'"none"'
    tool = TOOL
    if prompt.is_native:
        tool = _MESSAGES_TOOL
    elif is_items(prompt.fields):
        tool = _RESPONSES_TOOL
    return msgspec.structs.replace(prompt, fields=fields, tools=(*prompt.tools, tool))
