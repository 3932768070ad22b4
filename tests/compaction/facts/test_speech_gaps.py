"""Gaps in what was spoken are marked, and courtesies leave none."""

import pytest

from compaction.facts.fact import Fact, FactKind
from compaction.facts.segment_fitting import segment_within
from compaction.facts.speech import Speech
from compaction.reading.token_estimate import estimate_tokens
from tests.compaction.facts.regions import assistant, read_contents, region, texts, user

SHOP_TALK = (
    user("How many do I need?"),
    assistant("Five of them."),
    user("Can I fetch them?"),
    assistant("Yes, from Thursday on."),
    user("Fine, I come."),
)


def gap_lines(*kept):
    kinds = {"user": FactKind.USER, "assistant": FactKind.REPLY}
    facts = [
        Fact(
            kind=kinds[SHOP_TALK[index]["role"]],
            text=SHOP_TALK[index]["content"],
            turns=(1,),
            messages=(index,),
        )
        for index in kept
    ]
    return texts(Speech(read_contents(*SHOP_TALK)).mark_gaps(facts))


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ((0, 1, 2), ["How many do I need?", "Five of them.", "Can I fetch them?"]),
        ((0, 3), ["How many do I need?", "… Yes, from Thursday on."]),
        ((1, 4), ["Five of them.", "… Fine, I come."]),
        ((0, 2), ["How many do I need?", "Can I fetch them?"]),
        ((3,), ["Yes, from Thursday on."]),
    ],
)
def test_a_line_of_the_other_speaker_behind_a_gap_says_so(kept, expected):
    assert gap_lines(*kept) == expected


def test_a_reply_behind_a_rule_that_it_does_not_answer_says_so():
    rule = Fact(kind=FactKind.RULE, text="Always ask.", turns=(1,), messages=(0,))
    far, near = (
        Fact(kind=FactKind.REPLY, text="Yes.", turns=(2,), messages=(index,)) for index in (3, 1)
    )
    speech = Speech(read_contents(*SHOP_TALK))

    assert texts(speech.mark_gaps([rule, far])) == ["Always ask.", "… Yes."]
    assert texts(speech.mark_gaps([rule, near])) == ["Always ask.", "Yes."]


def joined_lines(*turns, stands):
    """The lines of those sentences that stand."""
    speech = Speech(read_contents(*turns))
    every = [one.variants[0][-1] for one in speech.candidates(is_bounded=True)]
    return texts(speech.join_sentences([fact for fact in every if fact.text in stands]))


def test_sentences_that_are_missing_before_others_of_their_message_leave_a_mark():
    asked = user("The forecast is an hour off since May. Please fix it.")
    told = assistant("A technician has to come. She calls an hour before.")

    assert joined_lines(asked, stands={"Please fix it."}) == ["… Please fix it."]
    assert joined_lines(told, stands={"She calls an hour before."}) == [
        "… She calls an hour before."
    ]


def test_a_reply_without_its_beginning_needs_no_mark_behind_another_reply():
    speech = Speech(read_contents(*SHOP_TALK))
    asked = Fact(kind=FactKind.USER, text="How many?", turns=(1,), messages=(0,))
    first = Fact(kind=FactKind.REPLY, text="… Five.", turns=(1,), messages=(1,))
    second = Fact(kind=FactKind.REPLY, text="… From Thursday on.", turns=(2,), messages=(3,))

    assert texts(speech.mark_gaps([asked, first])) == ["How many?", "… Five."]
    assert texts(speech.mark_gaps([first, second])) == ["Five.", "From Thursday on."]


def test_courtesies_that_are_missing_leave_no_mark():
    told = assistant("Good choice. It opens at nine. Great. It closes at six.")
    stands = {"It opens at nine.", "It closes at six."}

    assert joined_lines(told, stands=stands) == ["It opens at nine. It closes at six."]
    assert joined_lines(user("Hi! Where is it?"), stands={"Where is it?"}) == ["Where is it?"]


def test_a_users_name_stays_before_words_whose_beginning_is_gone():
    named = user("It rains in Oslo. Book the ferry.") | {"name": "Ann"}

    assert joined_lines(named, stands={"Book the ferry."}) == ["Ann: … Book the ferry."]


def test_courtesies_of_the_assistant_stand_only_where_everything_does():
    talk = [
        message
        for number in range(6)
        for message in (
            user(f"Where is order W-{number}41?"),
            assistant(f"Sure! It waits at gate {number}7 now. Have a great day!"),
        )
    ]

    assert "Sure!" in segment_within(region(*talk), 400, estimate_tokens).text
    for size in range(40, 120, 8):
        segment = segment_within(region(*talk), size, estimate_tokens)
        assert "gate" in segment.text
        if not segment.simple_way:
            assert "Sure" not in segment.text
            assert "great day" not in segment.text


def test_a_message_that_stays_a_message_of_its_own_is_no_gap():
    part = read_contents(*SHOP_TALK, kept=frozenset({1, 2}))
    facts = [
        Fact(kind=FactKind.USER, text="How many do I need?", turns=(1,), messages=(0,)),
        Fact(kind=FactKind.REPLY, text="Yes.", turns=(2,), messages=(3,)),
    ]

    assert texts(Speech(part).mark_gaps(facts))[1] == "Yes."


def test_a_segment_joins_no_question_to_the_answer_of_another():
    talk = [
        user("Which hotel near Waterloo Bridge has 40 rooms and a pool?"),
        assistant("I could look at some of them, if that is what would be good for you now."),
        user("And is it so that one can get there by any means at all in the end?"),
        assistant("Bus 76 leaves from stand C4 every 12 minutes."),
    ]

    text = segment_within(region(*talk), 55, estimate_tokens).text

    assert text.split("\n")[1:] == [
        "user: Which hotel near Waterloo Bridge has 40 rooms and a pool?",
        "assistant: … Bus 76 leaves from stand C4 every 12 minutes.",
    ]
