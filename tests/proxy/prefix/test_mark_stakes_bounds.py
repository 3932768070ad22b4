"""The stake is one for all models of a feature, and the team's dollar bounds reads that fail."""

import random
import tempfile
from pathlib import Path

import msgspec
import pytest

from proxy.calls.eligibility.route_target import route_target
from proxy.prefix.planned import PlanningTarget
from proxy.records.mark_account import MAX_TEAM_LOSS
from slo.price import TokenRates
from slo.usage import Usage
from tests.bench.no_harm_routes import catalog
from tests.proxy.prefix.planning_requests import (
    NOW,
    PlanningProcess,
    body,
    conversation_messages,
    learned_layout,
    planning_request,
    usage_of,
)
from tests.proxy.prefix.test_mark_stakes import (
    ANTHROPIC,
    LONG_RULES,
    direct_cost,
    one_shot,
    savings,
    send,
    staked_calls,
)
from tests.proxy.prefix.test_team_indexes import deep_bytes

FAMILIES = ("claude-opus-5", "claude-sonnet-5", "claude-haiku-5", "claude-fable-5", "sonnet")
#: Price at which some dozen features that lose a write each lose a dollar together.
DEAR = TokenRates(input=100_000_000_000)
SURCHARGE = 0.25


def priced_target(rates: TokenRates | None, model: str = "claude-opus-5") -> PlanningTarget:
    return msgspec.structs.replace(ANTHROPIC, model=model, rates=rates)


def never_read(process: PlanningProcess, raw: bytes, **fields: object) -> float:
    """Tokens' worth that a call loses at a provider that never reads."""
    planned = process.plan(planning_request(raw, **fields))
    total = planned.evidence.sent.estimate
    usage = Usage(write_5m=total) if planned.evidence.sent.marks else Usage(input=total)
    process.planner.settle_call(planned, usage)
    process.planner.end_call(planned)
    return SURCHARGE * usage.write_5m


def test_models_of_a_feature_lose_one_stake_together_and_not_one_each():
    process = PlanningProcess(ANTHROPIC)
    lost = []
    for number, model in enumerate(FAMILIES * 3):
        process.to = priced_target(ANTHROPIC.rates, model)
        lost.append(never_read(process, one_shot(number)))

    assert sum(lost) <= max(lost)


def test_reads_that_fail_in_many_features_lose_no_more_than_the_teams_dollar():
    process = PlanningProcess(priced_target(DEAR))
    features = [f"feature {number}" for number in range(60)]
    lost = [
        never_read(process, body(*conversation_messages(turns, LONG_RULES)), feature=name)
        for turns in range(4)
        for name in features
    ]
    price = float(DEAR.input or 0)

    assert 0.8 * MAX_TEAM_LOSS < sum(lost) * price <= MAX_TEAM_LOSS
    assert not any(lost[-60:])


def test_a_team_keeps_what_it_lost_today_when_its_indexes_are_dropped():
    process = PlanningProcess(priced_target(DEAR))
    lost = 0.0
    for number in range(90):
        lost += never_read(process, one_shot(number), feature=f"feature {number}")
        process.planner.memory._teams.clear()

    assert 0.8 * MAX_TEAM_LOSS < lost * float(DEAR.input or 0) <= MAX_TEAM_LOSS


@pytest.mark.parametrize("unit", [1.0, 0.001])
def test_without_a_price_the_stake_binds_as_at_a_dear_price(unit: float):
    """A stake of so many tokens at the assumed price bounds the loss of cheap calls."""
    rates = TokenRates(input=30_000_000_000)
    lost = []
    for target in (priced_target(None), priced_target(rates)):
        process = PlanningProcess(target, stake=unit * 1_000 * 30e9)
        lost.append([never_read(process, one_shot(number)) for number in range(20)])

    assert lost[0] == lost[1]
    assert priced_target(None).token_price == priced_target(rates).token_price


def test_no_cache_with_marks_has_a_dearer_model_than_is_assumed_without_a_price():
    with tempfile.TemporaryDirectory() as folder:
        models = catalog(Path(folder))[0].models
    targets = [
        route_target(route, name, NOW) for name, model in models.items() for route in model.routes
    ]
    dearest = max(target.token_price for target in targets if target.takes_marks)

    assert dearest <= priced_target(None).token_price


def test_a_features_books_take_no_more_bytes_than_are_counted():
    process = PlanningProcess(ANTHROPIC)
    planned = [process.plan(planning_request(one_shot(number))) for number in range(2)]
    indexes = process.planner.memory.of("team_1")
    for number in range(60):
        never_read(process, one_shot(number))
    stakes = indexes.stakes
    feature = stakes._account_of(planned[0].place)
    stakes._accounts.reweigh(feature.measure())

    assert deep_bytes(feature) <= feature.size_bytes
    assert stakes._accounts.size_bytes == feature.size_bytes


def break_reads(process: PlanningProcess, calls: int, reads: float) -> list[float]:
    """Tokens' worth that calls lose whose provider reads a part of what it should."""
    dice, lost = random.Random(calls), []  # noqa: S311 - no secret
    for number in range(calls):
        raw = body(*conversation_messages(number % 12, LONG_RULES, f"Parcel {number // 12}?"))
        planned = process.plan(planning_request(raw))
        usage = usage_of(planned)
        if planned.evidence.sent.marks and dice.random() >= reads:
            usage = Usage(input=usage.input, write_5m=usage.prompt_tokens - usage.input)
        process.planner.settle_call(planned, usage)
        process.planner.end_call(planned)
        lost.append((SURCHARGE * usage.write_5m - 0.9 * usage.cache_read) / usage.prompt_tokens)
    return lost


@pytest.mark.parametrize("reads", [0.0, 0.1, 0.2])
def test_a_feature_does_not_lose_all_that_it_earned_once_its_provider_reads_no_more(reads: float):
    process = PlanningProcess(ANTHROPIC)
    break_reads(process, 300, 1.0)
    lost = break_reads(process, 600, reads)

    assert 0.0 < sum(lost) < 10.0


def test_a_feature_is_marked_again_soon_after_its_provider_reads_again():
    process = PlanningProcess(ANTHROPIC)
    break_reads(process, 120, 1.0)
    break_reads(process, 30, 0.0)
    process.now += 3_600.0
    lost = break_reads(process, 240, 1.0)

    assert sum(lost[60:]) < -0.8 * len(lost[60:])


def test_many_reads_that_fail_at_once_pause_marks_for_minutes_and_not_for_days():
    process = PlanningProcess(ANTHROPIC)
    break_reads(process, 120, 1.0)
    raw = body(*conversation_messages(3, LONG_RULES, "Parcel 9?"))
    burst = [process.plan(planning_request(raw)) for _ in range(60)]
    for planned in burst:
        process.planner.settle_call(planned, Usage(write_5m=planned.evidence.sent.estimate))
        process.planner.end_call(planned)
    process.now += 700.0
    lost = break_reads(process, 120, 1.0)

    assert sum(lost[30:]) < -0.8 * len(lost[30:])


def customer_call(name: str, turns: int = 0) -> bytes:
    """A call of a conversation whose rules begin with its customer's name."""
    rules = f"Customer: {name}\n\n{LONG_RULES}"
    return body(*conversation_messages(turns, rules, f"Where is the parcel of {name}?"))


def test_layout_is_marked_though_the_feature_lost_before_what_its_marks_may_lose():
    layout = learned_layout(ANTHROPIC, [customer_call(f"Nr {number}") for number in range(24)])
    process = PlanningProcess(ANTHROPIC)
    before = [send(process, customer_call("Nr 100"))]
    while len(staked_calls(before)) < 2:  # its conversation ends with the second lost mark
        before.append(send(process, customer_call("Nr 101", turns=len(before) - 1)))
    before += [send(process, customer_call(f"Nr {number}")) for number in range(200, 240)]
    process.layout = layout
    moved = [send(process, customer_call(f"Nr {number}")) for number in range(300, 360)]

    assert staked_calls(before[-40:]) == []
    assert savings(before) == pytest.approx(2 * savings(before[:1]), rel=0.1)
    assert savings(moved) > 0.7 * sum(map(direct_cost, moved))
