"""Reads reported usage, and rejects counts that the model and its window cannot give."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from proxy.calls.eligibility.output_limits import MAX_OUTPUT_TOKENS, output_allowance
from proxy.catalog.entries import Route
from proxy.providers.port import Wire
from proxy.records.call import Call
from slo.usage import Usage

#: Tokens of the largest window of any model. Source: Meta, Llama 4 Scout, model card (2026-11).
_LARGEST_WINDOW_TOKENS: Final = 10_000_000
#: Catalogs lag behind models: so many times the window and output that they state is believed.
_TOLERANCE: Final = 8
#: Most prompts and answers of one call whose provider runs tools by itself.
_MAX_PASSES: Final = 64
#: Beginnings of the types of tools that the caller runs: the model sees their results in its next
#: call. Source: OpenAI and Anthropic API references, tools (2026-11).
_CALLER_RUN_TOOLS: Final = (
    "apply_patch", "bash_", "computer", "custom", "function", "local_shell", "memory_",
    "text_editor_",
)  # fmt: skip


class _Tool(msgspec.Struct):
    """The field of a tool that tells who runs it."""

    type: Any = None


class _ToolFields(msgspec.Struct):
    """The members of a body by which its provider may run tools.

    Attributes:
        prompt: In Responses, a template that the provider keeps, which may have tools.
    """

    tools: list[_Tool] | None = None
    mcp_servers: Any = None
    web_search_options: Any = None
    prompt: Any = None


_TOOL_FIELDS: Final = msgspec.json.Decoder(_ToolFields)

UsageReader = Callable[[Mapping[str, Any]], Usage | None]


def usage_reader(wire: Wire, call: Call, route: Route) -> UsageReader:
    """A function that reads the usage objects of a call's answer; None for impossible counts."""
    return partial(_read_usage, wire, call, route)


def is_possible(usage: Usage, call: Call, route: Route) -> bool:
    """True if a call can have used so much: no ledger takes over an upstream's absurd counts."""
    prompt = _TOLERANCE * route.window if route.window else _LARGEST_WINDOW_TOKENS
    output = _TOLERANCE * route.max_output if route.max_output else MAX_OUTPUT_TOKENS
    if usage.prompt_tokens <= prompt and usage.generated_tokens <= output:
        return True
    passes = _MAX_PASSES if _may_run_tools(call) else 1
    choices = output_allowance(call.body, call.endpoint, route).choices
    return (
        usage.prompt_tokens <= max(passes * prompt, len(call.body))  # no token is below a byte
        and usage.generated_tokens <= passes * choices * output
    )


def _may_run_tools(call: Call) -> bool:
    """True if the provider may run tools by itself, and answer their results in the same call."""
    if call.endpoint == "completions":
        return False
    try:
        fields = _TOOL_FIELDS.decode(call.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    tool_sources = [fields.mcp_servers, fields.prompt if call.endpoint == "responses" else None]
    return (
        any(tool_sources)
        or fields.web_search_options is not None  # an empty object asks for it, too
        or any(map(_is_hosted, fields.tools or ()))
    )


def _is_hosted(tool: _Tool) -> bool:
    """True if the tool is none that its caller runs; those without a type are the caller's."""
    return isinstance(tool.type, str) and not tool.type.startswith(_CALLER_RUN_TOOLS)


def _read_usage(wire: Wire, call: Call, route: Route, reported: Mapping[str, Any]) -> Usage | None:
    usage = wire.usage(reported, route.upstream.provider)
    return usage if usage is None or is_possible(usage, call, route) else None
