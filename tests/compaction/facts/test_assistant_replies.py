import time

import pytest

from compaction.facts.assistant_replies import (
    MAX_REPLY_CHARS,
    ReferenceStrength,
    assistant_reply_facts,
    reference_strength,
)
from compaction.facts.values import KeptWords
from tests.compaction.facts.regions import assistant, call_and_result, read_contents, texts, user


@pytest.mark.parametrize(
    ("answer", "leans"),
    [
        ("The second one.", ReferenceStrength.CHOOSES),
        ("B", ReferenceStrength.CHOOSES),
        ("2 please", ReferenceStrength.CHOOSES),
        ("the cheaper", ReferenceStrength.CHOOSES),
        ("Take the first, three nights.", ReferenceStrength.CHOOSES),
        ("Yes", ReferenceStrength.AGREES),
        ("do it", ReferenceStrength.AGREES),
        ("It's due to a change of plan.", ReferenceStrength.AGREES),
        ("Yes, with card 7447", ReferenceStrength.NOT),
        ("I would like to fly from Rome to Paris in May", ReferenceStrength.NOT),
        ("the first " * 20, ReferenceStrength.NOT),
    ],
)
def test_short_answers_lean_on_what_they_answer(answer, leans):
    assert reference_strength(answer) is leans


@pytest.mark.parametrize("piece", ["the ", "a ", "((", "the first", " "])
def test_no_answer_takes_long(piece):
    before = time.process_time()
    reference_strength(piece * 100_000)

    assert time.process_time() - before < 1


OFFER = assistant(
    "Thank you for waiting.\n\n**Details**:\n- Flight KLT417\n- $121\n\nShall I book it?"
)
CHOICE = "I found two options: A) TP571 on 12 May at 412 EUR, B) LH1166 at 388 EUR. Which one?"
HELD = "Flight KLT417 121"


def test_the_question_of_a_bare_answer_stays():
    assert texts(
        assistant_reply_facts(read_contents(OFFER, user("Yes")), kept_words=KeptWords(HELD))
    ) == ["Shall I book it?"]
    assert (
        texts(
            assistant_reply_facts(
                read_contents(OFFER, user("Yes, with card 7447")), kept_words=KeptWords(HELD)
            )
        )
        == []
    )
    assert texts(assistant_reply_facts(read_contents(assistant("Hello."), user("Thanks")))) == []


def test_a_choice_stays_with_what_there_was_to_choose_from():
    assert texts(
        assistant_reply_facts(
            read_contents(assistant(CHOICE), user("The second one.")), kept_words=KeptWords(CHOICE)
        )
    ) == [CHOICE]
    listed = read_contents(assistant("Which one?\n\n1. Rome\n2. Oslo"), user("the first"))
    assert texts(assistant_reply_facts(listed)) == ["Which one? 1) Rome 2) Oslo"]


def test_the_last_level_keeps_only_questions_and_options_of_replies():
    part = read_contents(
        assistant("I will ask HB-1. Shall I?"), user("Yes"), assistant("I noted it.")
    )

    assert texts(assistant_reply_facts(part, 0)) == ["Shall I?"]
    assert (
        "LH1166" in texts(assistant_reply_facts(read_contents(assistant(CHOICE), user("B")), 0))[0]
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "I will check the rental car by tomorrow.",
        "I can re-send at no cost.",
        "I'll ask finance.",
        "Booked in your name.",
        "The lot is wrong; I noted it.",
        "Your refund has been issued.",
        "Done: all of it.",
    ],
)
def test_promises_and_outcomes_stay(sentence):
    contents = read_contents(
        user("go"), assistant(f"Well then. {sentence} Fine."), user("And what of the rest?")
    )

    assert texts(assistant_reply_facts(contents)) == [sentence]


@pytest.mark.parametrize(
    "sentence",
    ["I can help with it.", "I'll need your name.", "Once you agree, I will book.", "It is nice."],
)
def test_replies_without_a_promise_are_left_out(sentence):
    assert (
        texts(
            assistant_reply_facts(
                read_contents(assistant(sentence), user("And what of the rest of the day?"))
            )
        )
        == []
    )


def test_an_outcome_is_not_said_beside_the_call_that_it_is_of():
    part = read_contents(
        user("go"), call_and_result("book", "ok"), assistant("Booked it. I'll ask finance.")
    )

    assert texts(assistant_reply_facts(part)) == ["I'll ask finance."]


def test_a_value_that_stands_nowhere_else_stays_in_its_sentence():
    part = read_contents(assistant("Nice. The ref is HB-99812. It was 12 EUR."))

    assert texts(assistant_reply_facts(part, kept_words=KeptWords("12 EUR"))) == [
        "The ref is HB-99812."
    ]
    assert texts(
        assistant_reply_facts(read_contents(*[assistant("The ref is HB-99812.")] * 2))
    ) == ["The ref is HB-99812."]


def test_replies_do_not_repeat_plan_lines():
    assert texts(assistant_reply_facts(read_contents(assistant("I decided to skip HB-1.")))) == []


def test_facts_of_the_last_message_stay_without_its_layout():
    part = read_contents(user("Book"), OFFER, user("Yes"), end=2)

    assert texts(assistant_reply_facts(part)) == ["Details: Flight KLT417 $121 Shall I book it?"]
    assert texts(assistant_reply_facts(part, 0)) == ["Shall I book it?"]


def test_a_reply_is_bounded_and_its_question_goes_last():
    reply = assistant("It costs $121, then. " * 900 + "Shall I?")
    last = texts(assistant_reply_facts(read_contents(reply, user("Yes, with card 7447"), end=1)))[0]

    assert len(last) < MAX_REPLY_CHARS + 40
    assert last.endswith("Shall I?")
    older = read_contents(
        *[assistant(f"The ref is HB-{number}{'1 x' * 90}.") for number in range(9)]
    )
    assert len(texts(assistant_reply_facts(older))[0]) < 170


def test_questions_that_the_next_message_does_not_answer_are_left_out():
    assert texts(assistant_reply_facts(read_contents(OFFER), kept_words=KeptWords(HELD))) == []
    assert (
        texts(
            assistant_reply_facts(
                read_contents(OFFER, assistant("And?"), end=1), kept_words=KeptWords(HELD)
            )
        )
        == []
    )
    assert texts(assistant_reply_facts(read_contents(assistant("Fine."), user("Yes"), end=1))) == []


@pytest.mark.parametrize("piece", ["I ", "I will ", "has been ", "1. ", "A) ", "a? ", "- ", " \n"])
def test_no_text_takes_long(piece):
    part = read_contents(assistant(piece * 20_000), user("B"))

    before = time.process_time()
    texts(assistant_reply_facts(part))

    assert time.process_time() - before < 1
