import pytest

from proxy.records.compaction_result import NO_FOLD, Fold, as_it_came, noting, saved, unfolded
from slo.price import STANDARD, Period, Rates, Sheet, Tariff
from slo.usage import Usage
from tests.fakes.answers import ASKED
from tests.fakes.desk import TARIFF, call

NOW = 1_790_000_000.0
FOLDED = Fold(mode="facts", why="pays", is_folded=True, before=10_000, after=4_000)
RESET = Fold(mode="facts", why="pays", is_folded=True, before=10_000, after=4_000, reset=True)
COLD = Fold(
    mode="facts",
    why="cold",
    is_folded=True,
    before=10_000,
    after=4_000,
    reset=True,
    is_warm=False,
)


def test_the_call_is_sent_as_it_came_unless_another_stands_in_for_it():
    came, short = call(ASKED), call(ASKED + b" ")

    assert NO_FOLD.call(came) is came
    assert Fold(sent=short).call(came) is short


def test_what_a_header_says():
    assert NO_FOLD.told == ""
    assert unfolded("facts", "signed").told == "as it came; reason=signed"
    assert Fold(mode="facts", why="dry_run: pays", before=9, after=3, break_even=2.57).told == (
        "as it came; reason=dry_run: pays; tokens=9->3; break-even=2.6"
    )
    assert RESET.told == "folded; reason=pays; tokens=10000->4000; reset=yes"


def test_where_results_alone_were_said_shorter_a_header_does_not_say_folded():
    early = Fold(mode="facts", why="too_early", is_folded=True, messages=0, before=9, after=6)

    assert early.told == "trimmed; reason=too_early; tokens=9->6; reset=no"


def test_what_was_folded_earlier_says_why_it_was_and_why_no_more_is():
    held = Fold(
        mode="facts",
        why="nothing_to_fold",
        folded_why="forced",
        is_folded=True,
        messages=24,
        before=9,
        after=6,
    )

    assert held.told == "folded; reason=forced; no-more=nothing_to_fold; tokens=9->6; reset=no"


def test_trouble_is_noted_and_a_decision_is_not():
    assert unfolded("facts", "signed").notes == ()
    assert unfolded("facts", "failed").notes == (
        "compaction failed, so the conversation went as it came",
    )


def test_a_warm_prompt_would_have_been_read_whole():
    used = Usage(input=100, cache_read=3_900, output=7)

    assert as_it_came(FOLDED, used) == Usage(input=100, cache_read=9_900, output=7)


@pytest.mark.parametrize(
    ("used", "bucket"),
    [(Usage(input=8_000), "input"), (Usage(input=500, write_5m=7_500), "write_5m")],
)
def test_a_cold_one_would_have_been_paid_where_this_one_was(used, bucket):
    assert getattr(as_it_came(FOLDED, used), bucket) == getattr(used, bucket) + 12_000
    assert getattr(as_it_came(COLD, used), bucket) == getattr(used, bucket) + 12_000


def test_that_nothing_of_a_short_prompt_was_read_is_no_sign_of_a_cold_one():
    assert as_it_came(FOLDED, Usage(input=4_000)) == Usage(input=4_000, cache_read=6_000)
    assert as_it_came(COLD, Usage(input=4_000)) == Usage(input=10_000)


def test_a_reset_of_a_warm_prompt_is_charged_with_what_it_wrote():
    used = Usage(input=0, cache_read=400, write_5m=3_600, output=7)

    assert as_it_came(RESET, used) == Usage(cache_read=10_000, output=7)


def test_tokens_are_scaled_to_what_the_provider_counted():
    assert as_it_came(FOLDED, Usage(cache_read=8_000)).cache_read == 20_000
    assert as_it_came(Fold(before=5, after=0), Usage(input=3)) == Usage(input=3)


def test_what_was_saved_is_priced_as_the_route_is():
    read = Usage(input=100, cache_read=3_900)

    assert saved(FOLDED, read, TARIFF, NOW, STANDARD) == 6_000 * 100
    assert saved(RESET, Usage(input=4_000), TARIFF, NOW, STANDARD) == 10_000 * 100 - 4_000 * 1_000


@pytest.mark.parametrize("fold", [FOLDED, RESET, COLD])
def test_where_there_is_no_cache_every_token_not_sent_is_saved(fold):
    plain = Tariff(periods=(Period(sheets={"": Sheet(rates=Rates(input=1_000_000_000))}),))

    assert saved(fold, Usage(input=4_000), plain, NOW, STANDARD) == 6_000 * 1_000


def test_what_nobody_can_say_is_unknown():
    unpriced = Tariff(periods=(Period(sheets={"": Sheet(rates=Rates(output=1))}),))
    used = Usage(input=1, cache_read=1)

    assert saved(NO_FOLD, used, TARIFF, NOW, STANDARD) is None
    assert saved(FOLDED, None, TARIFF, NOW, STANDARD) is None
    assert saved(FOLDED, used, None, NOW, STANDARD) is None
    assert saved(FOLDED, used, unpriced, NOW, STANDARD) is None


def test_questions_for_notes_have_a_feature_of_their_own():
    assert noting("chat") == "chat/compaction"
    assert len(noting("x" * 128)) == 128
    assert noting("x" * 128).endswith("/compaction")
