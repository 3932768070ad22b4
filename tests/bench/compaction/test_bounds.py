"""Tests of the bounds of what any choice of text can keep."""

from dataclasses import replace

from tests.bench.compaction.bounds import case_bound
from tests.bench.compaction.cases import ChatCase
from tests.bench.compaction.measuring import FACTS, CaseMeasure, measure
from tests.fakes.dialogue import Message
from tests.fakes.dialogues import says, user

CHAT: list[Message] = [
    user("Where is it?"),
    says("It is at Gate B-22. We wish you a pleasant stay with all that you may want to see here."),
    user("And when?"),
    says("It opens at 10:15. The evenings by the water are cool, so bring a coat and an umbrella."),
    user("Thanks, that helps me."),
    says("With pleasure."),
    user("What did you say of the gate?"),
]
CASE = ChatCase(name="chat", messages=CHAT, needed=[("b-22",), ("10:15",), ("b-22", "10:15")])


def made_to(tokens: int, suffix: int = 1) -> CaseMeasure:
    measured = measure(replace(CASE, needed=CASE.needed[:2]))
    return replace(measured, after=tokens, before=tokens, suffix=suffix, suffix_tokens=10)


def test_room_for_one_short_sentence_holds_one_need():
    singles = replace(CASE, needed=CASE.needed[:2])
    assert case_bound(singles, made_to(20), 1.0, 0).any_choice == 1


def test_beside_all_that_users_said_there_is_less_room():
    singles = replace(CASE, needed=CASE.needed[:2])
    bound = case_bound(singles, made_to(40), 1.0, 0)
    assert (bound.any_choice, bound.users_whole) == (2, 1)


def test_pair_needs_the_sentences_of_both_values():
    assert case_bound(CASE, made_to(40), 1.0, 0).any_choice == 3


def test_no_room_beside_the_last_turns_holds_nothing():
    assert case_bound(CASE, made_to(10), 1.0, 0).any_choice == 0


def test_value_of_the_last_turns_is_kept_without_room():
    bound = case_bound(CASE, made_to(10, suffix=4), 1.0, 0)
    assert (bound.any_choice, bound.by_class) == (1, 1)


def test_other_values_of_the_class_take_room():
    of_class = replace(CASE, needed=[("10:15",)], class_values=lambda: ["gate", "b-22"])
    assert case_bound(of_class, made_to(18), 1.0, 0).by_class == 0
    assert case_bound(of_class, made_to(40), 1.0, 0).by_class == 1


def test_facts_keep_no_more_than_any_choice():
    for share in (0.3, 0.5, 0.7):
        measured = measure(CASE, share)
        assert len(measured.kept[FACTS]) <= case_bound(CASE, measured, share, 0).any_choice
