import pytest

from proxy.records.compaction_result import (
    NO_COMPACTION,
    CompactionResult,
    compaction_savings,
    passthrough_result,
    usage_without_compaction,
)
from slo.price import STANDARD_TERMS, PricePeriod, PriceSheet, Tariff, TokenRates
from slo.usage import Usage
from tests.fakes.answers import ASKED
from tests.fakes.call_dependencies import TARIFF, call

NOW = 1_790_000_000.0
COMPACTED = CompactionResult(
    mode="facts", why="pays", is_compacted=True, before=10_000, after=4_000
)
RESET = CompactionResult(
    mode="facts", why="pays", is_compacted=True, before=10_000, after=4_000, reset=True
)
COLD = CompactionResult(
    mode="facts",
    why="cold",
    is_compacted=True,
    before=10_000,
    after=4_000,
    reset=True,
    is_warm=False,
)


def test_the_callers_own_call_is_sent_unless_compaction_replaced_it():
    came, short = call(ASKED), call(ASKED + b" ")

    assert NO_COMPACTION.call(came) is came
    assert CompactionResult(sent=short).call(came) is short


def test_the_compaction_header_sums_up_the_result():
    assert NO_COMPACTION.header == ""
    assert passthrough_result("facts", "signed").header == "unmodified; reason=signed"
    assert CompactionResult(
        mode="facts", why="dry_run: pays", before=9, after=3, break_even=2.57
    ).header == ("unmodified; reason=dry_run: pays; tokens=9->3; break-even=2.6")
    assert RESET.header == "compacted; reason=pays; tokens=10000->4000; reset=yes"


def test_where_results_alone_were_said_shorter_a_header_does_not_say_compacted():
    early = CompactionResult(
        mode="facts", why="too_early", is_compacted=True, messages=0, before=9, after=6
    )

    assert early.header == "trimmed; reason=too_early; tokens=9->6; reset=no"


def test_an_earlier_compaction_says_why_it_was_made_and_why_no_more_is():
    held = CompactionResult(
        mode="facts",
        why="nothing_to_compact",
        last_compacted_why="forced",
        is_compacted=True,
        messages=24,
        before=9,
        after=6,
    )

    assert (
        held.header == "compacted; reason=forced; no-more=nothing_to_compact; tokens=9->6; reset=no"
    )


def test_trouble_is_noted_and_a_decision_is_not():
    assert passthrough_result("facts", "signed").notes == ()
    assert passthrough_result("facts", "failed").notes == (
        "compaction failed, so the conversation was sent unmodified",
    )


def test_a_warm_prompt_would_have_been_read_whole():
    used = Usage(input=100, cache_read=3_900, output=7)

    assert usage_without_compaction(COMPACTED, used) == Usage(input=100, cache_read=9_900, output=7)


@pytest.mark.parametrize(
    ("used", "bucket"),
    [(Usage(input=8_000), "input"), (Usage(input=500, write_5m=7_500), "write_5m")],
)
def test_a_cold_one_would_have_been_paid_where_this_one_was(used, bucket):
    assert (
        getattr(usage_without_compaction(COMPACTED, used), bucket) == getattr(used, bucket) + 12_000
    )
    assert getattr(usage_without_compaction(COLD, used), bucket) == getattr(used, bucket) + 12_000


def test_short_prompt_without_reads_is_not_taken_for_a_cold_cache():
    assert usage_without_compaction(COMPACTED, Usage(input=4_000)) == Usage(
        input=4_000, cache_read=6_000
    )
    assert usage_without_compaction(COLD, Usage(input=4_000)) == Usage(input=10_000)


def test_a_reset_of_a_warm_prompt_is_charged_with_what_it_wrote():
    used = Usage(input=0, cache_read=400, write_5m=3_600, output=7)

    assert usage_without_compaction(RESET, used) == Usage(cache_read=10_000, output=7)


def test_tokens_are_scaled_to_what_the_provider_counted():
    assert usage_without_compaction(COMPACTED, Usage(cache_read=8_000)).cache_read == 20_000
    assert usage_without_compaction(CompactionResult(before=5, after=0), Usage(input=3)) == Usage(
        input=3
    )


def test_saved_tokens_are_priced_at_the_routes_rates():
    read = Usage(input=100, cache_read=3_900)

    assert compaction_savings(COMPACTED, read, TARIFF, NOW, STANDARD_TERMS) == 6_000 * 100
    assert (
        compaction_savings(RESET, Usage(input=4_000), TARIFF, NOW, STANDARD_TERMS)
        == 10_000 * 100 - 4_000 * 1_000
    )


@pytest.mark.parametrize("compaction", [COMPACTED, RESET, COLD])
def test_where_there_is_no_cache_every_token_not_sent_is_saved(compaction):
    plain = Tariff(
        periods=(PricePeriod(sheets={"": PriceSheet(rates=TokenRates(input=1_000_000_000))}),)
    )

    assert (
        compaction_savings(compaction, Usage(input=4_000), plain, NOW, STANDARD_TERMS)
        == 6_000 * 1_000
    )


def test_savings_without_usage_or_price_are_unknown():
    unpriced = Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=TokenRates(output=1))}),))
    used = Usage(input=1, cache_read=1)

    assert compaction_savings(NO_COMPACTION, used, TARIFF, NOW, STANDARD_TERMS) is None
    assert compaction_savings(COMPACTED, None, TARIFF, NOW, STANDARD_TERMS) is None
    assert compaction_savings(COMPACTED, used, None, NOW, STANDARD_TERMS) is None
    assert compaction_savings(COMPACTED, used, unpriced, NOW, STANDARD_TERMS) is None
