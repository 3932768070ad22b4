"""Calls and objectives while something fails: nothing hangs, nothing is lost."""

from functools import cache
from pathlib import Path

import psycopg
import pytest

from tests.fakes.objective_faults import CUES, JUMPS, Fault, FaultResult, got, meet
from tests.fakes.objective_outages import OutageResult, database_lost, leader_lost, redis_lost
from tests.fakes.postgres import schema
from tests.fakes.redis_server import ABSENT, PROGRAM, own_redis

NAMES = [*CUES, *JUMPS]


def met(name: str, enforce: str = "degrade") -> FaultResult:
    """The outcome of a fault of one minute; once for all tests."""
    return _met(name, enforce)


#: Of a module's scope: pytest then runs all tests of a fault in a row, and so in one process.
@cache
def _met(name: str, enforce: str) -> FaultResult:
    return meet(Fault(name=name, enforce=enforce, begins=30.0, ends=90.0, over=170.0))


@pytest.mark.parametrize("name", NAMES, scope="module")
@pytest.mark.parametrize("enforce", ["alert", "degrade"])
def test_every_call_has_one_answer_and_one_final_receipt_and_costs_what_was_charged(name, enforce):
    outcome = met(name, enforce)

    assert {heard_call.call for heard_call in outcome.heard} == outcome.finals.keys()
    assert len(outcome.heard) == len(outcome.finals) == 340
    assert all(heard_call.is_whole for heard_call in outcome.heard)
    assert outcome.exact == outcome.charged > 0
    assert outcome.errors == []


@pytest.mark.parametrize("name", NAMES, scope="module")
def test_with_a_ladder_every_caller_is_answered(name):
    assert {heard_call.status for heard_call in met(name).heard} == {200}


@pytest.mark.parametrize(
    "name", ["hang before headers", "slow first byte", "keep-alives only"], scope="module"
)
def test_no_caller_waits_for_long_where_an_objective_has_a_ladder(name):
    meanwhile = met(name).meanwhile
    late = [
        heard_call for heard_call in meanwhile if heard_call.first is None or heard_call.first > 1.0
    ]

    assert max(heard_call.took for heard_call in meanwhile) < 15
    assert len(late) < len(meanwhile) / 4
    assert late == [] or max(heard_call.began for heard_call in late) < 30 + 30


@pytest.mark.parametrize("name", NAMES, scope="module")
def test_an_answer_of_a_fallback_model_says_why_in_its_header(name):
    outcome = met(name)
    for heard_call in outcome.heard:
        assert heard_call.fallback_reason == outcome.finals[heard_call.call].reroute_reason
        assert heard_call.headers["x-thriftgate-model"] == (
            "small" if heard_call.fallback_reason else "big"
        )
    assert any(heard_call.fallback_reason for heard_call in outcome.meanwhile)


@pytest.mark.parametrize("name", ["hang before headers", "keep-alives only"], scope="module")
def test_an_abandoned_attempt_is_estimated_and_its_replacement_is_not(name):
    outcome = met(name)
    given_up = [receipt for receipt in outcome.receipts if not receipt.final]

    assert {receipt.error for receipt in given_up} == {"ttft_deadline"}
    assert all(receipt.estimated and receipt.cost_nanos for receipt in given_up)
    assert given_up == [receipt for receipt in outcome.receipts if receipt.estimated]


@pytest.mark.parametrize("name", CUES, scope="module")
def test_a_route_that_fails_is_left_alone_and_comes_back(name):
    outcome = met(name)
    after = [heard_call for heard_call in outcome.heard if heard_call.began > 160]

    assert outcome.breaker[0] != "closed" or outcome.moves
    assert outcome.breaker[1] == "closed"
    assert any(heard_call.headers["x-thriftgate-model"] == "big" for heard_call in after)


def test_without_a_ladder_callers_are_told_what_the_upstream_did():
    hung = met("hang before headers", "alert").got
    slow = met("slow first byte", "alert").got
    limited = met("429 storm", "alert")

    assert hung == {"504 upstream_timeout": 120}
    assert slow == {"answer": 120}
    assert limited.got == {"429 rate_limit_exceeded, retry-after 20": 120}
    assert max(heard_call.took for heard_call in limited.meanwhile) < 1


@pytest.mark.parametrize("name", CUES, scope="module")
def test_people_are_told_that_an_objective_is_missed(name):
    alerts = met(name, "alert").alerts
    burns = [alert for alert in alerts if alert.kind == "burn"]

    assert burns
    assert all(alert.action == "Nothing: it only alerts." for alert in burns)
    assert all(" is failing and " in alert.title for alert in alerts if alert not in burns)


@pytest.mark.parametrize("name", JUMPS, scope="module")
def test_a_clock_that_jumps_freezes_the_level_for_a_minute(name):
    (degraded, frozen, thawed) = met(name).moves[:3]

    assert "is degraded" in degraded[1]
    assert frozen[0] == pytest.approx(60, abs=2)
    assert frozen[1] == "chat-ttft is frozen: Frozen: the clock jumped"
    assert thawed[0] == pytest.approx(120, abs=3)
    assert "is degraded" in thawed[1]


@pytest.mark.parametrize("name", JUMPS, scope="module")
def test_a_clock_that_jumps_costs_no_caller_anything(name):
    outcome = met(name)
    moved = {got(heard_call) for heard_call in outcome.meanwhile if heard_call.began > 65}

    assert max(heard_call.took for heard_call in outcome.meanwhile) < 2
    assert "answer, moved (fallback level 1)" in moved


def check(loss: OutageResult) -> None:
    """Nothing is lost, and nobody who was there was refused or kept waiting."""
    assert loss.found.is_whole, loss.found
    for phase in loss.phases:
        assert set(phase.got) <= {
            "answer",
            "answer, moved (fallback level 1)",
            "answer, moved (in its place)",
            "nobody there",
            "broken off",
        }, phase
        assert phase.slowest < 10, phase


@pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
def test_a_lost_redis_moves_nobody_and_neither_does_one_that_comes_back_empty(tmp_path: Path):
    with own_redis(tmp_path) as server:
        loss = redis_lost(tmp_path, server, seconds=2)

    check(loss)
    assert loss.level("calm") == 0
    for name in ("slow", "Redis silent", "Redis dead", "Redis back, empty"):
        assert loss.level(name) == 1, loss
    assert [alert.kind for alert in loss.alerts if alert.kind == "move"] == ["move"]


@pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
def test_where_the_leader_is_killed_another_leads_on_and_it_comes_back_to_the_same(tmp_path: Path):
    with own_redis(tmp_path) as server:
        loss = leader_lost(tmp_path, server, seconds=2)

    check(loss)
    assert [loss.level("slow", number) for number in (0, 1)] == [1, 1]
    assert [loss.level("leader dead", number) for number in (0, 1)] == [None, 1]
    assert [loss.level("leader back", number) for number in (0, 1)] == [1, 1]
    before, after = loss.epochs
    assert after > before
    assert [alert.kind for alert in loss.alerts if alert.kind == "move"] == ["move"]


def test_objectives_are_kept_without_the_database_and_people_told_once_it_is_back(tmp_path: Path):
    try:
        with schema() as url:
            loss = database_lost(tmp_path, url, seconds=2)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL: {error}")

    check(loss)
    assert loss.level("database away") == 0
    assert loss.level("database away, slow") == 1
    assert [alert.kind for alert in loss.alerts if alert.kind == "move"] == ["move"]
