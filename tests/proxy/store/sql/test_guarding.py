from typing import Any

import pytest
from sqlalchemy import Engine

from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.records.receipt import Receipt
from proxy.store.sql.guarding import Suspension, suspend_harmful
from proxy.store.sql.inserts import inserter
from proxy.store.sql.layouts import Layouts
from proxy.store.sql.locks import APPROVAL_DELAY_S
from proxy.store.sql.savings import Savings
from slo.usage import Usage
from tests.fakes.receipts import START, a_receipt

COUNT = 300
NOW = START + COUNT
HARMED, WELL = LayoutScope("team_0", "support"), LayoutScope("team_0", "coding")


def a_call(n: int, place: LayoutScope, dearer: int) -> Receipt:
    """A conversation of one call; every third is left alone."""
    is_control = n % 3 == 0
    fields: dict[str, Any] = {
        "call_id": f"{a_receipt(n).call_id}{place.feature}",
        "team": place.team,
        "feature": place.feature,
        "model": f"model-{n % 2}",
        "conversation": f"{n}-{place.feature}",
        "arm": "control" if is_control else "treated",
        "usage": Usage(input=1000 + n % 17),
        "cost_nanos": (3000 + n % 7) * (1 if is_control else dearer),
    }
    return a_receipt(n, **fields)


@pytest.fixture
def savings(engine: Engine) -> Savings:
    places = ((HARMED, 2), (WELL, 1))
    inserter(engine)([a_call(n, *place) for place in places for n in range(COUNT)])
    return Savings(engine)


@pytest.fixture
def layouts(engine: Engine) -> Layouts:
    return Layouts(engine)


def test_a_feature_that_planning_harms_is_suspended_once_and_others_are_left(
    savings: Savings, layouts: Layouts
) -> None:
    (found,) = suspend_harmful(savings, layouts, START, NOW)
    again = suspend_harmful(savings, layouts, START, NOW + 60)

    assert found == Suspension(HARMED, "a token costs 100.0% more than where nothing is planned")
    assert again == []
    assert layouts.standings().of(HARMED).suspended == found.reason
    assert layouts.standings().of(LayoutScope("team_0", "support", "claude")).is_off
    assert not layouts.standings().of(WELL).is_off


def test_what_was_resumed_is_measured_from_then_on(savings: Savings, layouts: Layouts) -> None:
    suspend_harmful(savings, layouts, START, NOW)
    layouts.resume(HARMED, "ann", NOW)

    assert suspend_harmful(savings, layouts, START, NOW + 1) == []
    assert suspend_harmful(savings, layouts, START, NOW + 60) == []
    assert layouts.standings().of(HARMED).measured_from == NOW + APPROVAL_DELAY_S


def test_a_decision_on_one_family_starts_the_measuring_of_its_feature(
    savings: Savings, layouts: Layouts
) -> None:
    layouts.switch(
        LayoutScope("team_0", "support", "claude"), PlanningMode.AUTO, "ann", START + 250
    )
    assert suspend_harmful(savings, layouts, START, NOW) == []

    layouts.switch(LayoutScope("team_0", "support", "claude"), PlanningMode.AUTO, "ann", START + 20)
    assert len(suspend_harmful(savings, layouts, START, NOW)) == 1


def test_a_feature_that_is_off_is_not_judged(savings: Savings, layouts: Layouts) -> None:
    layouts.switch(HARMED, PlanningMode.OFF, "ann", START - 60)

    assert suspend_harmful(savings, layouts, START, NOW) == []
