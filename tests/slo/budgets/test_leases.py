"""One lease and its counter, message by message; the counter's side is Redis's own.

``tests/proxy/store/redis/test_leased_counters.py`` holds both together.
"""

import pytest

from slo.budgets.counter import CounterClaim, CounterLevel
from slo.budgets.leases import Lease, LeaseRenewal, LeaseReport

IDLE_S = 5.0
MAX_LEASE_DIVISOR = 16
MIN_LEASED_CALLS = 8
REPORT_DEADLINE_S = 9.0

NOW = 1000.0
SECOND = 1_790_000_000
LIMIT = 100_000
DAY = 86_400


def claim(amount: int = 10, limit: int = LIMIT, *, hard: bool = True) -> CounterClaim:
    return CounterClaim("team", amount, limit, hard, SECOND + 3600.0)


def renew(
    lease: Lease, amount: int | None = None, now: float = NOW, **changes: object
) -> LeaseReport:
    """The report that the lease makes, once it was answered."""
    report = lease.report("team", int(now), now)
    holds = report.want if amount is None else amount
    fields = {"is_valid": True, "amount": holds, "level": CounterLevel(0, holds), "running": 0}
    lease.renew(report, LeaseRenewal(**(fields | changes)), now)  # type: ignore[arg-type]
    return report


@pytest.fixture
def lease() -> Lease:
    """One that holds a hundred."""
    new_lease = Lease(claim(), CounterLevel(0, 0), NOW)
    renew(new_lease, 100)
    return new_lease


def test_a_lease_covers_calls_up_to_what_it_holds(lease):
    for _ in range(10):
        assert lease.fits(claim(), NOW)
        lease.add_hold(10)
    assert not lease.fits(claim(1), NOW)

    lease.settle(10, 4, NOW, SECOND)
    assert lease.fits(claim(6), NOW)
    assert not lease.fits(claim(7), NOW)
    assert lease.level == CounterLevel(4, 90)
    assert lease.all_running == 9


def test_a_lease_lets_no_call_pass_before_it_is_answered_nor_long_after():
    new_lease = Lease(claim(), CounterLevel(0, 0), NOW)
    assert not new_lease.fits(claim(), NOW)
    renew(new_lease, 100)
    assert new_lease.fits(claim(), NOW + 3.99)
    assert not new_lease.fits(claim(), NOW + 4.0)


def test_a_lease_of_counters_that_are_not_whole_or_lost_it_lets_no_call_pass(lease):
    lease.add_hold(10)
    report = renew(lease, 10, is_valid=False)
    assert report.floor == 10
    assert not lease.fits(claim(), NOW)
    assert lease.report("team", 9, NOW).is_new


def test_reported_usage_leaves_the_lease_and_only_the_rest_is_used_meanwhile(lease):
    lease.add_hold(10)
    lease.settle(10, 8, NOW, SECOND)
    lease.add_hold(10)
    report = lease.report("team", 5, NOW)

    assert report.spent == {SECOND: 8}
    assert report.floor == 10
    assert report.keep <= 100 - 8
    assert lease.amount == report.keep
    assert lease.level == CounterLevel(8, 10)


def test_a_report_without_an_answer_says_the_same_again_and_later_spending_waits(lease):
    lease.add_hold(30)
    lease.settle(10, 8, NOW, SECOND)
    first = lease.report("team", 5, NOW)
    lease.settle(10, 7, NOW + 1, SECOND + 1)
    again = lease.report("team", 6, NOW + 1)

    assert (again.number, again.spent) == (first.number, first.spent) == (5, {SECOND: 8})
    assert again.floor == 10 + 7
    assert again.floor <= again.keep <= first.keep
    lease.renew(
        again, LeaseRenewal(is_valid=True, amount=60, level=CounterLevel(8, 60), running=1), NOW + 1
    )
    assert lease.level == CounterLevel(15, 10)
    assert lease.report("team", 7, NOW + 1).spent == {SECOND + 1: 7}


def test_usage_that_cannot_be_reported_in_time_is_given_up(lease):
    lease.add_hold(20)
    lease.settle(10, 8, NOW, SECOND)
    lease.report("team", 5, NOW)
    lease.settle(10, 7, NOW + 5, SECOND + 5)
    assert lease.report("team", 6, NOW + REPORT_DEADLINE_S).spent == {SECOND: 8}
    later = NOW + REPORT_DEADLINE_S + 1

    assert lease.report("team", 7, later).spent == {}
    assert lease.level == CounterLevel(7, 0)
    assert lease.report("team", 8, later + 5).floor == 0
    assert lease.level == CounterLevel(0, 0)


def test_usage_is_reported_wherever_the_time_since_1970_leapt(lease):
    for number, leap in enumerate((-DAY, 0, DAY)):
        lease.add_hold(10)
        lease.settle(10, 3 + number, NOW + number, SECOND + leap)
        lease.add_hold(10)
        lease.settle(10, 1, NOW + number + 1, SECOND + leap)

    report = lease.report("team", 5, NOW + 3)

    assert report.spent == {SECOND - DAY: 4, SECOND: 5, SECOND + DAY: 6}
    assert lease.level == CounterLevel(15, 0)


def test_a_lease_asks_for_what_calls_needed_and_for_its_share_at_most(lease):
    for _ in range(9):
        assert lease.fits(claim(), NOW)
        lease.add_hold(10)
    little = lease.report("team", 5, NOW)
    assert MIN_LEASED_CALLS * 10 < 2 * 90 <= little.want <= LIMIT // 16

    lease.add_hold(10**6)
    assert lease.report("team", 6, NOW).want == LIMIT // 16


def test_lease_wants_nothing_where_its_share_covers_few_calls():
    spend = LIMIT - MAX_LEASE_DIVISOR * MIN_LEASED_CALLS * 10
    for spent, wants in ((spend, True), (spend + MAX_LEASE_DIVISOR, False)):
        report = Lease(claim(), CounterLevel(spent, 0), NOW).report("team", 1, NOW)
        assert (report.want > 0) is wants
        assert report.least == MIN_LEASED_CALLS * 10


def test_a_lease_is_left_where_a_claim_would_leave_others_less_than_half_of_what_is_free(lease):
    assert lease.fits(claim(limit=LIMIT // 2 + 100), NOW)
    assert not lease.fits(claim(limit=LIMIT // 2 - 100), NOW)


def test_a_soft_lease_covers_all_and_holds_what_calls_hold():
    new_lease = Lease(claim(hard=False), CounterLevel(0, 0), NOW)
    renew(new_lease, 0)
    assert new_lease.fits(claim(10**9, hard=False), NOW)
    new_lease.add_hold(10**9)
    report = renew(new_lease, 10**9)
    assert (report.limit, report.want, report.floor) == (None, 0, 10**9)


def test_a_lease_without_calls_is_released_and_then_over(lease):
    assert lease.fits(claim(), NOW)
    lease.add_hold(10)
    released = renew(lease, 10, NOW + IDLE_S)
    assert (released.want, released.keep) == (0, 10)
    assert not lease.is_over(NOW + IDLE_S)

    lease.settle(10, 3, NOW, SECOND)
    renew(lease, 0, NOW + 4.9)
    assert not lease.is_over(NOW + 4.9)
    renew(lease, 0, NOW + IDLE_S + 1)
    assert lease.is_over(NOW + IDLE_S + 1)


def test_a_lease_is_not_over_while_its_last_report_has_no_answer(lease):
    lease.report("team", 5, NOW + IDLE_S)
    assert lease.amount == 0
    assert not lease.is_over(NOW + IDLE_S)


def test_a_last_report_keeps_what_calls_hold_and_nothing_else(lease):
    lease.add_hold(10)
    report = lease.report("team", 5, NOW, is_last=True)

    assert (report.want, report.keep, report.floor) == (0, 10, 10)


def test_a_lease_wants_twice_the_peak_of_its_holds_and_forgets_a_fifth_of_it_a_report(lease):
    for _ in range(9):
        lease.add_hold(10)
    wants = [renew(lease).want]
    for _ in range(9):
        lease.settle(10, 0, NOW, SECOND)
    wants += [renew(lease).want for _ in range(2)]

    assert wants == [2 * 90, 2 * 72, 2 * 57]


def test_a_lease_wants_twelve_times_what_was_spent_since_the_last_report(lease):
    lease.add_hold(10)
    lease.settle(10, 50, NOW, SECOND)

    assert [renew(lease).want - 12 * spent for spent in (50, 40, 32)] == [2 * 8, 2 * 6, 2 * 4]
