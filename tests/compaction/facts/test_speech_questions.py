"""Tests of the worth of questions, and of the room that an answer takes with its question."""

from compaction.facts.speech import Speech
from tests.compaction.facts.regions import Said, assistant, read_contents, user


def factors(*said: Said) -> list[float]:
    speech = Speech(read_contents(*said))
    return [candidate.factor for candidate in speech.candidates(is_bounded=True)]


def test_questions_that_hold_no_value_count_less_than_other_sentences():
    answer = "We would like to stay for some days near the old harbour"

    assert sorted(factors(user(answer), assistant("Is it so?"), user(answer))) == [0.4, 1.0, 1.0]
    assert factors(user("Is it so?")) == [0.5]


def test_to_a_target_a_users_courtesies_take_no_room_but_what_accepts_does():
    reply = assistant("Then I would take the Pebble Cotton, which comes in 31 colours.")

    assert factors(user("My goal?"), reply, user("Thank you!"))[1] == 0.0
    assert 0.0 not in factors(user("My goal?"), reply, user("Okay."))


def test_a_reply_of_60_bytes_stands_with_its_question_and_a_longer_one_by_itself():
    question = user("Is it so?")

    assert len(factors(question, assistant("y" * 60))) == 1
    assert len(factors(question, assistant("y" * 61))) == 2
