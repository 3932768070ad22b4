import orjson
import pytest

from proxy.limits.claims import Counted, billed, claim, counted, needs, output_limit, subject, used
from proxy.receipt import Outcome
from proxy.settle import Seal
from slo.budget import Budgets, Hold, Unit
from slo.hold import Need, Output, Quote
from slo.reservations import Level
from slo.usage import Usage
from slo.window import Window
from tests.fakes.desk import TARIFF, call, route
from tests.fakes.limited import BODY, NOW, budget
from tests.fakes.receipts import a_receipt

SEAL = Seal(b"secret")
NEED = Need(sure=0, typical=10, likely=20, worst=100)


def asked(endpoint: str = "chat/completions", **fields: object) -> int:
    body = orjson.dumps({"model": "m", **fields})
    return output_limit(call(body, endpoint), route(max_output=4096))


def counting(**fields: object) -> Counted:
    return Counted(budget(**fields), "acme", "c", NOW + 60)


@pytest.mark.parametrize(
    ("limit", "fields"),
    [
        (4096, {}),
        (100, {"max_tokens": 100}),
        (200, {"max_tokens": 100, "max_completion_tokens": 200}),
        (300, {"endpoint": "responses", "max_output_tokens": 300}),
        (4096, {"max_tokens": 1_000_000}),
        (300, {"max_tokens": 100, "n": 3}),
        (16, {"endpoint": "completions"}),
        (0, {"endpoint": "embeddings"}),
        (4096, {"max_tokens": "many"}),
        (4096, {"max_tokens": -1}),
    ],
)
def test_as_much_may_be_generated_as_the_call_asks_and_the_route_allows(limit, fields):
    assert asked(**fields) == limit


def test_a_call_is_for_its_team_key_feature_and_an_end_user_nobody_can_tell():
    body = orjson.dumps({"model": "m", "user": "ann", "metadata": {"project": "x", "n": 1}})

    who = subject(call(body), SEAL, labelled=True)

    assert (who.team, who.key, who.feature) == ("acme", "key_1", "chat")
    assert who.user == SEAL.of("team_1", b"ann")
    assert who.labels == {"project": "x"}
    assert subject(call(body), SEAL, labelled=False).labels == {}


def test_what_only_reads_counts_as_a_request_alone():
    limits = Budgets([budget(), budget(name="r", unit=Unit.REQUESTS)])
    asking = call(b"", "files", method="GET", ask=None)

    found = counted(limits, subject(asking, SEAL, labelled=False), asking)

    assert [each.budget.name for each in found] == ["r"]


def test_the_window_is_that_of_the_calls_arrival():
    asking = call(BODY, arrived=NOW)
    limits = Budgets([budget(window=Window.MINUTE)])

    (found,) = counted(limits, subject(asking, SEAL, labelled=False), asking)

    assert found.counter == "b/team/usd/2026-09-21T14:13/acme"
    assert NOW < found.ends <= NOW + 60


@pytest.mark.parametrize(
    ("regime", "body", "usage"),
    [
        ("", b"", Usage(input=9)),
        ("openai-interval", b"", Usage(input=9)),
        ("openai-breakpoint", b"", Usage(write_30m=9)),
        ("anthropic-breakpoint", b"", Usage(input=9)),
        ("anthropic-breakpoint", b'"cache_control":{}', Usage(write_5m=9)),
        ("anthropic-breakpoint", b'"cache_control":{"ttl":"1h"}', Usage(write_1h=9)),
    ],
)
def test_a_prompt_is_taken_to_be_billed_in_the_dearest_way(regime, body, usage):
    assert billed(9, route(regime=regime), body) == usage


def test_of_what_nobody_can_tell_a_little_is_needed():
    output = Output(typical=1, likely=2, worst=3)
    found = needs(
        [Unit.USD, Unit.TOKENS, Unit.REQUESTS],
        call(BODY),
        Usage(input=5),
        output,
        Quote(tariff=None, at=NOW),
    )

    assert found[Unit.USD].worst == 1
    assert found[Unit.TOKENS] == Need(sure=5, typical=6, likely=7, worst=8)
    assert found[Unit.REQUESTS].worst == 1


def test_a_write_whose_price_is_unknown_is_priced_as_a_prompt():
    output = Output(typical=0, likely=0, worst=0)
    quote = Quote(tariff=TARIFF, at=NOW)

    found = needs([Unit.USD], call(BODY), Usage(write_1h=5), output, quote)

    assert found[Unit.USD].worst == 5_000


def test_while_there_is_room_the_likely_is_claimed_beside_room_for_the_rest():
    found = claim(counting(limit=10_000, hold=Hold.P95), NEED, Level(100, 200))

    assert found.amount == 20
    assert 9_000 < found.limit < 10_000


def test_near_the_limit_the_worst_is_claimed():
    assert claim(counting(limit=150, hold=Hold.P95), NEED, Level(100, 0)).amount == 100


def test_a_soft_budget_refuses_nothing():
    found = claim(counting(limit=1, hard=False), NEED, None)

    assert (found.amount, found.hard) == (20, False)


@pytest.mark.parametrize(
    ("unit", "fields", "amount"),
    [
        (Unit.USD, {"cost_nanos": 7}, 7),
        (Unit.USD, {"cost_nanos": None}, 0),
        (Unit.TOKENS, {"usage": Usage(input=1, cache_read=2, output=4)}, 7),
        (Unit.TOKENS, {"usage": None}, 0),
        (Unit.REQUESTS, {}, 1),
        (Unit.REQUESTS, {"final": False}, 0),
        (Unit.REQUESTS, {"outcome": Outcome.REFUSED}, 0),
    ],
)
def test_a_receipt_says_what_was_used(unit, fields, amount):
    assert used(unit, a_receipt(**fields)) == amount
