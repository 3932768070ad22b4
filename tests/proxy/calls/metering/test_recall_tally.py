from proxy.calls.metering.recall_tally import RecallTally
from slo.usage import Usage


def test_the_total_is_the_usage_of_all_rounds():
    tally = RecallTally()
    tally.add_round(Usage(input=100, output=5), 40, is_estimated=False)
    tally.add_round(Usage(input=10, cache_read=100, output=6), 60, is_estimated=False)

    assert (tally.rounds, tally.tokens, tally.is_estimated) == (2, 100, False)
    assert tally.total(Usage(cache_read=200, output=7)) == Usage(
        input=110, cache_read=300, output=18
    )
    assert tally.total(None) == Usage(input=110, cache_read=100, output=11)


def test_a_call_without_recall_would_have_the_first_prompt_and_the_last_answer():
    tally = RecallTally()
    tally.add_round(Usage(input=100, output=5), 40, is_estimated=False)

    assert tally.single(Usage(input=150, output=70, reasoning=3)) == Usage(
        input=100, output=70, reasoning=3
    )
    assert tally.single(None) is None


def test_a_round_that_was_not_reported_makes_the_total_an_estimate():
    tally = RecallTally()
    tally.add_round(Usage(input=100), 40, is_estimated=True)

    assert tally.is_estimated
    assert tally.first is None
    assert tally.single(Usage(input=7)) == Usage(input=7)
