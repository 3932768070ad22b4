"""Clears old tool results of a conversation as Anthropic does before its model reads it.

Only old tool results are cleared here; the other edits are taken and do nothing.

Source: Anthropic, context editing (2026-09) and anthropic 2.11.
"""

from collections.abc import Callable, Iterator

from proxy.tools.simulator.bodies import Body
from proxy.tools.simulator.refusals import provider_refusal
from proxy.tools.simulator.streams import Json

EDITING = "context-management-2025-06-27"
COMPACTING = "compact-2026-01-12"
ON_DEMAND = "compact-2026-09-04"

_CLEARS = "clear_tool_uses_20250919"
_THINKING = "clear_thinking_20251015"
_BETAS = {_CLEARS: EDITING, _THINKING: EDITING, "compact_20260112": COMPACTING}
_PLACEHOLDER = "[cleared]"
_TRIGGER = 100_000
_KEPT = 3

Counted = Callable[[Body], int]


def check_edits(body: Body, betas: str) -> None:
    """Pass a body whose edits the real API would take."""
    names = {beta.strip() for beta in betas.split(",")}
    if body.get("compaction") is not None and ON_DEMAND not in names:
        raise provider_refusal(400, "compaction: Extra inputs are not permitted")
    if body.get("context_management") is None:
        return
    kinds = [edit["type"] for edit in _edits(body)]
    for kind in kinds:
        if kind not in _BETAS:
            raise provider_refusal(400, f"context_management.edits: {kind!r} is unknown")
    if not names & ({_BETAS[kind] for kind in kinds} or {EDITING, COMPACTING}):
        raise provider_refusal(400, "context_management: Extra inputs are not permitted")
    if _THINKING in kinds[1:]:
        raise provider_refusal(400, f"context_management.edits: {_THINKING} must come first")


def clear_tool_results(body: Body, counted: Counted) -> tuple[Body, list[Json]]:
    """The body as the model reads it, and the edits that made it so."""
    for edit in _edits(body):
        if edit["type"] == _CLEARS:
            return _clear_one_edit(body, edit, counted)
    return body, []


def _edits(body: Body) -> list[Json]:
    return (body.get("context_management") or {}).get("edits") or []


def _clear_one_edit(body: Body, edit: Json, counted: Counted) -> tuple[Body, list[Json]]:
    before = counted(body)
    trigger = edit.get("trigger") or {"type": "input_tokens", "value": _TRIGGER}
    uses = [block["tool_use_id"] for block in _results(body)]
    if (len(uses) if trigger["type"] == "tool_uses" else before) <= trigger["value"]:
        return body, []
    keep = (edit.get("keep") or {"value": _KEPT})["value"]
    old = frozenset(uses[: max(len(uses) - keep, 0)])
    shorter = {
        **body,
        "messages": [_with_results_cleared(message, old) for message in body["messages"]],
    }
    gained = before - counted(shorter)
    if gained <= 0 or gained < (edit.get("clear_at_least") or {"value": 0})["value"]:
        return body, []
    applied = {"type": _CLEARS, "cleared_tool_uses": len(old), "cleared_input_tokens": gained}
    return shorter, [applied]


def _results(body: Body) -> Iterator[Json]:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            yield from (block for block in message["content"] if block["type"] == "tool_result")


def _with_results_cleared(message: Json, old: frozenset[str]) -> Json:
    """The message with the old results emptied, its other blocks as they are."""
    if not isinstance(message["content"], list):
        return message
    blocks = [
        {**block, "content": _PLACEHOLDER} if block.get("tool_use_id") in old else block
        for block in message["content"]
    ]
    return {**message, "content": blocks}
