"""Redis lost under load: what callers see, and that counters find back to the ledger.

``python -m tests.bench.budget_faults`` does it for longer, and prints the table.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.services.budgets.accounts import SETTLED_AFTER_S
from slo.budgets.leases import VALID_S
from tests.bench.budget_faults import (
    LIMITS,
    NEAR,
    NEARLY,
    PHASES,
    TEAMS,
    Loss,
    TeamAnswers,
    lost,
    restart_redis,
)
from tests.fakes.redis_server import ABSENT, PROGRAM, own_redis

_LOST = ("silent", "dead")


@pytest.fixture(scope="module")
def loss(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loss]:
    """The results of a lost Redis, measured once for all tests of the module."""
    if PROGRAM is None:
        pytest.skip(ABSENT)
    folder: Path = tmp_path_factory.mktemp("lost")
    with own_redis(folder) as redis:
        yield lost(folder, redis, lead=3.0, away=VALID_S + 1.0)


def rows(loss: Loss, team: str, *phases: str) -> list[TeamAnswers]:
    return [row for row in loss.rows if row.team == team and row.phase in phases]


def test_every_caller_of_a_lost_counter_store_gets_an_answer(loss):
    for row in loss.rows:
        assert sum(row.statuses.values()) > 10, row
        assert set(row.statuses) <= {200, 429, 503}, row
        assert row.refused < 5.0, row
    assert {row.phase for row in loss.rows} == set(PHASES)


def test_open_lets_calls_pass_unseen(loss):
    for row in rows(loss, "open", *_LOST):
        assert set(row.statuses) == {200}, row


def test_closed_refuses_every_call_once_leases_are_over_and_says_why(loss):
    (silent, dead) = rows(loss, "closed", *_LOST)

    assert set(dead.statuses) == {503}
    assert silent.statuses[503] > 0
    assert silent.codes == dead.codes == {"budgets_unavailable"}
    assert dead.spent == 0


def test_a_local_quota_lets_a_part_of_what_was_left_pass_and_refuses_the_rest(loss):
    passed = sum(row.spent for row in rows(loss, "local_quota", *_LOST))
    refused = sum(row.statuses[503] for row in rows(loss, "local_quota", *_LOST))

    assert 0 < passed < LIMITS["local_quota"] / 4
    assert refused > 0


def test_counters_that_came_back_empty_are_given_what_the_ledger_knows_and_the_drift_is_told(loss):
    assert max(loss.lacked.values()) > 0  # some may be whole by the time they are read
    assert loss.drift
    assert set(loss.spent) == set(TEAMS)
    for ledger, counter in loss.spent.values():
        assert ledger > NEARLY  # more than what a counter may be beyond it
        assert ledger <= counter <= ledger + NEARLY


def test_a_closed_budget_is_not_passed_where_redis_is_back_at_once_and_empty(tmp_path):
    if PROGRAM is None:
        pytest.skip(ABSENT)
    with own_redis(tmp_path) as redis:
        came = restart_redis(tmp_path, redis, near=NEAR, after=SETTLED_AFTER_S + 6)

    limit = LIMITS["closed"] * 1_000_000_000
    (_, after) = came.rows
    assert set(after.statuses) <= {200, 429, 503}
    assert after.statuses[503] > 0
    assert SETTLED_AFTER_S - 1 < came.refused < SETTLED_AFTER_S + 4
    assert NEAR <= came.before < came.spent <= limit
    assert came.spent <= came.counter <= limit
