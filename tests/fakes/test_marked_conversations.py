"""Tests of the conversations that mark what must be found again."""

import orjson
import pytest

from compaction.reading.chat_validation import chat_faults
from tests.fakes.dialogue import words
from tests.fakes.marked_conversations import MarkedConversation, twins, work

ALL = {**twins(), **work()}
MARKS = ("[[", "]]", "{{", "}}")


@pytest.mark.parametrize("name", ALL)
def test_marked_conversation_is_a_chat_that_providers_take(name):
    assert chat_faults([orjson.dumps(message) for message in ALL[name].messages]) == ()


@pytest.mark.parametrize("name", ALL)
def test_marked_conversation_holds_its_values_and_no_mark(name):
    talk: MarkedConversation = ALL[name]

    assert all(value.value in words(talk.messages[value.place]) for value in talk.values)
    assert not any(mark in words(message) for message in talk.messages for mark in MARKS)


@pytest.mark.parametrize("language", twins())
def test_twin_has_three_wishes_three_accepted_proposals_and_fourteen_values(language):
    talk = twins()[language]

    assert len(talk.wishes) == 3
    assert sum(value.is_accepted for value in talk.values) == 3
    assert len(talk.values) == 14


def test_there_are_nineteen_twins_and_four_kinds_of_work():
    assert len(twins()) == 19
    assert list(work()) == ["shop", "desk", "bank", "coder"]
