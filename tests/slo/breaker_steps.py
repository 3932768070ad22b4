"""Steps that open a circuit breaker."""

from slo.breaker import (
    CONSECUTIVE_FAILURES,
    BreakerState,
    CircuitBreaker,
)

NOW = 1_000.0


def fail(breaker: CircuitBreaker, now: float, times: int = CONSECUTIVE_FAILURES) -> None:
    for _ in range(times):
        assert breaker.admits(now)
        breaker.record_outcome(now, ok=False, began=now)


def open_breaker(now: float = NOW) -> CircuitBreaker:
    breaker = CircuitBreaker()
    fail(breaker, now)
    assert breaker.state(now) is BreakerState.OPEN
    return breaker
