"""The clock that budgets choose their windows by, while wall clocks leap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo import window
from slo.budgets.counter import CounterClaim, CounterLevel
from slo.budgets.reservations import ReservationGranted, Reservations
from slo.steady_clock import BELIEVED_AFTER_S, SLEW, TOLERANCE_S, SteadyClock
from slo.window import Window

START = 1_790_000_000.0  # 2026-09-21T14:13:20Z
DAY = 86_400.0


class Clocks:
    """Two clocks that are moved by hand, and the steady one over them."""

    def __init__(self) -> None:
        self.wall = START
        self.ticks = 50.0
        self.steady = SteadyClock(lambda: self.wall, lambda: self.ticks)

    def go(self, seconds: float) -> float:
        self.wall += seconds
        self.ticks += seconds
        return self.steady()


steps = st.lists(
    st.tuples(
        st.one_of(st.floats(0.0, 3000.0), st.floats(0.0, 0.02)),
        st.one_of(st.just(0.0), st.floats(-1.0, 1.0), st.floats(-3 * DAY, 3 * DAY)),
        st.one_of(st.none(), st.floats(-2 * DAY, 2 * DAY)),
    ),
    max_size=40,
)


@given(steps, st.booleans())
def test_time_and_windows_never_go_back_whatever_clocks_do(leaps, is_shared):
    """Each step: seconds that pass, a leap of the wall clock, how far the shared clock is off."""
    clocks = Clocks()
    if is_shared:
        clocks.steady.compare(START)
    last, names = START, {kind: window.window_name(kind, START) for kind in Window}
    for passes, leap, off in leaps:
        clocks.wall += leap
        if off is not None and is_shared:
            clocks.steady.compare(START + off)
        now = clocks.go(passes)
        assert now >= last + (1 - SLEW) * passes - 1e-6
        for kind in Window:
            assert window.window_name(kind, now) >= names[kind]
            names[kind] = window.window_name(kind, now)
        last = now


@given(steps)
def test_without_a_believed_leap_time_passes_as_ticks_do(leaps):
    clocks = Clocks()
    before = START
    for passes, leap, _ in leaps:
        clocks.wall += min(leap, 0.0)  # back alone: nothing to be believed
        now = clocks.go(passes)
        assert (1 - SLEW) * passes - 1e-6 <= now - before <= (1 + SLEW) * passes + 1e-6
        before = now


@given(st.lists(st.tuples(st.floats(0.0, 600.0), st.floats(-3 * DAY, 3 * DAY)), max_size=40))
def test_clock_leaps_neither_lose_nor_repeat_spending(leaps):
    """Of a day's budget a window is emptied only where its day has gone by on the steady clock."""
    clocks, counters = Clocks(), Reservations()
    spent: dict[str, int] = {}
    for number, (passes, leap) in enumerate(leaps):
        clocks.wall += leap
        now = clocks.go(passes)
        name, ends = window.window_name(Window.DAY, now), window.window_end(Window.DAY, now)
        claim = CounterClaim(name, 10, 100, hard=True, ends=ends)
        answer = counters.reserve(str(number), [claim], now, now + 60)
        assert isinstance(answer, ReservationGranted) is (spent.get(name, 0) + 10 <= 100)
        if isinstance(answer, ReservationGranted):
            counters.settle(str(number), {name: 10}, now)
            spent[name] = spent.get(name, 0) + 10
        assert counters.levels([name], now) == [CounterLevel(spent[name], 0)]
        assert sum(spent.values()) <= 100 * len(spent)


@pytest.mark.parametrize("leap", [-180.0, -DAY, -5 * DAY])
def test_a_leap_back_is_caught_up_by_a_slower_clock(leap):
    clocks = Clocks()
    clocks.wall += leap

    assert clocks.go(100.0) == pytest.approx(START + 90.0)
    while clocks.wall < clocks.steady() - TOLERANCE_S:
        clocks.go(1000.0)
    assert clocks.go(1000.0) == pytest.approx(clocks.wall, abs=TOLERANCE_S)


@pytest.mark.parametrize("leap", [180.0, DAY, 5 * DAY])
def test_a_leap_forward_is_believed_once_it_has_lasted(leap):
    clocks = Clocks()
    clocks.wall += leap

    assert clocks.go(1.0) == pytest.approx(START + 1)
    assert clocks.go(BELIEVED_AFTER_S - 1) == pytest.approx(START + BELIEVED_AFTER_S)
    assert clocks.go(2.0) == clocks.wall


def test_a_leap_that_is_taken_back_is_never_seen():
    clocks = Clocks()
    for _ in range(10):
        clocks.wall += DAY
        clocks.go(BELIEVED_AFTER_S / 2)
        clocks.wall -= DAY
        clocks.go(1.0)

    assert clocks.steady() == pytest.approx(START + 310.0, abs=1.0)


def test_the_first_word_of_the_shared_clock_is_believed():
    for off in (-DAY, -60.0, 60.0, DAY):
        clocks = Clocks()
        clocks.steady.compare(START + off)
        assert clocks.go(10.0) == pytest.approx(START + off + 10.0)


@pytest.mark.parametrize("leap", [-DAY, 180.0, DAY])
def test_a_leap_that_the_shared_clock_does_not_confirm_is_ignored(leap):
    clocks = Clocks()
    clocks.steady.compare(START)
    clocks.wall += leap

    assert clocks.go(10 * BELIEVED_AFTER_S) == pytest.approx(START + 10 * BELIEVED_AFTER_S)


@pytest.mark.parametrize("leap", [-DAY, 180.0, DAY])
def test_a_leap_of_the_shared_clock_alone_is_ignored(leap):
    clocks = Clocks()
    clocks.steady.compare(START)
    clocks.go(10.0)
    clocks.steady.compare(clocks.wall + leap)

    assert clocks.go(600.0) == pytest.approx(START + 610.0)


def test_a_leap_forward_that_the_shared_clock_confirms_is_believed_at_once():
    clocks = Clocks()
    clocks.steady.compare(START)
    clocks.wall += DAY  # as after a night in which the machine slept
    clocks.steady.compare(clocks.wall)

    assert clocks.go(1.0) == pytest.approx(START + DAY + 1.0)


def test_small_differences_are_made_up_for_slowly():
    clocks = Clocks()
    clocks.wall += 1.5

    assert clocks.go(10.0) == pytest.approx(START + 11.0)
    assert clocks.go(10.0) == pytest.approx(clocks.wall)
