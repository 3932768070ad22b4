import pytest

from proxy.services.alerts.breaker import Breaker, pause
from tests.fakes.alerts import NOW


def test_a_sink_that_fails_is_left_alone_for_a_while_and_then_tried():
    breaker = Breaker("a")
    until = breaker.failed(NOW)

    assert 1.5 <= until - NOW <= 2
    assert not breaker.admits(until - 0.01)
    assert breaker.admits(until)


def test_each_failure_waits_longer_and_a_success_forgets_them():
    breaker = Breaker("a")
    waits = [breaker.failed(NOW) - NOW for _ in range(20)]

    assert waits[:8] == sorted(waits[:8])
    assert waits[-1] <= 300
    breaker.succeeded()
    assert breaker.failed(NOW) - NOW == waits[0]


@pytest.mark.parametrize(("asked", "least", "most"), [(60.0, 60, 60), (1e9, 300, 300), (0.1, 1, 2)])
def test_what_a_sink_asks_for_is_waited_within_bounds(asked, least, most):
    assert least <= Breaker("a").failed(NOW, asked) - NOW <= most


def test_two_who_wait_for_the_same_come_back_at_different_times_always_the_same():
    pauses = {pause(5, f"process {n}") for n in range(50)}

    assert len(pauses) == 50
    assert all(24 <= each <= 32 for each in pauses)
    assert pause(5, "a") == pause(5, "a")
