"""Reads reported usage, and believes no counts that the model and its window cannot give."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from proxy.calls.output_limits import MAX_OUTPUT_TOKENS, output_allowance
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
#: Members of a body by which its provider may run tools.
_TOOL_MEMBERS: Final = (b'"tools"', b'"prompt"', b'"mcp_servers"')

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
    runs_tools = any(member in call.body for member in _TOOL_MEMBERS)
    passes = _MAX_PASSES if runs_tools and call.endpoint != "completions" else 1
    choices = output_allowance(call.body, call.endpoint, route).choices
    return (
        usage.prompt_tokens <= max(passes * prompt, len(call.body))  # no token is below a byte
        and usage.generated_tokens <= passes * choices * output
    )


def _read_usage(wire: Wire, call: Call, route: Route, found: Mapping[str, Any]) -> Usage | None:
    usage = wire.usage(found, route.upstream.provider)
    return usage if usage is None or is_possible(usage, call, route) else None
