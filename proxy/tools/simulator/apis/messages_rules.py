"""Refuses messages bodies that Anthropic's API refuses.

Source: Anthropic, prompt caching, versioning and Messages API (2026-08).
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw

from proxy.errors import UpstreamError
from proxy.providers.fitting.schema_fitting import fit_schema
from proxy.providers.fitting.schema_rules import ANTHROPIC
from proxy.tools.simulator.bodies import Body, required_field
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.refusals import provider_refusal
from proxy.tools.simulator.replies import signature
from proxy.tools.simulator.streams import Json

_KNOWN = frozenset(
    {
        "cache_control", "compaction", "container", "context_management", "diagnostics",
        "inference_geo", "max_tokens", "mcp_servers", "messages", "metadata", "model",
        "output_config", "service_tier", "speed", "stop_sequences", "stream", "system",
        "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p",
    }
)  # fmt: skip
_SAMPLING = ("temperature", "top_p", "top_k")
_MOST_BREAKPOINTS = 4
_LEAST_BUDGET = 1024
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})


def check(body: Body, model: SimulatedModel) -> None:
    """Pass a body that the real API would take."""
    if body.get("thread"):
        raise _unsupported_thread()
    for name in body:
        if name not in _KNOWN:
            raise _refusal(f"{name}: Extra inputs are not permitted")
    _check_bound(body)
    messages = required_field(body, "messages", list)
    _check_turns(messages, model, compacts=bool(body.get("compaction")))
    _check_tools(messages)
    _check_sampling(body, model)
    _check_thinking(body, model)
    _check_choice(body, model)
    _check_format(body, model)
    _check_strict_tools(body)
    _check_breakpoints(body)


def blocks(body: Body) -> Iterator[Json]:
    """Every block of the body in wire order: tools, system, messages."""
    yield from body.get("tools") or ()
    yield from _blocks(body.get("system"))
    for message in body["messages"]:
        yield from _blocks(message["content"])


def _blocks(content: object) -> Sequence[Json]:
    return content if isinstance(content, list) else ()


def _refusal(message: str) -> UpstreamError:
    return provider_refusal(400, message)


def _unsupported_thread() -> UpstreamError:
    """The refusal of a conversation that the provider is to keep, which the simulator never does.

    Source: anthropic 2.11, message threads (2026-11).
    """
    error = _refusal("thread: not supported for this request")
    details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    error.details = {"details": details}
    return error


def _check_bound(body: Body) -> None:
    bound = body.get("max_tokens")
    if bound is None:
        raise _refusal("max_tokens: Field required")
    if type(bound) is not int or bound < 0 or (bound == 0 and body.get("stream")):
        raise _refusal("max_tokens: must be at least 1; 0 only prewarms, without a stream")
    if any(not stop.strip() for stop in body.get("stop_sequences") or ()):
        raise _refusal("stop_sequences: each must hold more than whitespace")


def _check_turns(messages: Sequence[Json], model: SimulatedModel, *, compacts: bool) -> None:
    for index, message in enumerate(messages):
        role = message.get("role")
        allowed = ("user", "assistant", "system") if "mid_system" in model.traits else ()
        if role not in (allowed or ("user", "assistant")):
            raise _refusal(f"messages.{index}.role: {role!r} is not allowed")
        if role == "system" and (index == 0 or messages[index - 1].get("role") != "user"):
            raise _refusal(f"messages.{index}: a system message must follow a user message")
        _check_content(index, message)
    if messages[0]["role"] != "user" and not _is_compaction(messages[0], 0):
        raise _refusal("messages: the first message must be the user's")
    ends = messages[-1]["role"] == "assistant" and not _is_compaction(messages[-1], -1)
    if ends and "prefill" not in model.traits and not compacts:
        raise _refusal("messages: this model does not take a prefilled assistant message")
    if ends and not compacts:
        _check_prefill(messages[-1]["content"])


def _check_prefill(content: str | list[Json]) -> None:
    """Refuse a beginning of the answer that ends in white space."""
    last = content if isinstance(content, str) else str(content[-1].get("text") or "")
    if last != last.rstrip():
        raise _refusal("messages: final assistant content cannot end with trailing whitespace")


def _is_compaction(message: Json, place: int) -> bool:
    """True if the block at this place of a message stands for all before it."""
    content = _blocks(message["content"])
    return bool(content) and content[place].get("type") == "compaction"


def _check_content(index: int, message: Json) -> None:
    content = message.get("content")
    if not isinstance(content, str | list) or not content:
        raise _refusal(f"messages.{index}.content: must not be empty")
    for place, block in enumerate(_blocks(content)):
        where = f"messages.{index}.content.{place}"
        if block.get("type") == "text" and not block.get("text"):
            raise _refusal(f"{where}: text content blocks must be non-empty")
        if block.get("type") == "thinking" and block["signature"] != signature(block["thinking"]):
            raise _refusal(f"{where}: invalid `signature` in `thinking` block")


def _check_tools(messages: Sequence[Json]) -> None:
    """Each tool use is answered in the next message, results first; no result without its use."""
    called: list[str] = []
    for index, message in enumerate(messages):
        content = _blocks(message["content"])
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        missing = [use for use in called if use not in answered]
        if missing:
            raise _refusal(
                f"messages.{index - 1}: `tool_use` ids without a `tool_result` block right after "
                f"them: {', '.join(missing)}"
            )
        strange = [use for use in answered if use not in called]
        if strange:
            raise _refusal(
                f"messages.{index}: `tool_result` blocks without a `tool_use` in the message "
                f"before: {', '.join(strange)}"
            )
        if any(block["type"] != "tool_result" for block in content[: len(answered)]):
            raise _refusal(f"messages.{index}: `tool_result` blocks must come first")
        called = [block["id"] for block in content if block["type"] == "tool_use"]
    if called:
        raise _refusal(f"messages: `tool_use` ids without a result: {', '.join(called)}")


def _check_sampling(body: Body, model: SimulatedModel) -> None:
    parameters = [name for name in _SAMPLING if name in body]
    if parameters and "sampling" not in model.traits:
        raise _refusal(f"{parameters[0]}: not supported by this model")
    if not 0 <= (body.get("temperature") or 0) <= 1:
        raise _refusal("temperature: must be between 0 and 1")


def _check_thinking(body: Body, model: SimulatedModel) -> None:
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    traits = {"enabled": "budget_thinking", "adaptive": "adaptive_thinking"}
    if kind in traits and traits[kind] not in model.traits:
        raise _refusal(f"thinking.type: {kind!r} is not supported by this model")
    if kind in traits and body["messages"][-1]["role"] == "assistant" and not _ends_compacted(body):
        raise _refusal("messages: an assistant message cannot be prefilled with thinking enabled")
    if kind == "disabled" and "always_thinking" in model.traits:
        raise _refusal("thinking.type: thinking cannot be disabled on this model")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if type(budget) is not int or not _LEAST_BUDGET <= budget < body["max_tokens"]:
            raise _refusal("thinking.budget_tokens: at least 1024 and less than max_tokens")


def _ends_compacted(body: Body) -> bool:
    """True if the last message is one that the model goes on from in any case."""
    return bool(body.get("compaction")) or _is_compaction(body["messages"][-1], -1)


def _check_choice(body: Body, model: SimulatedModel) -> None:
    choice = body.get("tool_choice") or {}
    kind = choice.get("type")
    if choice and not body.get("tools"):
        raise _refusal("tool_choice: may only be given together with tools")
    if kind not in ("any", "tool"):
        return
    if "forced_tools" not in model.traits or (body.get("thinking") or {}).get("type") == "enabled":
        raise _refusal(f"tool_choice.type: {kind!r} is not supported here")
    if kind == "tool" and all(tool["name"] != choice.get("name") for tool in body["tools"]):
        raise _refusal(f"tool_choice.name: there is no tool {choice.get('name')!r}")


def _check_format(body: Body, model: SimulatedModel) -> None:
    form = (body.get("output_config") or {}).get("format")
    if form is None:
        return
    if "structured" not in model.traits:
        raise _refusal("output_config.format: not supported by this model")
    _check_schema(form.get("schema") or {}, "output_config.format.schema")


def _check_strict_tools(body: Body) -> None:
    for number, tool in enumerate(body.get("tools") or ()):
        if tool.get("strict"):
            _check_schema(tool.get("input_schema") or {}, f"tools.{number}.custom.input_schema")


def _check_schema(schema: object, where: str) -> None:
    """Pass a schema that the API compiles to a grammar.

    Source: Anthropic, structured outputs, JSON Schema limitations (2026-11).
    """
    fitted = fit_schema(Raw(msgspec.json.encode(schema)), ANTHROPIC)
    if fitted.moved:
        raise _refusal(f"{where}: property '{fitted.moved[0]}' is not supported")
    if fitted.is_closed:
        raise _refusal(f"{where}: `additionalProperties` must be false")
    if fitted.is_recursive:
        raise _refusal(f"{where}: recursive schemas are not supported")


def _check_breakpoints(body: Body) -> None:
    marked = [block for block in blocks(body) if block.get("cache_control")]
    if any(block.get("type") in _UNMARKABLE for block in marked):
        raise _refusal("cache_control: thinking blocks cannot be marked")
    lives = [block["cache_control"].get("ttl", "5m") for block in marked]
    automatic = body.get("cache_control")
    if automatic:
        _check_automatic(automatic.get("ttl", "5m"), lives, body["messages"][-1])
    if len(lives) > _MOST_BREAKPOINTS:
        raise _refusal(f"cache_control: at most {_MOST_BREAKPOINTS} breakpoints, not {len(lives)}")
    if lives != sorted(lives):
        raise _refusal("cache_control: a '1h' breakpoint must not follow a '5m' one")


def _check_automatic(life: str, lives: list[str], message: Json) -> None:
    """Automatic caching takes one of the four places, or none where the last block has it."""
    able = [block for block in _blocks(message["content"]) if block["type"] not in _UNMARKABLE]
    mark = able[-1].get("cache_control") if able else None
    if mark and mark.get("ttl", "5m") == life:
        return
    if mark or len(lives) >= _MOST_BREAKPOINTS:
        raise _refusal("cache_control: automatic caching conflicts with the breakpoints given")
    lives.append(life)
