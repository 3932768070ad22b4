"""A gateway killed with calls under way: what it held counts until its time is over.

That it is spent afterwards takes the minute that holds last; ``python -m
tests.bench.gateway_deaths`` waits for it. Here the same is told of the counters alone, whose time
is a test's own (``tests/proxy/store/redis/test_budget_store_ended_holds.py``).
"""

import pytest

from proxy.services.budgets.counter_loss import TTL_S
from tests.bench.budget_fault_gateways import HALF
from tests.bench.gateway_deaths import kill_one
from tests.fakes.redis_server import ABSENT, PROGRAM, own_redis


@pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
def test_holds_of_a_killed_gateway_count_for_the_others_until_they_expire(tmp_path):
    with own_redis(tmp_path) as redis:
        came = kill_one(tmp_path, redis, waits=False)

    assert came.held == ("5", "5")
    assert 0 < came.frees <= TTL_S + 0.1
    assert came.admitted == 0
    assert came.level.held == HALF * 100_000_000
    # The other half were left by their callers, and may be billed to the end.
    assert came.level.spent == HALF * 100_000_000
    assert 0 < came.spent < came.level.spent
