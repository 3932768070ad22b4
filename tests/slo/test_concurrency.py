"""The limit on calls at once, against a simulated route."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slo.concurrency import (
    IDLE_RESET_S,
    INITIAL_LIMIT,
    MAX_SLOWNESS,
    MIN_AVERAGED_CALLS,
    MIN_LIMIT,
    MIN_SLOWNESS,
    ConcurrencyLimit,
    TtftModel,
)
from tests.examples import examples
from tests.fakes.simulated_route import (
    ENDLESS,
    FIXED,
    PER_THOUSAND,
    SimulatedRoute,
    alone,
    mixed_size,
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("places", [8, 20, 50, 150])
def test_at_twice_what_a_route_can_do_the_limit_settles_near_its_places(places: int, seed: int):
    best = places / alone(1000)
    route = SimulatedRoute(ConcurrencyLimit(), 2 * best, lambda _: places, seed=seed)

    route.run(160)

    assert places <= route.median_limit(110, 160) <= 2.2 * places
    assert route.throughput(110, 160) >= 0.9 * best
    assert route.p95(110, 160) <= 3.5


def test_long_answers_keep_their_places_and_the_limit_still_settles():
    places, answer = 20, 5.0
    best = places / (alone(1000) + answer)
    route = SimulatedRoute(ConcurrencyLimit(), 2 * best, lambda _: places, answer=answer)

    route.run(3000)

    assert places <= route.median_limit(1500, 3000) <= 1.3 * places
    assert route.throughput(1500, 3000) >= 0.88 * best
    assert route.p95(1500, 3000) <= 6


@pytest.mark.parametrize("noise", [0.1, 0.5, 1.0])
def test_prompts_of_mixed_length_are_not_read_as_congestion(noise: float):
    route = SimulatedRoute(ConcurrencyLimit(), 40, lambda _: ENDLESS, mixed_size, noise=noise)

    route.run(300)

    assert route.refused < 0.001 * len(route.done)
    assert min(route.limits) >= INITIAL_LIMIT - 10


def test_limit_grows_where_more_is_asked_for_and_nothing_waits():
    route = SimulatedRoute(ConcurrencyLimit(), 200, lambda _: ENDLESS, mixed_size)
    route.run(150)
    assert min(route.limits[60:]) > 200
    assert route.throughput(60, 150) > 195


def test_mixed_prompts_at_a_full_route_are_told_from_its_queue():
    places, best = 20, 20 / alone(16_000)
    route = SimulatedRoute(ConcurrencyLimit(), 2 * best, lambda _: places, mixed_size)

    route.run(500)

    assert places <= route.median_limit(200, 500) <= 2 * places
    assert route.throughput(200, 500) >= 0.9 * best
    assert route.p95(200, 500) <= 4


def test_a_route_that_becomes_slower_is_not_starved_and_recovers():
    best = 20 / alone(1000)
    route = SimulatedRoute(
        ConcurrencyLimit(), 2 * best, lambda _: 20, slow=lambda now: 4 if 100 < now < 200 else 1
    )

    route.run(300)

    assert route.throughput(150, 200) >= 0.85 * best / 4
    assert route.throughput(220, 300) >= 0.9 * best
    assert 20 <= route.median_limit(220, 300) <= 44
    assert max(route.limits[200:]) <= 44


def test_a_route_that_loses_places_is_sent_fewer_calls_and_more_when_they_are_back():
    top = 20 / alone(1000)
    route = SimulatedRoute(ConcurrencyLimit(), 1.5 * top, lambda now: 5 if 100 < now < 200 else 20)

    route.run(300)

    assert route.median_limit(150, 200) <= 20
    assert route.throughput(150, 200) >= 0.9 * top / 4
    assert route.throughput(240, 300) >= 0.9 * top
    assert route.p95(240, 300) <= 3.5


def test_a_route_that_turns_calls_away_is_sent_few_more_than_it_takes():
    best = 50 / alone(1000)
    route = SimulatedRoute(ConcurrencyLimit(), 2 * best, lambda _: 50, line=1)

    route.run(200)

    assert route.throughput(50, 200) >= 0.9 * best
    assert route.failed <= 0.1 * len(route.done)


def test_a_look_at_a_route_that_fails_changes_nothing_that_is_known():
    limit = learned_limit()
    fit = limit.fit.fixed, limit.fit.per_thousand

    fail_calls(limit, 5000)

    assert (limit.fit.fixed, limit.fit.per_thousand) == fit


def test_a_route_with_room_is_not_throttled_for_being_slow():
    route = SimulatedRoute(
        ConcurrencyLimit(), 20, lambda _: ENDLESS, slow=lambda now: 4 if now > 50 else 1
    )

    route.run(200)

    assert route.refused == 0
    assert set(route.limits) == {INITIAL_LIMIT}


def learned_limit() -> ConcurrencyLimit:
    """A limit that has seen 40 calls which did not wait."""
    limit = ConcurrencyLimit()
    for number in range(40):
        limit.try_acquire(0.0)
        limit.release(1.0, 1000, ok=True, now=float(number))
    return limit


def fill(limit: ConcurrencyLimit, now: float = 0.0) -> None:
    while limit.try_acquire(now):
        pass


def fail_calls(limit: ConcurrencyLimit, calls: int, *, full: bool = True) -> None:
    for _ in range(calls):
        if full:
            fill(limit)
        else:
            limit.try_acquire(0.0)
        limit.release(None, 0, ok=False, now=0.0)


def test_failures_shrink_the_limit_to_the_least_also_where_the_clock_stands_still():
    limit = ConcurrencyLimit()

    fail_calls(limit, 5000)

    assert limit.limit <= MIN_LIMIT
    assert limit.in_flight <= MIN_LIMIT


def test_failures_shrink_it_where_there_is_room_as_well():
    limit = ConcurrencyLimit()

    fail_calls(limit, MIN_AVERAGED_CALLS, full=False)

    assert limit.limit < INITIAL_LIMIT


def test_an_idle_route_gets_its_first_limit_back_and_keeps_a_higher_one():
    limit = ConcurrencyLimit()
    fail_calls(limit, 5000)
    while limit.in_flight:
        limit.release(None, 0, ok=True, now=1.0)

    assert limit.try_acquire(1.0 + IDLE_RESET_S)
    assert limit.limit <= MIN_LIMIT
    limit.release(None, 0, ok=True, now=1.0)
    assert limit.try_acquire(1.1 + IDLE_RESET_S)
    assert limit.limit == INITIAL_LIMIT


def test_after_an_outage_the_limit_is_soon_what_it_was():
    limit = learned_limit()
    fail_calls(limit, 5000)
    assert limit.limit <= MIN_LIMIT

    for number in range(20 * MIN_AVERAGED_CALLS):
        fill(limit)
        limit.release(1.0, 1000, ok=True, now=float(number))

    assert limit._limit >= INITIAL_LIMIT


def test_after_an_outage_a_limit_that_calls_wait_at_grows_no_faster_than_any():
    limit = learned_limit()
    fail_calls(limit, 5000)

    for number in range(10 * MIN_AVERAGED_CALLS):
        fill(limit)
        limit.release(0.02 * limit.in_flight + 1.0, 1000, ok=True, now=float(number))

    assert limit.limit < INITIAL_LIMIT


def test_an_idle_route_is_no_longer_looked_at():
    limit = ConcurrencyLimit(initial=40)
    number = 0
    while limit.limit == 40:
        fill(limit, float(number))
        limit.release(1.0, 1000, ok=True, now=float(number))
        number += 1
    assert limit.limit < 40
    while limit.in_flight:
        limit.release(None, 0, ok=True, now=float(number))

    assert limit.try_acquire(number + IDLE_RESET_S + 1)
    assert limit.limit >= 40


def test_calls_that_say_nothing_move_nothing():
    limit = ConcurrencyLimit()
    for _ in range(INITIAL_LIMIT * 10):
        limit.try_acquire(0.0)
        limit.release(None, 1000, ok=True, now=0.0)

    assert limit.limit == INITIAL_LIMIT
    assert limit.fit.seen == 0


def test_a_call_too_many_that_leaves_does_nothing():
    limit = ConcurrencyLimit()

    limit.release(1.0, 10, ok=True, now=0.0)

    assert limit.in_flight == 0
    assert limit.fit.seen == 0


def test_the_limits_are_the_owners():
    limit = ConcurrencyLimit(initial=3, least=1, maximum=5)

    fill(limit)
    assert limit.in_flight == limit.limit == 3
    for number in range(2000):
        fill(limit)
        limit.release(1.0, 1000, ok=True, now=float(number))
    assert limit.in_flight <= 5


def model_of(samples: list[tuple[float, int]]) -> TtftModel:
    fit = TtftModel()
    for ttft, tokens in samples:
        fit.learn(ttft, tokens)
    return fit


def test_the_fit_finds_the_seconds_of_a_call_and_of_its_tokens():
    random = Random(1)  # noqa: S311
    tokens = [mixed_size(random) for _ in range(1000)]
    fit = model_of([(alone(size) * random.lognormvariate(0, 0.3), size) for size in tokens])

    assert fit.fixed == pytest.approx(FIXED, rel=0.15)
    assert fit.per_thousand == pytest.approx(PER_THOUSAND, rel=0.15)
    assert fit.slowness(2 * alone(200), 200) == pytest.approx(2, rel=0.15)
    assert fit.slowness(2 * alone(90_000), 90_000) == pytest.approx(2, rel=0.15)


def test_the_fit_follows_a_route_that_becomes_slower():
    random = Random(1)  # noqa: S311
    tokens = [mixed_size(random) for _ in range(4000)]
    fit = model_of([(alone(size), size) for size in tokens[:2000]])
    for size in tokens[2000:]:
        fit.learn(3 * alone(size), size)

    assert fit.fixed == pytest.approx(3 * FIXED, rel=0.1)
    assert fit.per_thousand == pytest.approx(3 * PER_THOUSAND, rel=0.1)


def test_while_too_little_is_known_nothing_is_slow():
    fit = model_of([(1.0, 1000)] * 19)

    assert fit.is_unlearned
    assert fit.slowness(100.0, 1000) == 1.0
    fit.learn(1.0, 1000)
    assert not fit.is_unlearned
    assert fit.slowness(100.0, 1000) == MAX_SLOWNESS
    assert fit.slowness(1e-6, 1000) == MIN_SLOWNESS


def test_prompts_that_were_all_as_long_are_told_apart_from_none():
    fit = model_of([(1.0, 1000)] * 5000)

    assert fit.slowness(1.0, 1000) == pytest.approx(1.0)
    assert fit._aa + fit._bb < 300


def test_stragglers_hardly_change_what_is_known():
    fit = model_of([(1.0 if number % 50 else 1000.0, 1000) for number in range(1, 1000)])

    assert fit.slowness(1.0, 1000) == pytest.approx(1.0, abs=0.05)


def test_a_route_that_takes_no_time_at_all_is_never_slow():
    fit = model_of([(0.0, 0)] * 40)
    fit.scale(0.0)

    assert fit.slowness(1.0, 0) == 1.0


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.floats(0, 1e6) | st.sampled_from([0.0, 1e6]), st.integers(0, 10**7)),
        min_size=20,
        max_size=200,
    ),
    st.integers(0, 10**7),
)
def test_the_fit_stays_bounded_for_any_samples(samples, tokens):
    fit = model_of(samples * 3)

    assert 0 <= fit.fixed <= 3600
    assert 0 <= fit.per_thousand <= 3600
    assert MIN_SLOWNESS <= fit.slowness(1.0, tokens) <= MAX_SLOWNESS
    assert fit._aa >= 0
    assert fit._bb >= 0


class ConcurrencyMachine(RuleBasedStateMachine):
    """Calls that come, go and fail in any order, whose clock does what it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = ConcurrencyLimit(initial=20, least=4, maximum=50)
        self.in_flight = 0
        self.now = 1_000.0

    @rule(seconds=st.sampled_from([0.0, 0.1, 10.0, 1000.0, -5.0, -900.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(times=st.integers(1, 60))
    def take(self, times: int) -> None:
        for _ in range(times):
            is_in = self.limit.try_acquire(self.now)
            assert is_in == (self.in_flight < self.limit.limit)
            self.in_flight += is_in

    @rule(
        times=st.integers(1, 60),
        ttft=st.none() | st.floats(0, 1000),
        tokens=st.integers(0, 200_000),
        ok=st.booleans(),
    )
    def leave(self, times: int, ttft: float | None, tokens: int, ok: bool) -> None:  # noqa: FBT001
        for _ in range(times):
            self.limit.release(ttft, tokens, ok=ok, now=self.now)
            self.in_flight = max(self.in_flight - 1, 0)

    @invariant()
    def it_counts_who_is_in_flight(self) -> None:
        assert self.limit.in_flight == self.in_flight >= 0

    @invariant()
    def the_limit_is_bounded(self) -> None:
        assert 4 <= self.limit._limit <= 50
        assert 2 <= self.limit.limit <= 50


TestLimiting = ConcurrencyMachine.TestCase
TestLimiting.settings = examples(30, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(("failures", "is_smaller"), [(25, False), (26, True)])
def test_limit_shrinks_where_more_than_a_tenth_of_250_calls_fail(failures, is_smaller):
    limit = ConcurrencyLimit(initial=1000)
    fill(limit)
    for number in range(250):
        ttft, tokens = (None, 0) if number < failures else (1.0, 1000)
        limit.release(ttft, tokens, ok=number >= failures, now=float(number))
        limit.try_acquire(float(number))

    assert (limit.limit < 1000) is is_smaller
