import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from slo.breaker import (
    BASE_EJECTION_S,
    CONSECUTIVE_FAILURES,
    FAILURE_WINDOW_S,
    FORGIVE_EJECTION_AFTER_S,
    MAX_EJECTION_S,
    MIN_CALLS,
    PROBE_TIMEOUT_S,
    BreakerState,
    CircuitBreaker,
)
from slo.breaker import order_routes as order_of
from tests.examples import examples

NOW = 1_000.0
OKS = st.sampled_from([True, False, None])


def fail(breaker: CircuitBreaker, now: float, times: int = CONSECUTIVE_FAILURES) -> None:
    for _ in range(times):
        assert breaker.admits(now)
        breaker.record_outcome(now, ok=False, began=now)


def opened(now: float = NOW) -> CircuitBreaker:
    breaker = CircuitBreaker()
    fail(breaker, now)
    assert breaker.state(now) is BreakerState.OPEN
    return breaker


def test_it_begins_closed_and_admits_every_call():
    breaker = CircuitBreaker()

    assert breaker.state(NOW) is BreakerState.CLOSED
    assert all(breaker.admits(NOW) for _ in range(100))
    assert breaker.seconds_until_admission(NOW) == 0


def test_five_failures_in_a_row_open_it_however_long_they_took():
    breaker = CircuitBreaker()
    for number in range(CONSECUTIVE_FAILURES - 1):
        fail(breaker, NOW + 1000 * number, 1)
    assert breaker.state(NOW + 5000) is BreakerState.CLOSED

    fail(breaker, NOW + 5000, 1)

    assert breaker.state(NOW + 5000) is BreakerState.OPEN
    assert not breaker.admits(NOW + 5000)
    assert breaker.seconds_until_admission(NOW + 5000) == BASE_EJECTION_S


def test_a_success_between_them_begins_the_row_anew_and_silence_does_not():
    breaker = CircuitBreaker()
    fail(breaker, NOW, CONSECUTIVE_FAILURES - 1)
    breaker.record_outcome(NOW, ok=True)
    fail(breaker, NOW, CONSECUTIVE_FAILURES - 1)
    assert breaker.state(NOW) is BreakerState.CLOSED

    breaker.record_outcome(NOW, ok=None)
    fail(breaker, NOW, 1)

    assert breaker.state(NOW) is BreakerState.OPEN


def alternating(breaker: CircuitBreaker, calls: int, now: float) -> None:
    for number in range(calls):
        breaker.record_outcome(now, ok=number % 2 == 0)


def test_more_than_half_of_twenty_calls_open_it():
    breaker = CircuitBreaker()
    alternating(breaker, MIN_CALLS, NOW)
    assert breaker.state(NOW) is BreakerState.CLOSED

    breaker.record_outcome(NOW, ok=False)

    assert breaker.state(NOW) is BreakerState.OPEN


def test_fewer_than_twenty_calls_have_no_share():
    breaker = CircuitBreaker()
    alternating(breaker, MIN_CALLS - 2, NOW)
    breaker.record_outcome(NOW, ok=False)
    assert breaker.state(NOW) is BreakerState.CLOSED

    breaker.record_outcome(NOW, ok=False)

    assert breaker.state(NOW) is BreakerState.OPEN


def test_failures_before_a_breaker_closed_are_in_no_share():
    breaker = CircuitBreaker()
    alternating(breaker, MIN_CALLS, NOW)
    breaker.record_outcome(NOW, ok=False)
    breaker.record_outcome(NOW + 2, ok=True, began=NOW + 1)
    assert breaker.state(NOW + 2) is BreakerState.CLOSED

    breaker.record_outcome(NOW + 2, ok=False)

    assert breaker.state(NOW + 2) is BreakerState.CLOSED


def test_failures_of_more_than_thirty_seconds_ago_are_in_no_share():
    breaker = CircuitBreaker()
    alternating(breaker, MIN_CALLS, NOW)

    breaker.record_outcome(NOW + FAILURE_WINDOW_S, ok=False)

    assert breaker.state(NOW + FAILURE_WINDOW_S) is BreakerState.CLOSED


def test_half_open_it_admits_one_probe_at_a_time():
    breaker = opened()
    assert breaker.state(NOW + BASE_EJECTION_S) is BreakerState.HALF_OPEN
    assert breaker.seconds_until_admission(NOW + BASE_EJECTION_S) == 0

    assert breaker.admits(NOW + BASE_EJECTION_S)
    assert not breaker.admits(NOW + BASE_EJECTION_S)
    assert breaker.seconds_until_admission(NOW + BASE_EJECTION_S + 1) == PROBE_TIMEOUT_S - 1


def test_a_probe_that_succeeds_closes_it_and_what_failed_before_is_forgotten():
    breaker = opened()
    assert breaker.admits(NOW + BASE_EJECTION_S)

    breaker.record_outcome(NOW + BASE_EJECTION_S + 1, ok=True, began=NOW + BASE_EJECTION_S)

    assert breaker.state(NOW + BASE_EJECTION_S + 1) is BreakerState.CLOSED
    fail(breaker, NOW + BASE_EJECTION_S + 2, CONSECUTIVE_FAILURES - 1)
    assert breaker.state(NOW + BASE_EJECTION_S + 2) is BreakerState.CLOSED


def test_each_probe_that_fails_opens_it_for_longer_up_to_five_minutes():
    breaker, now, waits = opened(), NOW, []
    for _ in range(12):
        now += breaker.seconds_until_admission(now)
        assert breaker.admits(now)
        breaker.record_outcome(now, ok=False)
        waits.append(breaker.seconds_until_admission(now))

    assert waits == [
        60,
        90,
        120,
        150,
        180,
        210,
        240,
        270,
        MAX_EJECTION_S,
        MAX_EJECTION_S,
        MAX_EJECTION_S,
        MAX_EJECTION_S,
    ]


@pytest.mark.parametrize("began", [None, NOW + BASE_EJECTION_S])
def test_a_probe_that_says_nothing_lets_the_next_one_go(began: float | None):
    breaker = opened()
    assert breaker.admits(NOW + BASE_EJECTION_S)

    breaker.record_outcome(NOW + BASE_EJECTION_S + 1, ok=None, began=began)

    assert breaker.state(NOW + BASE_EJECTION_S + 1) is BreakerState.HALF_OPEN
    assert breaker.admits(NOW + BASE_EJECTION_S + 1)
    assert breaker.ejections == 1


def test_a_probe_that_does_not_end_gives_its_place_up_and_may_still_close_it():
    breaker = opened()
    probe = NOW + BASE_EJECTION_S
    assert breaker.admits(probe)
    assert not breaker.admits(probe + PROBE_TIMEOUT_S - 1)
    assert breaker.admits(probe + PROBE_TIMEOUT_S)

    breaker.record_outcome(probe + PROBE_TIMEOUT_S + 1, ok=None, began=probe)
    assert not breaker.admits(probe + PROBE_TIMEOUT_S + 1)
    breaker.record_outcome(probe + PROBE_TIMEOUT_S + 2, ok=True, began=probe)
    assert breaker.state(probe + PROBE_TIMEOUT_S + 2) is BreakerState.CLOSED


def test_a_call_begun_before_a_breaker_opened_does_not_count_when_it_ends():
    breaker = opened()
    breaker.record_outcome(NOW + 1, ok=True, began=NOW - 1)
    breaker.record_outcome(NOW + 1, ok=True, began=NOW)
    breaker.record_outcome(NOW + 1, ok=True)
    assert breaker.state(NOW + 1) is BreakerState.OPEN
    probe = NOW + BASE_EJECTION_S
    assert breaker.admits(probe)

    for ok in (True, False, None):
        breaker.record_outcome(probe + 1, ok=ok, began=NOW - 1)

    assert breaker.state(probe + 1) is BreakerState.HALF_OPEN
    assert not breaker.admits(probe + 1)
    breaker.record_outcome(probe + 2, ok=True, began=probe)
    for _ in range(CONSECUTIVE_FAILURES):
        breaker.record_outcome(probe + 3, ok=False, began=NOW - 1)
    assert breaker.state(probe + 3) is BreakerState.CLOSED


def test_a_call_that_was_sent_to_an_open_route_regardless_may_close_it_but_opens_it_no_longer():
    breaker = opened()
    breaker.record_outcome(NOW + 2, ok=False, began=NOW + 1)
    breaker.record_outcome(NOW + 2, ok=None, began=NOW + 1)
    assert breaker.seconds_until_admission(NOW + 2) == BASE_EJECTION_S - 2

    breaker.record_outcome(NOW + 4, ok=True, began=NOW + 3)

    assert breaker.state(NOW + 4) is BreakerState.CLOSED


def reopened(after: float) -> float:
    """For how long it opens when it has been closed for so long after two ejections."""
    breaker = opened()
    now = NOW + BASE_EJECTION_S
    assert breaker.admits(now)
    breaker.record_outcome(now, ok=False)
    now += breaker.seconds_until_admission(now)
    assert breaker.admits(now)
    breaker.record_outcome(now, ok=True)
    fail(breaker, now + after)
    return breaker.seconds_until_admission(now + after)


def test_each_minute_closed_forgives_an_ejection():
    assert reopened(FORGIVE_EJECTION_AFTER_S - 1) == 3 * BASE_EJECTION_S
    assert reopened(FORGIVE_EJECTION_AFTER_S) == 2 * BASE_EJECTION_S
    assert reopened(2 * FORGIVE_EJECTION_AFTER_S) == BASE_EJECTION_S
    assert reopened(200 * FORGIVE_EJECTION_AFTER_S) == BASE_EJECTION_S


def test_where_the_clock_goes_back_an_open_one_waits_no_longer_than_it_would_have():
    breaker = opened()

    assert breaker.seconds_until_admission(10.0) == BASE_EJECTION_S
    assert not breaker.admits(10.0)
    assert breaker.seconds_until_admission(10.0 + BASE_EJECTION_S) == 0
    assert breaker.admits(10.0 + BASE_EJECTION_S)


def test_where_the_clock_goes_back_an_open_one_still_closes():
    breaker = opened()
    assert not breaker.admits(10.0)

    breaker.record_outcome(12.0, ok=True, began=11.0)

    assert breaker.state(12.0) is BreakerState.CLOSED


def test_where_the_clock_goes_back_a_probe_keeps_its_place_no_longer_than_it_would_have():
    breaker = opened()
    assert breaker.admits(NOW + 500)

    assert breaker.seconds_until_admission(NOW + BASE_EJECTION_S) == PROBE_TIMEOUT_S
    assert not breaker.admits(NOW + BASE_EJECTION_S)
    assert breaker.admits(NOW + BASE_EJECTION_S + PROBE_TIMEOUT_S)


def test_where_the_clock_goes_back_nothing_is_forgiven_and_nothing_added():
    breaker = opened()
    assert breaker.admits(NOW + BASE_EJECTION_S)
    breaker.record_outcome(NOW + BASE_EJECTION_S, ok=True)

    fail(breaker, 500.0, 1)
    for _ in range(CONSECUTIVE_FAILURES):
        breaker.record_outcome(500.0, ok=False)

    assert breaker.seconds_until_admission(500.0) == 2 * BASE_EJECTION_S


def test_where_the_clock_goes_back_a_closed_one_still_opens():
    breaker = opened()
    assert breaker.admits(NOW + BASE_EJECTION_S)
    breaker.record_outcome(NOW + BASE_EJECTION_S, ok=True)

    for _ in range(CONSECUTIVE_FAILURES + 1):
        breaker.record_outcome(10.0, ok=False, began=10.0)

    assert breaker.state(10.0) is BreakerState.OPEN


def test_the_routes_that_admit_are_tried_in_their_order():
    routes = [("a", CircuitBreaker()), ("b", opened()), ("c", CircuitBreaker())]

    assert order_of(routes, NOW) == ["a", "c"]
    assert order_of(routes, NOW + BASE_EJECTION_S) == ["a", "b", "c"]


def test_where_every_route_is_open_the_one_that_reopens_soonest_is_tried():
    routes = [("a", opened(NOW + 2)), ("b", opened(NOW)), ("c", opened(NOW + 1))]

    assert order_of(routes, NOW + 3) == ["b"]
    assert order_of([], NOW) == []


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), min_size=1, max_size=8))
def test_never_all_routes_are_closed_off_and_no_probe_is_used_up_by_asking(routes):
    breakers = [opened(NOW + at) if is_open else CircuitBreaker() for at, is_open in routes]
    numbered = list(enumerate(breakers))

    tried = order_of(numbered, NOW + 100)

    assert tried
    assert tried == order_of(numbered, NOW + 100)
    admitting = [number for number, each in numbered if each.admits(NOW + 100)]
    assert tried == admitting or (not admitting and len(tried) == 1)


class Breaking(RuleBasedStateMachine):
    """Calls on one route whose clock also stands still and goes back."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = CircuitBreaker()
        self.now = NOW
        self.inside: list[float] = []

    @rule(seconds=st.sampled_from([0.0, 0.5, 7.0, 31.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(seconds=st.sampled_from([0.5, 40.0, 5000.0]))
    def go_back(self, seconds: float) -> None:
        self.now -= seconds

    @rule(times=st.integers(1, 4))
    def call(self, times: int) -> None:
        for _ in range(times):
            state = self.breaker.state(self.now)
            soon = self.breaker.seconds_until_admission(self.now)
            is_in = self.breaker.admits(self.now)
            assert is_in == (soon == 0)
            if is_in:
                self.inside.append(self.now)
            if state is BreakerState.HALF_OPEN:
                assert not self.breaker.admits(self.now)
            if state is BreakerState.CLOSED:
                assert is_in

    @precondition(lambda self: self.inside)
    @rule(which=st.integers(0, 99), ok=OKS, is_told=st.booleans())
    def end(self, which: int, ok: bool | None, is_told: bool) -> None:  # noqa: FBT001
        began = self.inside.pop(which % len(self.inside))
        before, ejections = self.breaker.state(self.now), self.breaker.ejections
        self.breaker.record_outcome(self.now, ok=ok, began=began if is_told else None)
        after = self.breaker.state(self.now)
        if ok is not False:
            assert self.breaker.ejections == ejections
            assert after is before or (ok and after is BreakerState.CLOSED)
        elif before is BreakerState.OPEN:
            assert after is BreakerState.OPEN
        if before is BreakerState.CLOSED:
            assert after is not BreakerState.HALF_OPEN

    @invariant()
    def waits_are_bounded(self) -> None:
        assert (
            0
            <= self.breaker.seconds_until_admission(self.now)
            <= max(MAX_EJECTION_S, PROBE_TIMEOUT_S)
        )
        assert 0 <= self.breaker.ejections <= MAX_EJECTION_S / BASE_EJECTION_S
        if self.breaker.state(self.now) is BreakerState.CLOSED:
            assert self.breaker.seconds_until_admission(self.now) == 0

    @invariant()
    def it_always_comes_back(self) -> None:
        later = self.now + self.breaker.seconds_until_admission(self.now)
        assert self.breaker.seconds_until_admission(later + 0.001) == 0


TestBreaking = Breaking.TestCase
TestBreaking.settings = examples(50, stateful_step_count=40, deadline=None)


class Probing(RuleBasedStateMachine):
    """Many calls on one route whose clock goes forward; each says when it began."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = CircuitBreaker()
        self.now = NOW
        self.inside: list[tuple[float, BreakerState]] = []

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 31.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(times=st.integers(1, 8))
    def call(self, times: int) -> None:
        for _ in range(times):
            state = self.breaker.state(self.now)
            if self.breaker.admits(self.now):
                self.inside.append((self.now, state))

    @precondition(lambda self: self.inside)
    @rule(times=st.integers(1, 8), first=st.booleans(), ok=OKS)
    def end(self, times: int, first: bool, ok: bool | None) -> None:  # noqa: FBT001
        for _ in range(min(times, len(self.inside))):
            began, _ = self.inside.pop(0 if first else -1)
            self.breaker.record_outcome(self.now, ok=ok, began=began)

    @invariant()
    def one_probe_is_under_way_at_a_time(self) -> None:
        if self.breaker.state(self.now) is not BreakerState.HALF_OPEN:
            return
        since = self.now - PROBE_TIMEOUT_S
        opened = self.breaker._changed
        probes = [
            began
            for began, state in self.inside
            if state is BreakerState.HALF_OPEN and began > max(since, opened)
        ]
        assert len(probes) <= 1
        assert not probes or self.breaker.seconds_until_admission(self.now) > 0


TestProbing = Probing.TestCase
TestProbing.settings = examples(50, stateful_step_count=40, deadline=None)
