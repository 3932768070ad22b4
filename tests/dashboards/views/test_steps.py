from typing import Any

import pytest

from dashboards.formatting import step_saving
from dashboards.views.steps import NextStep, month_saving, rank_steps


def a_step(**fields: Any) -> NextStep:
    values: dict[str, Any] = {
        "kind": "layout",
        "title": "Apply the layout of chat",
        "effect": "Moves 1 text",
        "basis": "Estimated from 40 calls",
        "link": "/admin/layouts/a/chat",
        "action": "Apply",
    }
    return NextStep(**(values | fields))


@pytest.mark.parametrize(
    ("saved", "days", "month"), [(60, 2.0, 900), (60, 0.9, None), (None, 5.0, None), (7, 30.0, 7)]
)
def test_a_saving_of_a_month_needs_a_day_of_calls(
    saved: int | None, days: float, month: int | None
) -> None:
    assert month_saving(saved, days) == month


def test_largest_saving_is_first_then_upper_bounds_and_unknown_ones_by_kind_and_cost() -> None:
    steps = [
        a_step(kind="compaction", feature="cheap", cost_nanos=1),
        a_step(kind="compaction", feature="dear", cost_nanos=9),
        a_step(kind="budget"),
        a_step(saved_nanos=5),
        a_step(kind="cache_misses", saved_nanos=8),
        a_step(saved_nanos=0),
        a_step(kind="cheaper_model", saved_nanos=90, bound="at most"),
    ]
    ranked = [(step.kind, step.saved_nanos, step.feature) for step in rank_steps(steps)]

    assert ranked == [
        ("cache_misses", 8, ""),
        ("layout", 5, ""),
        ("cheaper_model", 90, ""),
        ("budget", None, ""),
        ("compaction", None, "dear"),
        ("compaction", None, "cheap"),
    ]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"month_nanos": 3_100_000_000, "nanos_per_1k_calls": 7}, "saves $3.10/month"),
        ({"month_nanos": 3_100_000_000, "bound": "at most"}, "saves at most $3.10/month"),
        (
            {"nanos_per_1k_calls": 10**9, "bound": "at least"},
            "saves at least $1.00 per 1,000 calls",
        ),
        ({}, "saves ?"),
    ],
)
def test_a_saving_is_positive_and_says_what_it_is_for(fields: dict[str, Any], text: str) -> None:
    assert step_saving(a_step(**fields)) == text
