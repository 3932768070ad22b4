import orjson
import pytest

from proxy.api.passthrough import error_headers
from proxy.errors import CallerError, envelope
from proxy.services.budgets.cost_bounds.pricing import Alternative
from proxy.services.budgets.cost_bounds.reservation_requests import CountedBudget
from proxy.services.budgets.refusals import (
    CeilingExcess,
    budget_refusal,
    ceiling_refusal,
    counters_unavailable,
    rate_limit_headers,
    unbounded_refusal,
    uncountable_refusal,
    unpriced_refusal,
)
from slo.budgets.budget import BudgetUnit
from slo.budgets.ceiling import Ceiling, CostPrediction
from slo.budgets.counter import CounterLevel, ReservationRefused
from slo.window import Window
from tests.fakes.admission_harness import NOW, budget
from tests.fakes.call_dependencies import route

DOLLAR = 1_000_000_000


def refusal(
    spent: int, reserved: int, *, frees: float | None = None, asks: int = 1, **fields: object
) -> CallerError:
    counted = CountedBudget(budget(**{"limit": 5, **fields}), "acme", "c", NOW + 90)
    return budget_refusal(
        counted, ReservationRefused(0, CounterLevel(spent, reserved), frees), asks, NOW
    )


def test_a_budget_that_is_used_up_is_reported_with_when_it_starts_anew():
    error = refusal(3 * DOLLAR, 0, limit=3 * DOLLAR, asks=DOLLAR // 4)

    assert (error.status, error.code, error.retry_after) == (429, "budget_exceeded", 90)
    assert "team `acme` has a limit of $3 a day: $3 spent, $0 held" in error.message
    assert "2026-09-21 14:14 UTC" in error.message
    assert orjson.loads(envelope(error))["error"]["predicted"] == "0.25"
    assert (b"x-should-retry", b"false") in error_headers(error, b"r", 1)


def test_a_prompt_without_a_bound_is_refused_with_what_would_bound_it():
    error = unbounded_refusal(CountedBudget(budget(), "acme", "c", NOW + 90), route())

    assert (error.status, error.code, error.retry_after) == (400, "usage_unknown", None)
    assert "`window`" in error.message
    assert error.details["budget"] == "b"


def test_a_refusal_for_amounts_held_by_others_says_when_to_retry():
    error = refusal(0, 5, frees=NOW + 7, unit=BudgetUnit.TOKENS)

    assert error.retry_after == 7
    assert error.is_worth_retrying
    assert error.details["held"] == 5


def test_a_refusal_of_a_call_that_never_fits_is_not_retryable():
    error = refusal(0, 0, asks=6)

    assert error.retry_after is None
    assert not error.is_worth_retrying
    assert error.param is None
    assert error.message.endswith(
        "That is more than the whole limit, so waiting does not help."
        " Send a shorter prompt, or ask for a cheaper model."
    )


@pytest.mark.parametrize(
    ("unit", "fix"),
    [
        (BudgetUnit.USD, "`max_tokens` or send a shorter prompt, or ask for a cheaper model."),
        (BudgetUnit.TOKENS, "`max_tokens` or send a shorter prompt."),
    ],
)
def test_a_refusal_of_a_call_that_never_fits_names_the_field_to_lower(unit, fix):
    counted = CountedBudget(budget(limit=5, unit=unit), "acme", "c", NOW + 90)
    error = budget_refusal(
        counted, ReservationRefused(0, CounterLevel(0, 0), None), 6, NOW, field="max_tokens"
    )

    assert error.message.endswith(f"so waiting does not help. Lower {fix}")
    assert orjson.loads(envelope(error))["error"]["param"] == "max_tokens"
    later = budget_refusal(
        counted, ReservationRefused(0, CounterLevel(4, 0), None), 2, NOW, field="max_tokens"
    )
    assert later.param is None


@pytest.mark.parametrize("unit", [BudgetUnit.REQUESTS, BudgetUnit.TOKENS])
def test_a_rate_says_so_and_what_is_left(unit):
    error = refusal(5, 0, unit=unit, window=Window.MINUTE)

    assert error.code == "rate_limit_exceeded"
    headers = dict(error_headers(error, b"r", 1))
    assert headers[f"x-ratelimit-remaining-{unit}".encode()] == b"0"
    assert headers[f"x-ratelimit-reset-{unit}".encode()] == b"1m30s"


@pytest.mark.parametrize(
    ("scope", "whose", "phrase"),
    [
        ("organization", "*", "of the organization"),
        ("user", "f00", "of this user"),
        ("label:project", "x", "of project `x`"),
        ("feature", "", "of calls that name no feature"),
    ],
)
def test_whose_budget_it_is_is_reported(scope, whose, phrase):
    counted = CountedBudget(budget(scope=scope), whose, "c", NOW + 9)

    assert (
        phrase
        in budget_refusal(counted, ReservationRefused(0, CounterLevel(0, 0), None), 1, NOW).message
    )


def test_the_tightest_of_several_is_reported():
    pairs = [(10, CounterLevel(1, 1)), (9, CounterLevel(5, 0)), (100, CounterLevel(0, 0))]
    counted = [
        CountedBudget(
            budget(unit=BudgetUnit.TOKENS, window=Window.MINUTE, limit=n), "a", "c", NOW + 30
        )
        for n, _ in pairs
    ]

    assert rate_limit_headers(counted, [level for _, level in pairs], NOW) == {
        "x-ratelimit-limit-tokens": "9",
        "x-ratelimit-remaining-tokens": "4",
        "x-ratelimit-reset-tokens": "30s",
    }


def test_without_counters_one_may_come_back_soon():
    assert counters_unavailable().status == 503
    assert counters_unavailable().retry_after == 2.0


def test_a_cheaper_model_is_told_where_one_is_known():
    counted = CountedBudget(budget(limit=5), "acme", "c", NOW + 9)
    refused = ReservationRefused(0, CounterLevel(4, 0), None)

    error = budget_refusal(counted, refused, 2, NOW, Alternative("mini", DOLLAR // 4))
    assert error.details["cheapest_alternative"] == {"model": "mini", "predicted": "0.25"}
    assert error.message.endswith(" The model `mini` would fit: there it may cost $0.25.")
    assert budget_refusal(counted, refused, 2, NOW).details["cheapest_alternative"] is None


def test_an_unpriced_model_that_no_catalog_lists_is_said_to_be_unlisted():
    listed = unpriced_refusal("The budget `b`", {}, route("openai/gpt-4", tariff=None))
    unlisted = unpriced_refusal("The budget `b`", {}, route("openai/gpt-*", tariff=None))

    assert "not in the catalog" not in str(listed)
    assert "The model is not in the catalog: check its name, or ask for a model" in str(unlisted)


def test_a_refusal_tells_the_operator_how_to_state_a_price():
    error = unpriced_refusal("The ceiling `c`", {"ceiling": "c"}, route("gpu", tariff=None))

    assert error.details == {"ceiling": "c", "upstream": "gpu"}
    assert '("0" for one that costs nothing)' in error.message
    assert (b"x-should-retry", b"false") in error_headers(error, b"r", 1)


@pytest.mark.parametrize(
    ("unit", "code", "limits", "fix"),
    [
        (BudgetUnit.USD, "price_unknown", "dollars", 'unpriced = "allow"'),
        (BudgetUnit.TOKENS, "usage_unknown", "tokens", "hard = false"),
    ],
)
def test_the_refusal_of_a_background_call_names_the_field_to_leave_out(unit, code, limits, fix):
    counted = CountedBudget(budget(unit=unit), "acme", "c", NOW + 60)
    error = uncountable_refusal(counted, route("up"), later=True)

    assert (error.code, error.param) == (code, "background")
    assert error.details == {"budget": "b", "scope": "team", "of": "acme", "upstream": "up"}
    assert error.message.startswith(f"The budget `b` limits {limits}, and what a call used")
    assert "Leave `background` out." in error.message
    assert f"can write {fix} beside the limit." in error.message
    assert (b"x-should-retry", b"false") in error_headers(error, b"r", 1)


@pytest.mark.parametrize(
    ("sure", "tokens", "fix", "param"),
    [
        (6, None, "Send a shorter prompt, or ask for a cheaper model.", None),
        (6, 12, "Send a shorter prompt, or ask for a cheaper model.", None),
        (1, None, "Ask for fewer tokens, or for a cheaper model.", None),
        (1, 12, "Lower `max_output_tokens` to 12, and it fits.", "max_output_tokens"),
    ],
)
def test_a_ceiling_says_what_to_ask_for(sure, tokens, fix, param):
    error = ceiling_refusal(
        CeilingExcess(
            ceiling=Ceiling(name="c", limit=5),
            predicted=CostPrediction(sure=sure, likely=7, worst=9),
            tokens=tokens,
            field="max_output_tokens",
        )
    )

    assert error.message.endswith(fix)
    assert error.param == param
    assert orjson.loads(envelope(error))["error"]["code"] == "cost_ceiling"
    assert (b"x-should-retry", b"false") in error_headers(error, b"r", 1)
