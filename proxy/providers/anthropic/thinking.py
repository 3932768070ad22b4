"""``reasoning_effort`` as thinking and effort.

Source: Anthropic, adaptive thinking, extended thinking and effort (2026-11).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.anthropic.turns import Turn
from proxy.providers.chat.chat_body import ChatBody, invalid_parameter, is_given

#: Thinking tokens by effort, for models that are told a number.
_BUDGETS: Final[Mapping[str, int]] = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 65_536,
}
_MIN_BUDGET_TOKENS: Final = 1_024


class Thinking(msgspec.Struct, frozen=True):
    """The thinking settings of a request.

    Attributes:
        field: The ``thinking`` of the request; None to leave it out.
        effort: ``output_config.effort``; None to leave it out.
    """

    field: Raw | dict[str, Any] | None = None
    effort: str | None = None

    @property
    def is_on(self) -> bool:
        """True if thinking is on, which rules out sampling and prefill."""
        return self.field is not None and self.field != _OFF


_OFF: Final = {"type": "disabled"}


class _Kind(msgspec.Struct):
    type: str


_kind = msgspec.json.Decoder(_Kind).decode


def thinking(
    body: ChatBody,
    traits: frozenset[str],
    turns: list[Turn],
    notes: list[str],
    *,
    room: int,
    forced: bool,
) -> Thinking:
    """The thinking settings that the caller asks for, by the traits of the model.

    Args:
        body: The caller's; its own ``thinking`` goes before what an effort would mean.
        room: ``max_tokens``; thinking counts inside it.
        forced: True if a tool must be used, which rules out thinking.
    """
    effort = body.reasoning_effort
    if effort is not None and effort != "none" and effort not in _BUDGETS:
        raise invalid_parameter(
            "reasoning_effort", f"reasoning_effort must be none, {', '.join(_BUDGETS)}."
        )
    if is_given(body.thinking):
        return Thinking(
            _callers_field(body.thinking), _level(effort) if _adaptive(traits) else None
        )
    if effort is not None and _adaptive(traits):
        return _adaptive_thinking(effort, notes, always="always_thinking" in traits, forced=forced)
    if effort is None or effort == "none":
        return Thinking()
    if "budget_thinking" not in traits:
        notes.append("dropped reasoning_effort: the model has no such parameter")
        return Thinking()
    return _budget_thinking(min(_BUDGETS[effort], room // 2), turns, notes, forced=forced)


def _adaptive(traits: frozenset[str]) -> bool:
    return "adaptive_thinking" in traits


def _callers_field(raw: Raw) -> Raw | dict[str, Any]:
    """The caller's own field, byte for byte."""
    try:
        kind = _kind(raw).type
    except (msgspec.DecodeError, RecursionError):
        raise invalid_parameter("thinking", "thinking must be an object with a type.") from None
    return _OFF if kind == "disabled" else raw


def _level(effort: str | None) -> str | None:
    """The nearest effort that exists here."""
    return "low" if effort in {"none", "minimal"} else effort


def _adaptive_thinking(effort: str, notes: list[str], *, always: bool, forced: bool) -> Thinking:
    if effort == "none" and not always:
        return Thinking(_OFF)
    if effort in {"none", "minimal"}:
        notes.append(f"sent reasoning_effort {effort} as low: the model has nothing less")
    if forced:
        notes.append("left thinking out: the model cannot think when a tool is forced")
        return Thinking(None, _level(effort))
    return Thinking({"type": "adaptive", "display": "summarized"}, _level(effort))


def _budget_thinking(budget: int, turns: list[Turn], notes: list[str], *, forced: bool) -> Thinking:
    """Thinking with a budget, where nothing rules it out; half of the room is kept for words."""
    if forced:
        notes.append("left thinking out: the model cannot think when a tool is forced")
    elif budget < _MIN_BUDGET_TOKENS:
        notes.append("left thinking out: max_tokens leaves no room for it")
    elif _answers_tools_without_thinking(turns):
        notes.append("left thinking out: the thinking_blocks of the last tool calls are missing")
    else:
        return Thinking({"type": "enabled", "budget_tokens": budget})
    return Thinking()


def _answers_tools_without_thinking(turns: list[Turn]) -> bool:
    """True if tools are being answered whose calls came without their thinking.

    Such a turn must begin with thinking on models that are told a budget, and a client that drops
    unknown fields has lost it.
    """
    if len(turns) < 2 or not any(block["type"] == "tool_result" for block in turns[-1].blocks):
        return False
    return not isinstance(turns[-2].content[0], Raw)
