"""``reasoning_effort`` as thinking and effort."""

from typing import Any

import orjson
import pytest
from msgspec import Raw

from proxy.providers.anthropic.thinking import Thinking, thinking
from proxy.providers.anthropic.turns import Turn
from proxy.providers.chat.chat_body import read
from tests.fakes.refusals import refusing

_ADAPTIVE = frozenset({"adaptive_thinking"})
_ALWAYS = _ADAPTIVE | {"always_thinking"}
_BUDGET = frozenset({"budget_thinking"})
_SUMMARISED = {"type": "adaptive", "display": "summarized"}


def _thinking(
    traits: frozenset[str],
    effort: str | None = None,
    *,
    turns: list[Turn] | None = None,
    room: int = 64_000,
    forced: bool = False,
    notes: list[str] | None = None,
    **fields: Any,
) -> Thinking:
    body, _ = read(orjson.dumps({"messages": [], "reasoning_effort": effort, **fields}))
    return thinking(
        body,
        traits,
        turns or [Turn("user", [{"type": "text", "text": "a"}])],
        [] if notes is None else notes,
        room=room,
        forced=forced,
    )


@pytest.mark.parametrize(
    ("traits", "effort", "expected", "noted"),
    [
        (frozenset(), None, Thinking(), False),
        (frozenset(), "none", Thinking(), False),
        (frozenset(), "high", Thinking(), True),
        (_ADAPTIVE, None, Thinking(), False),
        (_ADAPTIVE, "none", Thinking({"type": "disabled"}), False),
        (_ADAPTIVE, "minimal", Thinking(_SUMMARISED, "low"), True),
        (_ADAPTIVE, "max", Thinking(_SUMMARISED, "max"), False),
        (_ALWAYS, "none", Thinking(_SUMMARISED, "low"), True),
        (_BUDGET, "none", Thinking(), False),
        (_BUDGET, "minimal", Thinking({"type": "enabled", "budget_tokens": 1024}), False),
        (_BUDGET, "xhigh", Thinking({"type": "enabled", "budget_tokens": 32_000}), False),
    ],
)
def test_effort_is_said_in_the_words_of_the_model(
    traits: frozenset[str], effort: str | None, expected: Thinking, *, noted: bool
) -> None:
    notes: list[str] = []

    assert _thinking(traits, effort, notes=notes) == expected
    assert bool(notes) == noted


def test_thinking_is_on_unless_it_is_left_out_or_disabled() -> None:
    assert _thinking(_ADAPTIVE, "low").is_on
    assert not _thinking(_ADAPTIVE, "none").is_on
    assert not _thinking(_ADAPTIVE).is_on


@pytest.mark.parametrize("traits", [_ADAPTIVE, _BUDGET])
def test_a_forced_tool_leaves_thinking_out(traits: frozenset[str]) -> None:
    notes: list[str] = []

    assert _thinking(traits, "high", forced=True, notes=notes).field is None
    assert len(notes) == 1


def test_a_short_answer_leaves_no_room_to_think() -> None:
    notes: list[str] = []

    assert _thinking(_BUDGET, "high", room=2_000, notes=notes) == Thinking()
    assert _thinking(_BUDGET, "high", room=2_048).field == {
        "type": "enabled",
        "budget_tokens": 1_024,
    }
    assert len(notes) == 1


def test_calls_that_lost_their_thinking_are_not_thought_on() -> None:
    result = Turn("user", [{"type": "tool_result"}])
    lost = [Turn("user"), Turn("assistant", [{"type": "tool_use"}]), result]
    turns_with_thinking = [
        Turn("user"),
        Turn("assistant", [Raw(b"{}"), {"type": "tool_use"}]),
        result,
    ]

    assert _thinking(_BUDGET, "high", turns=lost) == Thinking()
    assert _thinking(_BUDGET, "high", turns=turns_with_thinking).is_on
    assert _thinking(_ADAPTIVE, "high", turns=lost).is_on


def test_the_callers_own_thinking_goes_first_byte_for_byte() -> None:
    own = {"budget_tokens": 2000, "type": "enabled"}

    assert _thinking(_BUDGET, "low", thinking=own) == Thinking(Raw(orjson.dumps(own)))
    assert _thinking(_ADAPTIVE, "minimal", thinking=own).effort == "low"
    assert not _thinking(_BUDGET, thinking={"type": "disabled"}).is_on


@pytest.mark.parametrize("own", ["yes", {}, [], {"type": 1}])
def test_a_thinking_that_is_none_is_refused(own: object) -> None:
    with refusing(400) as caught:
        _thinking(_BUDGET, thinking=own)

    assert caught.value.param == "thinking"


def test_an_unknown_effort_is_refused() -> None:
    with refusing(400) as caught:
        _thinking(_ADAPTIVE, "extreme")

    assert caught.value.param == "reasoning_effort"
