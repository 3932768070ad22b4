"""Series for the labels with most calls, and one for all others."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from proxy.services.telemetry.top_series import TopSeries


def series_of(*labels: str, max_series: int = 2) -> TopSeries[Counter[str]]:
    top: TopSeries[Counter[str]] = TopSeries(Counter, max_series)
    for label in labels:
        top.series_of((label,))[label] += 1
    return top


def totals(top: TopSeries[Counter[str]]) -> dict[str, int]:
    return {labels[0]: series.total() for labels, series in top.items()}


def test_the_first_labels_have_a_series_each_and_later_ones_share_one():
    top = series_of("a", "a", "b", "c", "d", "a")

    assert totals(top) == {"a": 3, "b": 1}
    assert top.other == {"c": 1, "d": 1}
    assert top.has_other


def test_labels_with_twice_the_calls_of_the_least_used_take_its_place_and_begin_at_zero():
    top = series_of("a", "a", "a", "b", "c", "c", "c", "c")

    assert totals(top) == {"a": 3, "c": 2}
    assert top.other == {"c": 2}


def test_a_replaced_series_comes_back_where_it_is_used_most():
    top = series_of(*"ab", *"ccc", *"b" * 20, *"aaa", max_series=2)

    assert set(totals(top)) == {"b", "c"} or set(totals(top)) == {"a", "b"}
    assert totals(top)["b"] > 10


def test_few_labels_need_no_series_of_others():
    assert not series_of("a", "b", "a").has_other


@given(st.lists(st.sampled_from("abcdefgh"), max_size=300), st.integers(1, 4))
def test_series_are_bounded_never_fall_and_lose_no_call(labels, max_series):
    top: TopSeries[Counter[str]] = TopSeries(Counter, max_series)
    ended, before = 0, dict[tuple[str, ...], Counter[str]]()
    for label in labels:
        top.series_of((label,))[label] += 1
        now = dict(top.items())
        gone = [series for name, series in before.items() if now.get(name) is not series]
        ended += sum(series.total() for series in gone)
        before = now
        assert len(now) <= max_series
    assert ended + sum(counter.total() for counter in before.values()) + top.other.total() == len(
        labels
    )


def test_series_waiting_for_a_place_are_bounded():
    top = series_of(*(str(number) for number in range(1000)))

    assert len(top._waiting) <= 16
