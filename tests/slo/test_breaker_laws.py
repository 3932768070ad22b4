"""Laws of circuit breakers under any sequence of calls, failures and clocks."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from slo.breaker import (
    BASE_EJECTION_S,
    MAX_EJECTION_S,
    PROBE_TIMEOUT_S,
    BreakerState,
    CircuitBreaker,
)
from slo.breaker import order_routes as order_of
from tests.examples import examples
from tests.slo.breaker_steps import NOW, open_breaker

OKS = st.sampled_from([True, False, None])


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), min_size=1, max_size=8))
def test_never_all_routes_are_closed_off_and_no_probe_is_used_up_by_asking(routes):
    breakers = [
        open_breaker(NOW + offset) if is_open else CircuitBreaker() for offset, is_open in routes
    ]
    numbered = list(enumerate(breakers))

    tried = order_of(numbered, NOW + 100)

    assert tried
    assert tried == order_of(numbered, NOW + 100)
    admitting = [number for number, breaker in numbered if breaker.admits(NOW + 100)]
    assert tried == admitting or (not admitting and len(tried) == 1)


class BreakerMachine(RuleBasedStateMachine):
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


TestBreaking = BreakerMachine.TestCase
TestBreaking.settings = examples(50, stateful_step_count=40, deadline=None)


class ProbeMachine(RuleBasedStateMachine):
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
        opened = self.breaker._changed_at
        probes = [
            began
            for began, state in self.inside
            if state is BreakerState.HALF_OPEN and began > max(since, opened)
        ]
        assert len(probes) <= 1
        assert not probes or self.breaker.seconds_until_admission(self.now) > 0


TestProbing = ProbeMachine.TestCase
TestProbing.settings = examples(50, stateful_step_count=40, deadline=None)
