import orjson
import pytest

from proxy.errors import envelope
from proxy.limits.claims import Counted
from proxy.limits.refusals import OverBudget, away, left, refusal
from proxy.routes.relay import error_headers
from slo.budget import Unit
from slo.reservations import Level, Refused
from slo.window import Window
from tests.fakes.limited import NOW, budget

DOLLAR = 1_000_000_000


def refused(
    spent: int, held: int, *, frees: float | None = None, asks: int = 1, **fields: object
) -> OverBudget:
    each = Counted(budget(**{"limit": 5, **fields}), "acme", "c", NOW + 90)
    return refusal(each, Refused(0, Level(spent, held), frees), asks, NOW)


def test_a_budget_that_is_used_up_is_told_with_when_it_starts_anew():
    error = refused(3 * DOLLAR, 0, limit=3 * DOLLAR, asks=DOLLAR // 4)

    assert (error.status, error.code, error.retry_after) == (429, "budget_exceeded", 90)
    assert "team `acme` has a limit of $3 a day: $3 spent, $0 held" in error.message
    assert "2026-09-21 14:14 UTC" in error.message
    assert orjson.loads(envelope(error))["error"]["predicted"] == "0.25"
    assert (b"x-should-retry", b"false") in error_headers(error, b"r", 1)


def test_what_others_hold_may_be_free_soon():
    error = refused(0, 5, frees=NOW + 7, unit=Unit.TOKENS)

    assert error.retry_after == 7
    assert error.is_worth_retrying
    assert error.details["held"] == 5


def test_what_never_fits_is_not_to_be_tried_again():
    error = refused(0, 0, asks=6)

    assert error.retry_after is None
    assert not error.is_worth_retrying
    assert "never fits" in error.message


@pytest.mark.parametrize("unit", [Unit.REQUESTS, Unit.TOKENS])
def test_a_rate_says_so_and_what_is_left(unit):
    error = refused(5, 0, unit=unit, window=Window.MINUTE)

    assert error.code == "rate_limit_exceeded"
    headers = dict(error_headers(error, b"r", 1))
    assert headers[f"x-ratelimit-remaining-{unit}".encode()] == b"0"
    assert headers[f"x-ratelimit-reset-{unit}".encode()] == b"1m30s"


@pytest.mark.parametrize(
    ("scope", "whose", "said"),
    [
        ("organization", "*", "of the organization"),
        ("user", "f00", "of this user"),
        ("label:project", "x", "of project `x`"),
        ("feature", "", "of calls that name no feature"),
    ],
)
def test_whose_budget_it_is_is_told(scope, whose, said):
    each = Counted(budget(scope=scope), whose, "c", NOW + 9)

    assert said in refusal(each, Refused(0, Level(0, 0), None), 1, NOW).message


def test_the_tightest_of_several_is_told():
    pairs = [(10, Level(1, 1)), (9, Level(5, 0)), (100, Level(0, 0))]
    each = [
        Counted(budget(unit=Unit.TOKENS, window=Window.MINUTE, limit=n), "a", "c", NOW + 30)
        for n, _ in pairs
    ]

    assert left(each, [level for _, level in pairs], NOW) == {
        "x-ratelimit-limit-tokens": "9",
        "x-ratelimit-remaining-tokens": "4",
        "x-ratelimit-reset-tokens": "30s",
    }


def test_without_counters_one_may_come_back_soon():
    assert away().status == 503
    assert away().retry_after == 2.0
