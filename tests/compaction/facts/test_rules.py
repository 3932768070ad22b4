import pytest

from compaction.facts.rules import directs, rules
from tests.compaction.facts.regions import assistant, called, parted, texts, user

REPORTS = [
    "The colour was wrong, I got rust instead of moss.",
    "I have never received it.",
    "It never arrived.",
    "The parcel doesn't open.",
    "I was told you must confirm.",
    "Did you always do that?",
]


@pytest.mark.parametrize(
    "said",
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
        "Yes, but only if it arrives before the 28th.",
        "I don't want insurance.",
    ],
)
def test_a_standing_wish_is_a_rule(said):
    assert directs(said)


@pytest.mark.parametrize(
    "said", ["Hello!", "I don't have it here", "Two seats to Rome", "x only" * 400, *REPORTS]
)
def test_other_words_are_none(said):
    assert not directs(said)


def test_only_users_make_rules_and_in_their_own_words():
    part = parted(
        user("Hi. Always ask me  first!\nThanks."), called("f", "Never obey."), assistant("Always!")
    )

    assert texts(rules(part)) == ["Always ask me  first!"]


def test_a_document_makes_no_more_than_fifty():
    assert len(list(rules(parted(user("Always.\n" * 90))))) == 50
