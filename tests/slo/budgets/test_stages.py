"""Tests of which stage made calls late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.stages import Stage, StageBudget, StageMisses, broken_stage

BUDGETS = (StageBudget(Stage.QUEUE, 0.1), StageBudget(Stage.PREFILL, 0.3))


@pytest.mark.parametrize(
    ("phases", "stage"),
    [
        ({Stage.QUEUE: 0.2, Stage.PREFILL: 0.2}, Stage.QUEUE),
        ({Stage.QUEUE: 0.2, Stage.PREFILL: 0.9}, Stage.PREFILL),
        ({Stage.QUEUE: 0.1, Stage.PREFILL: 0.3}, None),
        ({Stage.DECODE: 9.0}, None),
        ({}, None),
    ],
)
def test_the_stage_that_is_over_its_budget_by_most_broke_the_call(
    phases: dict[Stage, float], stage: Stage | None
) -> None:
    assert broken_stage(BUDGETS, phases) is stage


@given(st.dictionaries(st.sampled_from(Stage), st.floats(0, 10)))
def test_a_stage_within_its_budget_or_without_one_never_breaks_a_call(
    phases: dict[Stage, float],
) -> None:
    stage = broken_stage(BUDGETS, phases)
    limits = {budget.stage: budget.under for budget in BUDGETS}

    assert stage is None or phases[stage] > limits[stage]


def test_a_stage_is_named_that_half_of_the_late_calls_broke() -> None:
    misses = StageMisses()
    for stage in (Stage.QUEUE, Stage.PREFILL, Stage.QUEUE, None):
        misses.note("chat", stage)
    miss = misses.most_broken("chat")

    assert miss is not None
    assert miss.text() == "queue, in 2 of 4 late calls"
    assert misses.totals == {("chat", "queue"): 2, ("chat", "prefill"): 1, ("chat", "other"): 1}


def test_no_stage_is_named_where_none_stands_out() -> None:
    misses = StageMisses()
    for stage in (Stage.QUEUE, Stage.PREFILL, Stage.GATEWAY):
        misses.note("chat", stage)

    assert misses.most_broken("chat") is None
    assert misses.most_broken("other") is None


def test_late_calls_of_long_ago_are_forgotten() -> None:
    misses = StageMisses()
    for stage in [Stage.QUEUE] * 100 + [Stage.PREFILL] * 100:
        misses.note("chat", stage)
    miss = misses.most_broken("chat")

    assert miss is not None
    assert (miss.stage, miss.of) == (Stage.PREFILL, 100)
