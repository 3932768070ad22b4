"""Failed sign-ins are limited, in bounded memory; the token matches at any rate."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.pages.access import sign_in_limits
from proxy.pages.access.sign_in_limits import (
    MAX_FAILURES,
    MAX_FAILURES_OF_PAIR,
    AdminToken,
    FailureLimit,
    SignInLimits,
)
from tests.fakes.clock import ManualClock

TOKEN = "an-admin-token-of-24-chars"


def test_a_key_waits_once_it_has_failed_so_often_and_others_do_not() -> None:
    clock = ManualClock(1000.0)
    limit = FailureLimit(3, 300.0, clock)
    for _ in range(3):
        assert limit.wait("ann") == 0.0
        limit.record_failure("ann")
        clock.now += 10.0

    assert (limit.wait("ann"), limit.wait("bob")) == (70.0, 0.0)
    clock.now += 70.0
    assert limit.wait("ann") == 0.0
    limit.record_failure("ann")
    assert limit.wait("ann") == 100.0
    limit.forget("ann")
    assert limit.wait("ann") == 0.0


def test_keys_are_forgotten_before_they_fill_the_memory() -> None:
    limit = FailureLimit(1, 300.0, ManualClock(1.0))
    for number in range(sign_in_limits._MAX_REMEMBERED + 5):
        limit.record_failure(str(number))

    assert len(limit._forgiven_at) == sign_in_limits._MAX_REMEMBERED
    assert limit.wait("0") == 0.0


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=300))
def test_a_key_never_fails_more_often_than_at_once_and_at_its_rate(steps) -> None:
    clock = ManualClock(0.0)
    limit = FailureLimit(10, 300.0, clock)
    failures = 0
    for seconds, is_patient in steps:
        clock.now += limit.wait("ann") if is_patient else seconds
        if not limit.wait("ann"):
            limit.record_failure("ann")
            failures += 1

    assert failures <= 10 + clock.now / 30.0 + 1e-6


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    limits = SignInLimits(ManualClock(0.0))
    for number in range(MAX_FAILURES_OF_PAIR):
        limits.record_failure("ann", f"2001:db8:1:2::{number + 1:x}", "")

    assert limits.wait("ann", "2001:db8:1:2:ffff::1", "") > 0
    assert limits.wait("ann", "2001:db8:1:3::1", "") == 0.0


def test_the_token_matches_itself_alone() -> None:
    secret = AdminToken(TOKEN, ManualClock(0.0))

    assert secret.matches(TOKEN)
    assert not any(secret.matches(token) for token in ("", TOKEN[:-1], TOKEN + "x", TOKEN.upper()))
    assert secret.holder != AdminToken(TOKEN + "x", ManualClock(0.0)).holder
    assert TOKEN not in secret.holder


def test_after_five_misses_in_a_minute_more_have_to_wait_until_the_first_is_a_minute_old() -> None:
    watch = ManualClock(1000.0)
    secret = AdminToken(TOKEN, watch)
    for _ in range(MAX_FAILURES):
        assert secret.record_failure() == 0.0
        watch.now += 10.0

    assert [secret.record_failure(), secret.record_failure()] == [10.0, 10.0]
    watch.now += 10.0
    assert secret.record_failure() == 0.0
    assert secret.record_failure() == 10.0


def test_the_token_matches_however_often_it_was_missed() -> None:
    secret = AdminToken(TOKEN, ManualClock(0.0))
    for _ in range(MAX_FAILURES + 1):
        secret.record_failure()

    assert secret.matches(TOKEN)
