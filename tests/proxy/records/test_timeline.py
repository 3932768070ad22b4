import pytest

from proxy.records.timeline import Timeline


class Ticks:
    def __init__(self) -> None:
        self.at = 5.0

    def __call__(self) -> float:
        return self.at


def test_the_first_content_byte_is_marked_once():
    ticks = Ticks()
    timeline = Timeline(ticks)
    assert timeline.ttft is None

    ticks.at = 7.0
    timeline.mark_first_content()
    ticks.at = 9.0
    timeline.mark_first_content()

    assert timeline.ttft == 2.0


def test_waits_add_up_and_the_time_between_them_does_not():
    ticks = Ticks()
    timeline = Timeline(ticks)
    for _ in range(2):
        with timeline.waiting:
            ticks.at += 3.0
        ticks.at += 10.0

    assert timeline.waited_s == 6.0


def test_a_wait_that_fails_was_a_wait_too():
    ticks = Ticks()
    timeline = Timeline(ticks)

    def fail() -> None:
        with timeline.waiting:
            ticks.at += 3.0
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert timeline.waited_s == 3.0
