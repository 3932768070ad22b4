from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.window import Window, window_end, window_name, window_start

TIMES = st.floats(min_value=0, max_value=4e9)
WINDOWS = st.sampled_from(Window)


def seconds(*moment: int) -> float:
    return datetime(*moment, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("window", "opening", "closing", "called"),
    [
        (Window.MINUTE, (2026, 11, 22, 13, 5), (2026, 11, 22, 13, 6), "2026-11-22T13:05"),
        (Window.HOUR, (2026, 11, 22, 13), (2026, 11, 22, 14), "2026-11-22T13"),
        (Window.DAY, (2026, 11, 22), (2026, 11, 23), "2026-11-22"),
        (Window.MONTH, (2026, 11, 1), (2026, 12, 1), "2026-11"),
    ],
)
def test_a_window_opens_closes_and_is_named_by_the_calendar_of_utc(
    window: Window, opening: tuple[int, ...], closing: tuple[int, ...], called: str
) -> None:
    time = seconds(2026, 11, 22, 13, 5, 59) + 0.5
    assert window_start(window, time) == seconds(*opening)
    assert window_end(window, time) == seconds(*closing)
    assert window_name(window, time) == called


def test_months_are_as_long_as_they_are_and_december_leads_to_january() -> None:
    leap_day = seconds(2028, 2, 29, 12)
    assert window_end(Window.MONTH, leap_day) - window_start(Window.MONTH, leap_day) == 29 * 86_400
    assert window_end(Window.MONTH, seconds(2026, 12, 31, 23)) == seconds(2027, 1, 1)


@given(WINDOWS, TIMES)
def test_windows_meet_without_a_gap_and_each_has_one_name(window: Window, time: float) -> None:
    opening, closing = window_start(window, time), window_end(window, time)
    assert opening <= time < closing
    assert window_start(window, opening) == opening
    assert window_start(window, closing) == closing
    assert window_name(window, opening) == window_name(window, time) != window_name(window, closing)


@given(WINDOWS, TIMES, TIMES)
def test_names_sort_as_the_times_they_name(window: Window, one: float, other: float) -> None:
    earlier, later = sorted((one, other))
    assert window_name(window, earlier) <= window_name(window, later)


@pytest.mark.parametrize("window", Window)
def test_the_last_instant_of_a_window_is_not_rounded_into_the_next(window: Window) -> None:
    midnight = seconds(2026, 12, 1)
    last = midnight - 2.5e-7
    assert last < midnight
    assert window_end(window, last) == midnight
    assert window_name(window, last) < window_name(window, midnight)
