"""Anthropic's messages: reading the body.

Source: Anthropic, prompt caching and Messages API (2026-08).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from proxy.caches.port import CachedPrompt, Ttl
from proxy.tools.simulator.apis.clearing import clear_tool_results
from proxy.tools.simulator.apis.messages_rules import check
from proxy.tools.simulator.apis.prefilled_answers import messages_beginning
from proxy.tools.simulator.bodies import EFFORTS, Body, to_json, ttl
from proxy.tools.simulator.fault_directives import closing_text
from proxy.tools.simulator.rendering import PromptRenderer, RenderedPart, opaque, opening
from proxy.tools.simulator.replies import ReadingContext, ReplyRequest, ReplyTool
from proxy.tools.simulator.streams import Json

_PICTURE = 1_000  # tokens; the simulator's own figure
_CHARACTERS_PER_TOKEN = 4
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})


def read_messages_request(body: Body, context: ReadingContext) -> ReplyRequest:
    """Reads the request of a messages body."""
    check(body, context.model)
    tools = [
        ReplyTool(name=tool["name"], schema=dict(tool.get("input_schema") or {}))
        for tool in body.get("tools") or ()
    ]
    form = (body.get("output_config") or {}).get("format") or {}
    cleared, edits = clear_tool_results(
        body, lambda remaining: messages_prompt(remaining, context).tokens
    )
    return ReplyRequest(
        model=body["model"],
        prompt=messages_prompt(cleared, context),
        closing=closing_text(body),
        max_tokens=min(body["max_tokens"], context.model.max_output),
        stream=bool(body.get("stream")),
        tools=tools,
        forced=_forced_tools(body.get("tool_choice") or {}, tools),
        schema=dict(form.get("schema") or {}) if form.get("type") == "json_schema" else None,
        reasoning=_reasoning(body, context),
        shows_reasoning=True,
        stops=tuple(body.get("stop_sequences") or ()),
        echoes={"context_management": {"applied_edits": edits}}
        if body.get("context_management")
        else None,
        beginning=messages_beginning(
            cleared, lambda before: messages_prompt(before, context).tokens
        ),
    )


def messages_prompt(body: Body, context: ReadingContext) -> CachedPrompt:
    """The body's prompt, with its breakpoints.

    A cache entry is a hash of everything up to and including its block, so it is found again where
    the message goes on behind it.

    A change of tool choice or thinking loses the messages but neither tools nor system, so it
    changes the id that opens the first message and nothing before it.
    """
    automatic = ttl(body.get("cache_control"), "5m")
    rendering = PromptRenderer(context.vocabulary, goes_on=True)
    if body.get("tools"):
        rendering.message("tools", [_tool(rendering, tool) for tool in body["tools"]])
    if body.get("system"):
        rendering.message("system", _content_parts(rendering, body["system"]))
    start = opening(_cache_key_parts(body))
    last = len(body["messages"]) - 1
    for index, message in enumerate(body["messages"]):
        parts = _content_parts(rendering, message["content"])
        if automatic is not None and index == last:
            parts = _mark_last_block(parts, automatic)
        rendering.message(message["role"], parts, start)
        start = opening("")
    effort = (body.get("output_config") or {}).get("effort")
    form = (body.get("output_config") or {}).get("format")
    settings = (context.key, body["model"], effort, form and to_json(form))
    return rendering.to_prompt(scope="\n".join(str(setting) for setting in settings))


def _cache_key_parts(body: Body) -> str:
    """The parameters that the messages' cache depends on; "" for the defaults."""
    parts = [body.get("tool_choice"), body.get("thinking")]
    return to_json(parts) if any(parts) else ""


def _forced_tools(choice: Mapping[str, str], tools: Sequence[ReplyTool]) -> Sequence[str]:
    if choice.get("type") == "any" and tools:
        return [tools[0].name]
    return [choice["name"]] if choice.get("type") == "tool" else []


def _reasoning(body: Body, context: ReadingContext) -> int:
    """Tokens of thinking; a budget is used to a quarter, effort as on the other wire."""
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    if kind == "enabled":
        return int(thinking["budget_tokens"]) // 4
    if kind == "adaptive":
        effort = (body.get("output_config") or {}).get("effort") or "medium"
        return EFFORTS.get(effort, EFFORTS["medium"])
    return 0


def _tool(rendering: PromptRenderer, tool: Json) -> RenderedPart:
    bare = {name: value for name, value in tool.items() if name != "cache_control"}
    return rendering.text(to_json(bare), ttl(tool.get("cache_control"), "5m"))


def _content_parts(rendering: PromptRenderer, content: object) -> list[RenderedPart]:
    if isinstance(content, str):
        return [rendering.text(content)]
    return [_block(rendering, block) for block in content] if isinstance(content, list) else []


def _block(rendering: PromptRenderer, block: Json) -> RenderedPart:
    kind = block["type"]
    mark = ttl(block.get("cache_control"), "5m")
    if kind == "text":
        return rendering.text(block["text"], mark)
    if kind == "tool_use":
        return rendering.tool_call(block["name"], to_json(block["input"]), mark)
    if kind == "tool_result":
        return _result(rendering, block, mark)
    if kind == "thinking":
        return RenderedPart(kind, rendering.vocabulary.ids(block["thinking"]))
    source = to_json(block.get("source", block))
    count = _PICTURE if kind == "image" else len(source) // _CHARACTERS_PER_TOKEN + 1
    return opaque(kind, source, count, mark)


def _result(rendering: PromptRenderer, block: Json, mark: Ttl | None) -> RenderedPart:
    parts = _content_parts(rendering, block.get("content", ""))
    tokens = tuple(token for part in parts for token in part.tokens)
    return RenderedPart("tool_result", tokens, mark)


def _mark_last_block(parts: Sequence[RenderedPart], automatic: Ttl) -> list[RenderedPart]:
    """The blocks with the last one that can be cached marked, unless it is already."""
    marked = list(parts)
    for index in reversed(range(len(marked))):
        if marked[index].kind not in _UNMARKABLE and marked[index].tokens:
            marked[index] = replace(marked[index], mark=marked[index].mark or automatic)
            break
    return marked
