"""OpenAI's Responses: reading the body.

Source: OpenAI, prompt caching guide (2026-09) and Responses reference (openai 3.52).
"""

from collections.abc import Mapping, Sequence

from proxy.caches.port import CachedPrompt, Role
from proxy.tools.simulator.apis.chat_bodies import (
    cacheable,
    check_unmarked,
    content_parts,
    forced_tools,
)
from proxy.tools.simulator.bodies import EFFORTS, Body, output_bound, required_field, to_json
from proxy.tools.simulator.fault_directives import closing_text
from proxy.tools.simulator.refusals import provider_refusal
from proxy.tools.simulator.rendering import PromptRenderer
from proxy.tools.simulator.replies import ReadingContext, ReplyRequest, ReplyTool, signature
from proxy.tools.simulator.streams import Json

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}
#: Traits of the models that name the phase of their messages: GPT-5.3-Codex, GPT-5.4 and later.
#: Source: openai 3.52, ``ResponseOutputMessage``.
_PHASED = frozenset({"responses_only", "tools_at_none"})
_PHASES = (None, "commentary", "final_answer")


def items(body: Body) -> list[Json]:
    """The input as items; text alone is a user's message."""
    value = required_field(body, "input", (str, list))
    return [{"role": "user", "content": value}] if isinstance(value, str) else list(value)


def read_responses_request(body: Body, context: ReadingContext) -> ReplyRequest:
    """Reads the request of a Responses body."""
    turns = items(body)
    _check(turns)
    if context.model.regime == "openai-interval":
        check_unmarked(body, turns)
    tools = [
        ReplyTool(name=tool["name"], schema=dict(tool.get("parameters") or {}))
        for tool in body.get("tools") or ()
        if "name" in tool
    ]
    form = (body.get("text") or {}).get("format") or {}
    effort = (body.get("reasoning") or {}).get("effort") or "none"
    return ReplyRequest(
        model=body["model"],
        prompt=_responses_prompt(body, turns, context),
        closing=closing_text(body),
        max_tokens=output_bound(body, ("max_output_tokens",), context.model.max_output),
        stream=bool(body.get("stream")),
        tools=tools,
        forced=forced_tools(body.get("tool_choice"), tools),
        schema=_schema(form),
        reasoning=EFFORTS.get(effort, 0),
        seals_reasoning="reasoning.encrypted_content" in (body.get("include") or ()),
        names_phase=not _PHASED.isdisjoint(context.model.traits),
        echoes=_echoes(body),
    )


def _check(turns: Sequence[Json]) -> None:
    """Each output answers a call before it, each call is answered, and no seal is broken."""
    _check_reasoning([item for item in turns if item.get("type") == "reasoning"])
    open_calls: set[str] = set()
    for item in turns:
        if item.get("phase") not in _PHASES:
            raise provider_refusal(400, f"Invalid value: {item['phase']!r}.", param="input")
        if item.get("type") == "function_call":
            open_calls.add(item["call_id"])
        elif item.get("type") == "function_call_output":
            if item["call_id"] not in open_calls:
                raise provider_refusal(
                    400, f"No tool call found for output {item['call_id']}.", param="input"
                )
            open_calls.discard(item["call_id"])
    if open_calls:
        names = ", ".join(sorted(open_calls))
        raise provider_refusal(
            400, f"No tool output found for function call {names}.", param="input"
        )


def _check_reasoning(items: Sequence[Json]) -> None:
    """Each item stands there once, with the seal that it was given.

    Source: OpenAI's errors (openai/codex 8145, 2025-12; vercel/ai 7883, 2025-08).
    """
    ids: set[str] = set()
    for item in items:
        name, sealed = str(item.get("id") or ""), item.get("encrypted_content")
        if sealed is not None and sealed != signature(name):
            reason = f"The encrypted content for item {name} could not be verified."
            raise provider_refusal(400, reason, code="invalid_encrypted_content")
        if name and name in ids:
            message = f"Duplicate item found with id {name}. Remove duplicate items."
            raise provider_refusal(400, message, param="input")
        ids.add(name)


def _echoes(body: Body) -> Json:
    """The fields that a response repeats of its request."""
    return {
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": body.get("reasoning") or {"effort": None, "summary": None},
        "service_tier": body.get("service_tier") or "default",
        "store": body.get("store", True),
        "temperature": body.get("temperature"),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "truncation": body.get("truncation") or "disabled",
    }


def _schema(form: Json) -> Json | None:
    if form.get("type") == "json_schema":
        return dict(form.get("schema") or {})
    return {} if form.get("type") == "json_object" else None


def _responses_prompt(body: Body, turns: Sequence[Json], context: ReadingContext) -> CachedPrompt:
    rendering = PromptRenderer(context.vocabulary)
    if body.get("tools"):
        rendering.message("tools", [rendering.text(to_json(tool)) for tool in body["tools"]])
    text = body.get("text") or {}
    if (text.get("format") or {}).get("type") == "json_schema":
        rendering.message("system", [rendering.text(to_json(text["format"]))])
    if body.get("instructions"):
        rendering.message("developer", [rendering.text(body["instructions"])])
    for item in turns:
        _item(rendering, item)
    shaping = ((body.get("reasoning") or {}).get("effort"), text.get("verbosity"))
    return cacheable(rendering, body, context, *shaping)


def _item(rendering: PromptRenderer, item: Json) -> None:
    match item.get("type", "message"):
        case "message":
            role = str(item.get("role"))
            if role not in _ROLES:
                raise provider_refusal(400, f"role: {role!r} is unknown.", param="input")
            rendering.message(_ROLES[role], content_parts(rendering, item.get("content")))
        case "function_call":
            rendering.message("assistant", [rendering.tool_call(item["name"], item["arguments"])])
        case "additional_tools":
            tools = [rendering.text(to_json(tool)) for tool in item.get("tools") or ()]
            rendering.message("tools", tools)
        case "function_call_output":
            rendering.message("tool", content_parts(rendering, item.get("output")))
        case _:
            rendering.message("assistant", [rendering.text(to_json(item))])
