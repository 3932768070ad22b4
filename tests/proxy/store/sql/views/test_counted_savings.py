from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from compaction.policy import CompactionMode
from dashboards.reports import latest_days
from dashboards.savings_headline import SavingsHeadline
from proxy.records.feature_mode import LayoutScope
from proxy.records.receipt import Receipt
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.control_arms import ArmMeasurements
from proxy.store.sql.settings.compactions import Compactions
from proxy.store.sql.settings.layouts import Layouts
from proxy.store.sql.views.counted_savings import (
    SavingsScope,
    counted_savings,
    layout_scope,
    read_headline,
)
from proxy.store.sql.views.readers import PickledOnce, Readers
from slo.usage import Usage
from tests.fakes.chaos import two_model_catalog
from tests.fakes.ledger import book as book_merged
from tests.fakes.receipts import START, a_receipt

NOW = START + 600
CATALOG = two_model_catalog()
SCOPE = SavingsScope(period=latest_days(NOW, 30), catalog=PickledOnce(CATALOG))


def a_call(n: int, **changes: Any) -> Receipt:
    fields: dict[str, Any] = {
        "team": "a", "feature": "x", "conversation": f"{n:032x}", "arm": "treated",
        "list_nanos": 100, "cost_nanos": 100, "usage": Usage(input=100),
    }  # fmt: skip
    return a_receipt(n, **(fields | changes))


def book(engine: Engine, receipts: list[Receipt]) -> None:
    book_merged(engine, receipts, 0.5)


def headline(engine: Engine, *, measured: bool = False) -> SavingsHeadline:
    readers = Readers(engine)
    measurement = PickledOnce(ArmMeasurements(engine).measure(lambda: NOW)) if measured else None
    return read_headline(readers, replace(SCOPE, measurement=measurement))


def both_arms(engine: Engine, *, treated: int, control: int, size: int = 60) -> None:
    """Conversations of two arms of a size that cost so much each, treated ones said to save."""
    costs = [treated] * size + [control] * size
    book(
        engine,
        [
            a_call(
                n, arm="treated" if n < size else "control", cost_nanos=cost + n % 7,
                list_nanos=cost + n % 7, planning_nanos=10_000 if n < size else None,
            )
            for n, cost in enumerate(costs)
        ],
    )  # fmt: skip


def planning(view: SavingsHeadline) -> int:
    return -next(step.nanos for step in view.steps if step.name == "planning")


def test_an_estimate_counts_until_the_control_arm_has_measured(engine: Engine) -> None:
    both_arms(engine, treated=1_000, control=2_000)
    before, after = headline(engine), headline(engine, measured=True)

    assert planning(before) == 60 * 10_000
    assert planning(after) == pytest.approx(60_000, rel=0.02)
    assert after.saved_low_nanos < after.saved_nanos < after.saved_high_nanos
    assert after.paid_nanos == before.paid_nanos == after.direct_nanos - after.saved_nanos


def test_an_early_measurement_neither_counts_nor_refutes(engine: Engine) -> None:
    both_arms(engine, treated=4_000, control=1_000, size=40)
    view = headline(engine, measured=True)

    assert planning(view) == 40 * 10_000
    assert (view.saved_low_nanos, view.uncounted) == (view.saved_nanos, [])


def test_planning_that_the_control_arm_refutes_counts_nothing_and_is_named(
    engine: Engine,
) -> None:
    both_arms(engine, treated=4_000, control=1_000)
    view = headline(engine, measured=True)
    (named,) = view.uncounted

    assert planning(view) == view.saved_nanos == 0
    assert (named.team, named.feature, named.part, named.nanos) == ("a", "x", "planning", 600_000)
    assert named.why.startswith("the control arm refuted it: a token costs")


def test_a_family_that_is_suspended_counts_nothing_and_others_do(engine: Engine) -> None:
    book(
        engine,
        [
            a_call(1, model="gpt-9", route="lab/gpt-9", planning_nanos=30),
            a_call(2, model="claude-9", route="lab/claude-9", planning_nanos=7),
        ],
    )
    Layouts(engine).suspend(LayoutScope("a", "x", "gpt"), "it is dearer", NOW)
    view = headline(engine)

    assert planning(view) == 7
    assert [saving.nanos for saving in view.uncounted] == [30]


def test_the_extra_cost_of_a_suspended_feature_counts(engine: Engine) -> None:
    book(engine, [a_call(1, planning_nanos=-30)])
    Layouts(engine).suspend(LayoutScope("a", "x"), "it is dearer", NOW)
    view = headline(engine)

    assert view.saved_nanos == -30
    assert view.uncounted == []


def test_a_feature_that_is_said_to_have_saved_nothing_is_not_named(engine: Engine) -> None:
    book(engine, [a_call(1, planning_nanos=0), a_call(2, compaction_nanos=None)])
    Layouts(engine).suspend(LayoutScope("a", "x"), "it is dearer", NOW)
    Compactions(engine).step_back(("a", "x"), CompactionMode.OFF, "it lost values", NOW)

    assert headline(engine).uncounted == []


def test_compaction_that_was_stepped_back_counts_nothing(engine: Engine) -> None:
    book(engine, [a_call(1, compaction="facts", compaction_nanos=70)])
    assert headline(engine).saved_nanos == 70
    Compactions(engine).step_back(("a", "x"), CompactionMode.OFF, "it lost values", NOW)
    view = headline(engine)

    assert view.saved_nanos == 0
    assert [(saving.part, saving.nanos, saving.why) for saving in view.uncounted] == [
        ("compaction", 70, "compaction was reduced: it lost values")
    ]


def test_discounts_are_in_no_headline_for_a_direct_caller_has_them_too(engine: Engine) -> None:
    book(engine, [a_call(1, list_nanos=100, cost_nanos=80)])
    counted = counted_savings(Readers(engine), SCOPE)

    assert (counted.headline.saved_nanos, counted.headline.direct_nanos) == (0, 80)
    assert counted.features().keys() == {("a", "x")}
    assert counted.unknown_routing_calls == 0


def test_a_place_is_of_the_family_of_the_model_that_answered() -> None:
    assert layout_scope(("a", "x", "gpt-9", "lab/claude-9"), CATALOG).family == "claude"


def test_arms_are_compared_from_the_beginning_of_a_day(engine: Engine) -> None:
    first = (NOW // 86_400 - 29) * 86_400
    book(engine, [a_call(1, started=first - 1, call_id=f"{id_floor(first - 1)[:-1]}1")])
    assert ArmMeasurements(engine).measure(lambda: NOW).comparisons == ()

    book(engine, [a_call(2, started=first, call_id=f"{id_floor(first)[:-1]}2")])
    assert len(ArmMeasurements(engine).measure(lambda: NOW).comparisons) == 1
