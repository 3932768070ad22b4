"""OpenAI's chat completions: reading the body.

Unknown fields are let be, as the many servers that speak this wire do.

Source: OpenAI, prompt caching guide (2026-09) and chat reference (openai 3.52).
"""

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from proxy.caches.port import CachedPrompt, Role
from proxy.errors import UpstreamError
from proxy.providers.fitting.schema_fitting import fit_schema
from proxy.providers.fitting.schema_rules import SchemaRules
from proxy.tools.simulator.apis.prefilled_answers import chat_beginning
from proxy.tools.simulator.bodies import (
    EFFORTS,
    Body,
    output_bound,
    required_field,
    stops,
    to_json,
    ttl,
    wants_usage_chunk,
)
from proxy.tools.simulator.fault_directives import closing_text
from proxy.tools.simulator.refusals import provider_refusal
from proxy.tools.simulator.rendering import PromptRenderer, RenderedPart, opaque
from proxy.tools.simulator.replies import ReadingContext, ReplyRequest, ReplyTool
from proxy.tools.simulator.streams import Json

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_REASONING = re.compile(r"(gpt-5|gpt-6|o\d)")
_MOST_CHOICES = 8
_PICTURE = {"low": 85}  # tokens by detail; the simulator's own figure for the others is below
_USUAL_PICTURE = 765
_FILE_CHARACTERS_PER_TOKEN = 4


def read_chat_request(body: Body, context: ReadingContext) -> ReplyRequest:
    """Reads the request of a chat body."""
    messages = required_field(body, "messages", list)
    _check(body, messages, context)
    tools = [_tool(tool) for tool in body.get("tools") or ()]
    bound = output_bound(body, ("max_completion_tokens", "max_tokens"), context.model.max_output)
    form = body.get("response_format") or {}
    effort = body.get("reasoning_effort") or "none"
    return ReplyRequest(
        model=body["model"],
        prompt=chat_prompt(body, context),
        closing=closing_text(body),
        max_tokens=bound,
        stream=bool(body.get("stream")),
        usage_chunk=wants_usage_chunk(body, context.model),
        tools=tools,
        forced=forced_tools(body.get("tool_choice"), tools),
        schema=_schema(form),
        reasoning=EFFORTS.get(effort, 0),
        stops=stops(body.get("stop")),
        n=output_bound({"n": 1, **body}, ("n",), _MOST_CHOICES),
        echoes={"service_tier": body.get("service_tier") or "default"},
        beginning=chat_beginning(
            body, context.model.continues, lambda before: chat_prompt(before, context).tokens
        ),
    )


def forced_tools(choice: object, tools: Sequence[ReplyTool]) -> Sequence[str]:
    """The tools that a ``tool_choice`` obliges the model to call."""
    if choice == "required" and tools:
        return [tools[0].name]
    if isinstance(choice, dict):
        named = choice.get("function") or choice.get("custom") or choice
        name = named.get("name")
        if name is not None and all(tool.name != name for tool in tools):
            raise provider_refusal(400, f"There is no tool named {name!r}.", param="tool_choice")
        return [name] if name else []
    return []


def _check(body: Body, messages: list[Json], context: ReadingContext) -> None:
    if "max_tokens" in body and _REASONING.match(body["model"]):
        raise provider_refusal(
            400,
            "'max_tokens' is not supported with this model; use 'max_completion_tokens'.",
            code="unsupported_parameter",
            param="max_tokens",
        )
    if context.model.regime == "openai-interval":
        check_unmarked(body, messages)
    _check_tools(body, context)
    if context.model.schema_rules is not None:
        _check_schemas(body, context.model.schema_rules)
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        waiting = _unanswered_calls(index, message, waiting)
    if waiting:
        raise _missing_answers_error(waiting, len(messages) - 1)


def _check_tools(body: Body, context: ReadingContext) -> None:
    """Refuse tools beside reasoning, and all chat, where the model takes them in Responses alone.

    Source: openai/openai-openapi 541 (2026-05); BerriAI/litellm 34569: an effort that is not sent
    is not none.
    """
    if "responses_only" in context.model.traits:
        reason = "This model is only supported in v1/responses and not in v1/chat/completions."
        raise provider_refusal(400, reason, param="model")
    is_none = body.get("reasoning_effort") == "none"
    if "tools_at_none" in context.model.traits and body.get("tools") and not is_none:
        raise provider_refusal(
            400,
            f"Function tools with reasoning_effort are not supported for {body['model']} in"
            " /v1/chat/completions. To use function tools, use /v1/responses or set"
            " reasoning_effort to 'none'.",
            param="reasoning_effort",
        )


def _check_schemas(body: Body, rules: SchemaRules) -> None:
    """Refuse what a provider documents as refused in schemas of tools and of the answer."""
    functions = [tool.get("function") or {} for tool in body.get("tools") or ()]
    is_held = not rules.is_strict_only
    schemas = [one.get("parameters") for one in functions if is_held or one.get("strict")]
    schemas.append(((body.get("response_format") or {}).get("json_schema") or {}).get("schema"))
    for schema in filter(None, schemas):
        fitted = fit_schema(Raw(msgspec.json.encode(schema)), rules)
        if fitted.moved or fitted.is_closed:
            refused = fitted.moved[0] if fitted.moved else "an open object"
            raise provider_refusal(400, f"Invalid schema: {refused!r} is not supported.")


def check_unmarked(body: Body, messages: Sequence[Json]) -> None:
    """Refuse what only later models know.

    Source: OpenAI, prompt caching guide (2026-09).
    """
    contents = [message.get("content", message.get("output")) for message in messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    fields = set(body).union(*(part for part in parts if isinstance(part, dict)))
    for name in ("prompt_cache_options", "prompt_cache_breakpoint"):
        if name in fields:
            raise provider_refusal(
                400,
                f"'{name}' is not supported with this model.",
                code="unsupported_parameter",
                param=name,
            )


def _unanswered_calls(index: int, message: Json, waiting: set[str]) -> set[str]:
    """The tool calls still without an answer after this message."""
    role = message.get("role")
    if role not in _ROLES:
        raise provider_refusal(
            400, f"messages[{index}].role: {role!r} is unknown.", param="messages"
        )
    if role == "tool":
        answered = message.get("tool_call_id")
        if answered not in waiting:
            reason = f"messages[{index}]: a 'tool' message must answer a preceding tool call."
            raise provider_refusal(400, reason, param=f"messages.[{index}].role")
        return waiting - {str(answered)}
    if waiting:
        raise _missing_answers_error(waiting, index)
    return {call["id"] for call in message.get("tool_calls") or ()}


def _missing_answers_error(waiting: set[str], index: int) -> UpstreamError:
    ids = ", ".join(sorted(waiting))
    return provider_refusal(
        400,
        f"Tool calls must be followed by 'tool' messages that answer them; missing: {ids}.",
        param=f"messages.[{index}].role",
    )


def _tool(tool: Json) -> ReplyTool:
    inner = tool.get(tool.get("type", "function")) or {}
    return ReplyTool(name=inner["name"], schema=dict(inner.get("parameters") or {}))


def _schema(form: Json) -> Json | None:
    if form.get("type") == "json_schema":
        return dict(form["json_schema"].get("schema") or {})
    return {} if form.get("type") == "json_object" else None


def cacheable(
    rendering: PromptRenderer, body: Body, context: ReadingContext, *shaping: object
) -> CachedPrompt:
    """The prompt for its cache: the key's own, for one model and what else shapes the prefix.

    Source: OpenAI, prompt caching guide (2026-09).
    """
    options = body.get("prompt_cache_options") or {}
    parts = (context.key, body["model"], body.get("parallel_tool_calls"), *shaping)
    return rendering.to_prompt(
        scope="\n".join(map(str, parts)),
        key=str(body.get("prompt_cache_key") or body.get("cache_salt") or ""),
        explicit=options.get("mode") == "explicit",
        ttl=ttl(options, "30m") if options else None,
        retention=str(body.get("prompt_cache_retention") or context.model.prompt_cache_retention),
    )


def blocks(rendering: PromptRenderer, message: Json) -> list[RenderedPart]:
    """The blocks of a message: its content, what it refuses with, and the tools it calls."""
    parts = content_parts(rendering, message.get("content"))
    if message.get("refusal"):
        parts.append(rendering.text(message["refusal"]))
    return parts + [_tool_call(rendering, call) for call in message.get("tool_calls") or ()]


def content_parts(rendering: PromptRenderer, content: object) -> list[RenderedPart]:
    """The blocks of a message's content, given as text or as parts."""
    if content is None:
        return []
    if isinstance(content, str):
        return [rendering.text(content)]
    if not isinstance(content, list):
        raise provider_refusal(400, "content: must be text or a list of parts.", param="messages")
    return [_part(rendering, part) for part in content]


def _part(rendering: PromptRenderer, part: Json) -> RenderedPart:
    kind = part["type"]
    mark = ttl(part.get("prompt_cache_breakpoint"), "30m")
    content = part.get("text", part.get("refusal"))
    if isinstance(content, str):
        return rendering.text(content, mark)
    inner = part.get(kind, part)
    detail = inner.get("detail") if isinstance(inner, dict) else part.get("detail")
    text = to_json(inner)
    if "image" in kind:
        return opaque("image", text, _PICTURE.get(str(detail), _USUAL_PICTURE), mark)
    return opaque(kind, text, len(text) // _FILE_CHARACTERS_PER_TOKEN + 1, mark)


def chat_prompt(body: Body, context: ReadingContext) -> CachedPrompt:
    """The body's prompt, with its breakpoints."""
    rendering = PromptRenderer(context.vocabulary)
    if body.get("tools"):
        rendering.message("tools", [rendering.text(to_json(tool)) for tool in body["tools"]])
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        rendering.message("system", [rendering.text(to_json(form["json_schema"]))])
    for message in body["messages"]:
        rendering.message(_ROLES[message["role"]], blocks(rendering, message))
    shaping = (body.get("reasoning_effort"), body.get("verbosity"))
    return cacheable(rendering, body, context, *shaping)


def _tool_call(rendering: PromptRenderer, call: Json) -> RenderedPart:
    inner = call[call.get("type", "function")]
    return rendering.tool_call(inner["name"], inner.get("arguments", inner.get("input", "")))
