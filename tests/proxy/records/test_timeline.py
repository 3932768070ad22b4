import pytest

from proxy.records.timeline import Timeline
from tests.fakes.clock import ManualClock


def test_the_first_content_byte_is_marked_once():
    ticks = ManualClock(5.0)
    timeline = Timeline(ticks)
    assert timeline.ttft is None

    ticks.now = 7.0
    timeline.mark_first_content()
    ticks.now = 9.0
    timeline.mark_first_content()

    assert timeline.ttft == 2.0


def test_waits_add_up_and_the_time_between_them_does_not():
    ticks = ManualClock(5.0)
    timeline = Timeline(ticks)
    for _ in range(2):
        with timeline.waiting:
            ticks.now += 3.0
        ticks.now += 10.0

    assert timeline.waited_s == 6.0


def test_a_wait_that_fails_counts_as_waiting():
    ticks = ManualClock(5.0)
    timeline = Timeline(ticks)

    def fail() -> None:
        with timeline.waiting:
            ticks.now += 3.0
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert timeline.waited_s == 3.0
