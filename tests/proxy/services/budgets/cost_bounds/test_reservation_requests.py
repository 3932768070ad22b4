from dataclasses import replace

import orjson
import pytest

from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.receipt import Outcome
from proxy.services.budgets.cost_bounds.reservation_requests import (
    UNKNOWN,
    CountedBudget,
    claim,
    counted_budgets,
    first_worst_case_budget,
    is_uncountable,
    needs,
    subject,
    used_amount,
    with_recall_rounds,
    with_upper_bounds,
)
from slo.budgets.budget import BudgetIndex, BudgetUnit, HoldPolicy, UnpricedPolicy
from slo.budgets.counter import MAX_AMOUNT
from slo.budgets.reservation_sizing import CounterView, OutputBounds, PriceQuote, UsageBounds
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.usage import Usage
from slo.window import Window
from tests.fakes.admission_harness import BODY, NOW, budget
from tests.fakes.call_dependencies import TARIFF, call, route
from tests.fakes.receipts import a_receipt

QUOTE = PriceQuote(tariff=TARIFF, at=NOW)
SEAL = Pseudonymizer(b"secret")
NEED = UsageBounds(sure=0, typical=10, likely=20, worst=100)


def counted_budget(**fields: object) -> CountedBudget:
    return CountedBudget(budget(**fields), "acme", "c", NOW + 60)


def test_a_request_holds_the_largest_usage_beside_the_likely_where_known():
    bounds = {BudgetUnit.USD: UNKNOWN, BudgetUnit.TOKENS: NEED, BudgetUnit.REQUESTS: NEED}

    bounded = with_upper_bounds(bounds, call(BODY), Usage(input=650), 50, QUOTE)

    assert bounded[BudgetUnit.USD] is UNKNOWN
    assert (bounded[BudgetUnit.TOKENS].worst, bounded[BudgetUnit.TOKENS].maximum) == (100, 700)
    assert bounded[BudgetUnit.REQUESTS].upper_bound == 1


def test_the_worst_case_of_a_call_that_may_recall_holds_all_its_rounds_and_nothing_else_changes():
    prompt = Usage(input=1_000)
    output = OutputBounds(typical=10, likely=20, worst=50)
    units = (BudgetUnit.TOKENS, BudgetUnit.USD, BudgetUnit.REQUESTS)
    bounds = with_upper_bounds(
        needs(units, call(BODY), prompt, output, QUOTE), call(BODY), prompt, 50, QUOTE
    )
    recalled = with_recall_rounds(bounds, call(BODY), prompt, output, QUOTE)
    tokens, dollars = recalled[BudgetUnit.TOKENS], recalled[BudgetUnit.USD]

    # four prompts, what three rounds generated and recalled in those after them, four answers
    assert tokens.worst == 4 * 1_000 + (1 + 2 + 3) * 50 + 3 * 8_000 + 4 * 50
    assert tokens.maximum == tokens.worst
    assert dollars.worst > 4 * bounds[BudgetUnit.USD].worst
    assert recalled[BudgetUnit.REQUESTS] == bounds[BudgetUnit.REQUESTS]
    for unit in (BudgetUnit.TOKENS, BudgetUnit.USD):
        assert recalled[unit].likely == bounds[unit].likely
        assert recalled[unit].sure == bounds[unit].sure


def test_the_most_that_a_call_costs_is_at_the_dearest_tier_its_provider_may_choose():
    cheap, dear = TokenRates(input=1_000_000, output=0), TokenRates(input=3_000_000, output=0)
    sheets = {"": PriceSheet(rates=cheap), "priority": PriceSheet(rates=dear)}
    quote = PriceQuote(tariff=Tariff(periods=(PricePeriod(sheets=sheets),)), at=NOW)

    def most(prompt: Usage, **fields: str) -> int:
        asking = call(orjson.dumps({"model": "m", **fields}))
        bounds = with_upper_bounds({BudgetUnit.USD: NEED}, asking, prompt, 1, quote)
        return bounds[BudgetUnit.USD].upper_bound

    assert most(Usage(input=7)) == 21
    assert most(Usage(input=7), service_tier="default") == 7
    # A prompt that may be written to a cache, at a provider that has no price for that.
    assert most(Usage(write_5m=7)) == 21


def test_the_most_is_held_by_hard_budgets_of_what_is_known_and_not_free():
    bounds = {BudgetUnit.USD: NEED}
    free = {BudgetUnit.USD: UsageBounds(sure=0, typical=0, likely=0, worst=0)}

    (worst,) = [entry for entry in [first_worst_case_budget([counted_budget()], bounds)] if entry]
    assert worst.budget.hold is HoldPolicy.WORST
    assert first_worst_case_budget([counted_budget()], free) is None
    assert first_worst_case_budget([counted_budget()], {BudgetUnit.USD: UNKNOWN}) is None
    assert (
        first_worst_case_budget(
            [counted_budget(hard=False), counted_budget(hold=HoldPolicy.P95)], bounds
        )
        is None
    )


def test_a_call_is_for_its_team_key_feature_and_an_end_user_nobody_can_tell():
    body = orjson.dumps({"model": "m", "user": "ann", "metadata": {"project": "x", "n": 1}})

    who = subject(call(body), SEAL, labelled=True)

    assert (who.team, who.key, who.feature) == ("acme", "key_1", "chat")
    assert who.user == SEAL.pseudonym("team_1", b"ann")
    assert who.labels == {"project": "x"}
    assert subject(call(body), SEAL, labelled=False).labels == {}


def test_a_call_that_only_reads_counts_as_a_request_alone():
    limits = BudgetIndex([budget(), budget(name="r", unit=BudgetUnit.REQUESTS)])
    asking = call(b"", "files", method="GET", fields=None)

    budgets = counted_budgets(limits, subject(asking, SEAL, labelled=False), asking)

    assert [entry.budget.name for entry in budgets] == ["r"]


def test_the_window_is_that_of_the_calls_arrival():
    asking = call(BODY, arrived=NOW)
    limits = BudgetIndex([budget(window=Window.MINUTE)])

    (counted,) = counted_budgets(limits, subject(asking, SEAL, labelled=False), asking)

    assert counted.counter == "b/team/usd/2026-09-21T14:13/acme"
    assert NOW < counted.ends <= NOW + 60


def test_of_an_unknown_use_a_little_is_needed():
    output = OutputBounds(typical=1, likely=2, worst=3)
    bounds = needs(
        [BudgetUnit.USD, BudgetUnit.TOKENS, BudgetUnit.REQUESTS],
        call(BODY),
        Usage(input=5),
        output,
        PriceQuote(tariff=None, at=NOW),
    )

    assert bounds[BudgetUnit.USD].worst == 1
    assert bounds[BudgetUnit.TOKENS] == UsageBounds(sure=5, typical=6, likely=7, worst=8)
    assert bounds[BudgetUnit.REQUESTS].worst == 1


@pytest.mark.parametrize(("endpoint", "worst"), [("responses/compact", 8), ("images/edits", 1)])
def test_the_usage_of_a_compaction_is_bounded_and_that_of_a_picture_is_not(endpoint, worst):
    output = OutputBounds(typical=1, likely=2, worst=3)
    quote = PriceQuote(tariff=None, at=NOW)

    bounds = needs([BudgetUnit.TOKENS], call(BODY, endpoint), Usage(input=5), output, quote)

    assert bounds[BudgetUnit.TOKENS].worst == worst


def test_a_write_whose_price_is_unknown_is_priced_as_a_prompt():
    output = OutputBounds(typical=0, likely=0, worst=0)
    quote = PriceQuote(tariff=TARIFF, at=NOW)

    bounds = needs([BudgetUnit.USD], call(BODY), Usage(write_1h=5), output, quote)

    assert bounds[BudgetUnit.USD].worst == 5_000


def test_while_there_is_room_the_likely_is_claimed_beside_room_for_the_rest():
    counter = CounterView(spent=100, held=200, running=10)
    reservation = claim(counted_budget(limit=10_000, hold=HoldPolicy.P95), NEED, counter)

    assert reservation.amount == 20
    assert 9_000 < reservation.limit < 10_000


def test_near_the_limit_the_worst_is_claimed():
    assert (
        claim(counted_budget(limit=150, hold=HoldPolicy.P95), NEED, CounterView(spent=100)).amount
        == 100
    )


def test_no_more_is_claimed_than_can_be_counted():
    huge = UsageBounds(sure=0, typical=0, likely=0, worst=2 * MAX_AMOUNT)

    assert claim(counted_budget(limit=MAX_AMOUNT), huge, CounterView()).amount == MAX_AMOUNT


def test_a_soft_budget_refuses_nothing():
    reservation = claim(counted_budget(limit=1, hard=False), NEED, CounterView())

    assert (reservation.amount, reservation.hard) == (20, False)


@pytest.mark.parametrize(
    ("unit", "fields", "amount"),
    [
        (BudgetUnit.USD, {"cost_nanos": 7}, 7),
        (BudgetUnit.USD, {"cost_nanos": None}, 0),
        (BudgetUnit.TOKENS, {"usage": Usage(input=1, cache_read=2, output=4)}, 7),
        (BudgetUnit.TOKENS, {"usage": None}, 0),
        (BudgetUnit.REQUESTS, {}, 1),
        (BudgetUnit.REQUESTS, {"final": False}, 0),
        (BudgetUnit.REQUESTS, {"outcome": Outcome.REFUSED}, 0),
    ],
)
def test_a_receipt_says_what_was_used(unit, fields, amount):
    assert used_amount(budget(unit=unit), a_receipt(**fields)) == amount


@pytest.mark.parametrize(
    ("hold", "bounds", "amount"),
    [(HoldPolicy.WORST, NEED, 100), (HoldPolicy.P95, NEED, 20), (HoldPolicy.WORST, UNKNOWN, 0)],
)
def test_an_answer_of_unknown_price_settles_at_what_its_call_held(hold, bounds, amount):
    answered = a_receipt(cost_nanos=None, usage=Usage(input=1, output=4))

    assert used_amount(budget(hold=hold), answered, bounds) == amount
    assert used_amount(budget(hold=hold), a_receipt(cost_nanos=None, usage=None), bounds) == 0


KEYED = route(tariff=None)
KEYED = replace(KEYED, upstream=replace(KEYED.upstream, key_env="KEY"))


@pytest.mark.parametrize(
    ("rule", "over", "is_refused"),
    [
        (UnpricedPolicy.OWN, KEYED, True),
        (UnpricedPolicy.OWN, route(tariff=None), False),
        (UnpricedPolicy.OWN, replace(KEYED, upstream=replace(KEYED.upstream, key_env="")), False),
        (UnpricedPolicy.REFUSE, route(tariff=None), True),
        (UnpricedPolicy.ALLOW, KEYED, False),
    ],
)
def test_a_call_whose_price_nobody_knows_passes_where_nobody_sells_it(rule, over, is_refused):
    assert is_uncountable(rule, call(BODY), over) is is_refused


def test_a_key_in_the_catalogs_headers_is_a_key():
    upstream = replace(KEYED.upstream, key_env="", headers={"authorization": "Bearer x"})

    assert is_uncountable(UnpricedPolicy.OWN, call(BODY), replace(KEYED, upstream=upstream))


@pytest.mark.parametrize(
    ("endpoint", "is_refused"),
    [
        ("images/generations", True),
        ("batches", True),
        ("responses/compact", True),
        ("files", False),
        ("uploads/upload_1/parts", False),
        ("moderations", False),
        ("batches/batch_1/cancel", False),
        ("responses/input_tokens", False),
        ("files/../images/generations", True),
        ("files/%2e%2e/images/generations", True),
    ],
)
def test_an_unbilled_endpoint_has_a_known_price(endpoint, is_refused):
    assert is_uncountable(UnpricedPolicy.OWN, call(b"", endpoint, fields=None), KEYED) is is_refused


def test_a_call_that_only_reads_has_a_known_price():
    asking = call(b"", "batches", method="GET", fields=None)

    assert not is_uncountable(UnpricedPolicy.REFUSE, asking, KEYED)
