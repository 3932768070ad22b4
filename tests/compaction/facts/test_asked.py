from compaction.facts.asked import LAST, asked
from tests.compaction.facts.regions import assistant, parted, texts, user

OFFER = assistant(
    "Thank you for waiting.\n\n**Details**:\n- Flight HAT069\n- $121\n\nShall I book it?"
)


def test_the_question_of_a_bare_answer_stays():
    assert texts(asked(parted(OFFER, user("Yes")))) == ["Shall I book it?"]
    assert texts(asked(parted(OFFER, user("Yes, with card 7447")))) == []
    assert texts(asked(parted(OFFER, user("Yes" + " please" * 20)))) == []
    assert texts(asked(parted(assistant("Done."), user("Thanks")))) == []


def test_what_tells_of_the_last_message_stays_without_its_layout():
    part = parted(user("Book"), OFFER, user("Yes"), end=2)

    assert texts(asked(part)) == ["Details: Flight HAT069 $121 Shall I book it?"]
    assert texts(asked(part, 0)) == ["Shall I book it?"]


def test_it_is_bounded():
    part = parted(assistant("It costs $121, then. " * 900), user("Yes, with card 7447"), end=1)

    assert len(texts(asked(part))[0]) < 2 * LAST


def test_what_no_user_answers_is_left_out():
    assert texts(asked(parted(OFFER))) == []
    assert texts(asked(parted(OFFER, assistant("And?"), end=1))) == []
    assert texts(asked(parted(assistant("Fine."), user("Yes"), end=1))) == []
