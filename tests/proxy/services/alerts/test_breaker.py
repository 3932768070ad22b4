import pytest

from proxy.services.alerts.breaker import SinkBreaker, retry_delay
from tests.fakes.alerts import NOW


def test_a_sink_that_fails_is_left_alone_for_a_while_and_then_tried():
    breaker = SinkBreaker("a")
    until = breaker.record_failure(NOW)

    assert 1.5 <= until - NOW <= 2
    assert not breaker.admits(until - 0.01)
    assert breaker.admits(until)


def test_each_failure_waits_longer_and_a_success_forgets_them():
    breaker = SinkBreaker("a")
    waits = [breaker.record_failure(NOW) - NOW for _ in range(20)]

    assert waits[:8] == sorted(waits[:8])
    assert waits[-1] <= 300
    breaker.record_success()
    assert breaker.record_failure(NOW) - NOW == waits[0]


@pytest.mark.parametrize(("asked", "least", "most"), [(60.0, 60, 60), (1e9, 300, 300), (0.1, 1, 2)])
def test_what_a_sink_asks_for_is_waited_within_bounds(asked, least, most):
    assert least <= SinkBreaker("a").record_failure(NOW, asked) - NOW <= most


def test_two_who_wait_for_the_same_come_back_at_different_times_always_the_same():
    pauses = {retry_delay(5, f"process {n}") for n in range(50)}

    assert len(pauses) == 50
    assert all(24 <= each <= 32 for each in pauses)
    assert retry_delay(5, "a") == retry_delay(5, "a")
