"""Tests of the phrases of English: wishes, and what only sounds like one."""

import pytest

from compaction.language.speech_acts import is_wish

REPORTS = [
    "The colour was wrong, I got rust instead of moss.",
    "I have never received it.",
    "It never arrived.",
    "The parcel doesn't open.",
    "I was told you must confirm.",
    "Did you always do that?",
]


@pytest.mark.parametrize(
    "sentence",
    [
        "Never call me.",
        "please use metric units",
        "From now on answer in French",
        "Don\u2019t touch the tests.",
        "You must ask first",
        "I prefer aisle seats",
        "Use tabs instead of spaces",
        "Make sure it compiles",
        "Could you please always answer in French?",
        "The colour was wrong, so never send rust again.",
        "I don't want to be transferred to another agent.",
        "Whenever you name a book, add its year.",
    ],
)
def test_a_standing_wish_is_a_rule(sentence):
    assert is_wish(sentence)


@pytest.mark.parametrize(
    "sentence", ["Hello!", "I don't have it here", "Two seats to Rome", "x only" * 400, *REPORTS]
)
def test_other_sentences_are_no_rules(sentence):
    assert not is_wish(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Could you please use Gift Card 6276644, and then apply Gift Card 7091239?",
        "Yes, please use the credit card ending in 9725 for the upgrade.",
        "I would prefer Tuesday and to arrive by 9:45.",
        "The restaurant should be in the centre and should serve European food.",
        "Keep both flights changed as requested.",
        "Make sure you get the reference number.",
        "I only need one ticket.",
        "Yes, but only if it arrives before the 28th.",
        "I don't want insurance.",
        "No, that should be all, thanks.",
        "Do not forget to invite Mark.",
    ],
)
def test_a_wish_of_one_task_is_no_rule(sentence):
    assert not is_wish(sentence)
