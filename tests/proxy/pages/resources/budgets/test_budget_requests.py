"""Budgets as people send them, by the rules of the policies file."""

from typing import Any

import pytest

from proxy.errors import CallerError
from proxy.pages.resources.budgets.budget_requests import BudgetRequest, requested_budget
from slo.budgets.budget import HoldPolicy, OnStoreLoss, UnpricedPolicy

SENT: dict[str, Any] = {"scope": "team", "unit": "usd", "window": "month", "limit": "12.5"}


def test_fields_left_out_have_the_default_of_the_policies_file() -> None:
    budget = requested_budget("own", BudgetRequest(**SENT))

    assert (budget.of, budget.limit, budget.hard) == ("*", 12_500_000_000, True)
    assert (budget.hold, budget.on_loss, budget.unpriced, budget.alerts) == (
        HoldPolicy.P95,
        OnStoreLoss.CLOSED,
        UnpricedPolicy.OWN,
        (50, 80, 95),
    )


def test_every_field_of_the_policies_file_can_be_sent() -> None:
    more: dict[str, Any] = {"hold": "worst", "on_loss": "open", "unpriced": "allow", "alerts": [1]}
    budget = requested_budget("own", BudgetRequest(**SENT, **more))

    assert (budget.hold, budget.on_loss, budget.unpriced, budget.alerts) == (
        HoldPolicy.WORST,
        OnStoreLoss.OPEN,
        UnpricedPolicy.ALLOW,
        (1,),
    )
    assert requested_budget("own", BudgetRequest(**SENT, alerts=[])).alerts == ()


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"hold": "most"}, "hold"),
        ({"unit": "requests", "limit": "5", "hold": "worst"}, "hold"),
        ({"hard": False, "on_loss": "closed"}, "on_loss"),
        ({"hard": False, "unpriced": "allow"}, "unpriced"),
        ({"alerts": [80, 50]}, "alerts"),
        ({"alerts": [101]}, "alerts"),
        ({"of": 'a"\n[[budgets]]'}, None),
    ],
)
def test_a_rule_that_is_broken_is_named_with_its_field(
    changed: dict[str, Any], field: str | None
) -> None:
    request = BudgetRequest(**{**SENT, **changed})
    if field is None:  # text that would be another table in the file stays text
        assert requested_budget("own", request).of == changed["of"]
        return
    with pytest.raises(CallerError) as refused:
        requested_budget("own", request)

    assert refused.value.param == field
