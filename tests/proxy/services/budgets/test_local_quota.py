"""What a process admits by itself while the counters are out of reach."""

import pytest

from proxy.services.budgets.local_quota import TTL_S, LocalQuota
from proxy.services.budgets.reservation_requests import CountedBudget
from slo.reservation_sizing import UsageBounds
from slo.reservations import CounterLevel
from tests.fakes.admission_harness import NOW, budget

NEED = UsageBounds(sure=1, typical=5, likely=7, worst=10)
COUNTED = CountedBudget(budget(limit=1000), "acme", "b/acme", NOW + 3600)


@pytest.mark.parametrize(
    ("level", "admitted"), [(None, 10), (CounterLevel(500, 100), 4), (CounterLevel(900, 200), 0)]
)
def test_a_tenth_of_what_was_left_is_admitted_in_worst_cases(level, admitted):
    local = LocalQuota()

    found = [
        local.reserve(str(number), [local.claim(COUNTED, NEED, level)], NOW) for number in range(20)
    ]

    assert found == [True] * admitted + [False] * (20 - admitted)


def test_what_is_settled_or_has_ended_leaves_room_again():
    local = LocalQuota()
    claim = local.claim(COUNTED, NEED, CounterLevel(0, 900))
    assert local.reserve("first", [claim], NOW)
    assert not local.reserve("second", [claim], NOW)

    local.settle("first", {"b/acme": 0}, NOW)

    assert local.reserve("second", [claim], NOW)
    assert not local.reserve("third", [claim], NOW + TTL_S - 1)
    assert local.reserve("third", [claim], NOW + TTL_S + 1)
