"""Features that planning harms are suspended, by the arms of their conversations."""

from typing import Any

import pytest
from sqlalchemy import Engine

from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.records.receipt import Receipt
from proxy.store.sql.ledger.control_arms import COMPARED_DAYS, ArmMeasurement, Savings
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.settings.layouts import Layouts, Suspension, suspend_harmful
from proxy.store.sql.settings.locks import APPROVAL_DELAY_S
from slo.usage import Usage
from tests.fakes.receipts import START, a_receipt

DAY = 86_400.0
CONVERSATIONS = 300
JUDGED_AT = START + CONVERSATIONS
HARMED, WELL = LayoutScope("team_0", "support"), LayoutScope("team_0", "coding")
FAMILY = LayoutScope("team_0", "support", "claude")


@pytest.fixture
def layouts(engine: Engine) -> Layouts:
    return Layouts(engine)


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
    inserter(engine)([a_call(n, *place) for place in places for n in range(CONVERSATIONS)])
    return Savings(engine)


def suspend(savings: Savings, layouts: Layouts, now: float) -> list[Suspension]:
    moment, comparisons = START + (COMPARED_DAYS - 1) * DAY, tuple(savings.compare(START))
    measured = ArmMeasurement(at=moment, took=1.0, comparisons=comparisons)
    return suspend_harmful(savings, layouts, measured, now)


def test_a_feature_that_planning_harms_is_suspended_once_and_others_are_left(
    savings: Savings, layouts: Layouts
) -> None:
    (suspension,) = suspend(savings, layouts, JUDGED_AT)
    again = suspend(savings, layouts, JUDGED_AT + 60)
    assert suspension == Suspension(
        HARMED, "a token costs 100.0% more than where nothing is planned"
    )
    assert again == []
    assert layouts.states().of(HARMED).suspended == suspension.reason
    assert layouts.states().of(FAMILY).is_off
    assert not layouts.states().of(WELL).is_off


def test_a_resumed_feature_is_measured_from_then_on(savings: Savings, layouts: Layouts) -> None:
    suspend(savings, layouts, JUDGED_AT)
    layouts.resume(HARMED, "ann", JUDGED_AT)

    assert suspend(savings, layouts, JUDGED_AT + 1) == []
    assert suspend(savings, layouts, JUDGED_AT + 60) == []
    assert layouts.states().of(HARMED).measured_from == JUDGED_AT + APPROVAL_DELAY_S


def test_a_decision_on_one_family_starts_the_measuring_of_its_feature(
    savings: Savings, layouts: Layouts
) -> None:
    layouts.switch(FAMILY, PlanningMode.AUTO, "ann", START + 250)
    assert suspend(savings, layouts, JUDGED_AT) == []

    layouts.switch(FAMILY, PlanningMode.AUTO, "ann", START + 20)
    assert len(suspend(savings, layouts, JUDGED_AT)) == 1


def test_a_feature_that_is_off_is_not_judged(savings: Savings, layouts: Layouts) -> None:
    layouts.switch(HARMED, PlanningMode.OFF, "ann", START - 60)

    assert suspend(savings, layouts, JUDGED_AT) == []
