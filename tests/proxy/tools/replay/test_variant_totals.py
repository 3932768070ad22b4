"""Figures of a variant."""

from proxy.prefix.explain.reasons import MissReason
from proxy.tools.replay.variant_totals import (
    MissedTokens,
    MissesByReason,
    VariantTotals,
    with_closed_share,
)
from slo.usage import Usage


def test_calls_add_up_to_a_row():
    sums = VariantTotals()
    sums.add(Usage(input=10, cache_read=60, write_5m=30, output=5), 1_000_000)
    sums.add(Usage(input=100, output=5), 2_000_000)

    row = sums.row("as sent")

    assert (row.input_tokens, row.cache_read_tokens, row.cache_write_tokens) == (200, 60, 30)
    assert (row.fresh_tokens, row.output_tokens) == (110, 10)
    assert row.hit_rate == 0.3
    assert row.cost_usd_per_1k == 1.5


def test_one_unknown_price_makes_the_cost_unknown():
    sums = VariantTotals()
    sums.add(Usage(input=10), None)
    sums.add(Usage(input=10), 5)
    sums.charge(5)

    assert sums.row("").cost_usd_per_1k is None


def test_no_calls_are_a_row_of_nothing():
    row = VariantTotals().row("")

    assert row.hit_rate == 0.0
    assert row.cost_usd_per_1k is None


def test_the_reasons_that_cost_most_come_first():
    sums = VariantTotals()
    for number, reason in enumerate(MissReason):
        sums.miss(MissedTokens(reason, number))
    sums.miss(MissedTokens(MissReason.BELOW_MINIMUM, 100))
    sums.miss(MissedTokens(MissReason.BELOW_MINIMUM, 50, "between two steps"))

    assert sums.row("").misses[:3] == (
        MissesByReason(MissReason.BELOW_MINIMUM, "", 101, 2),
        MissesByReason(MissReason.BELOW_MINIMUM, "between two steps", 50, 1),
        MissesByReason(MissReason.PROVIDER_SIDE, "", len(MissReason) - 1, 1),
    )
    assert len(sums.row("").misses) == 5


def test_tokens_written_later_were_fresh_before():
    sums = VariantTotals()
    sums.add(Usage(input=10), 10)
    sums.write(4)

    row = sums.row("")

    assert (row.cache_write_tokens, row.fresh_tokens) == (4, 6)


def test_a_row_says_how_far_it_got():
    def row(read: int):
        sums = VariantTotals()
        sums.add(Usage(input=100 - read, cache_read=read), 0)
        return sums.row("")

    assert [each.closed for each in with_closed_share([row(20), row(50), row(80)])] == [0, 0.5, 1]
    assert [each.closed for each in with_closed_share([row(20), row(20)])] == [None, None]


def test_a_row_of_other_prompts_got_nowhere_on_that_way():
    rows = []
    for name, read in (("as sent", 20), ("compacted", 10), ("ceiling", 80)):
        sums = VariantTotals()
        sums.add(Usage(input=100, cache_read=read), 0)
        rows.append(sums.row(name))

    assert [each.closed for each in with_closed_share(rows, {"compacted"})] == [0, None, 1]
