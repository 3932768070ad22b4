from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from proxy.store.sql.rollups.day_split import DayStrip, split_days, whole_weeks

DAY = 86_400
QUARTER = 900


def bucket_of(edges, moment: int) -> int:
    inside = [n for n, (start, end) in enumerate(pairwise(edges)) if start <= moment < end]
    return inside[0] if inside else -1


@given(st.lists(st.integers(0, 12 * 96), min_size=2, max_size=20, unique=True).map(sorted))
def test_days_and_strips_put_each_quarter_into_its_bucket_once(quarters: list[int]) -> None:
    edges = [quarter * QUARTER for quarter in quarters]
    split = split_days(edges)
    counted_in, sums = dict(split.days), {}
    for strip in split.strips:
        assert strip.counted_in == counted_in[strip.day] != strip.bucket
        for moment in range(strip.first, strip.last, QUARTER):
            assert moment not in sums
            sums[moment] = strip.bucket

    for moment in range(0, 13 * DAY, QUARTER):
        day = counted_in.get(moment // DAY, -1)
        assert sums.get(moment, day) == bucket_of(edges, moment)


def test_midnights_of_utc_need_no_quarters() -> None:
    split = split_days([3 * DAY, 4 * DAY, 6 * DAY])

    assert split.days == ((3, 0), (4, 1), (5, 1))
    assert split.strips == ()


def test_a_day_is_counted_where_most_of_it_lies() -> None:
    berlin = [DAY - 3_600, 2 * DAY - 3_600]
    split = split_days(berlin)

    assert split.days == ((0, -1), (1, 0))
    assert split.strips == (
        DayStrip(0, DAY - 3_600, DAY, bucket=0, counted_in=-1),
        DayStrip(1, 2 * DAY - 3_600, 2 * DAY, bucket=-1, counted_in=0),
    )


def test_a_strip_of_whole_hours_says_which() -> None:
    strip = DayStrip(1, DAY + 2 * 3_600, DAY + 5 * 3_600, bucket=0, counted_in=1)

    assert strip.has_whole_hours
    assert strip.hours == (2, 5)
    assert not DayStrip(1, DAY + QUARTER, DAY + 3_600, bucket=0, counted_in=1).has_whole_hours


def test_only_a_week_that_is_all_of_one_bucket_is_read_whole() -> None:
    monday = 4  # the epoch was a Thursday
    week = [(monday + day, 0) for day in range(7)]
    mixed = [(monday + 7 + day, int(day == 6)) for day in range(7)]

    weeks, days = whole_weeks([*week, *mixed])

    assert [bucket for _, bucket in weeks] == [0]
    assert sorted(days) == sorted(mixed)
