"""Agents that say at the end of each call what the next one does not repeat."""

import pytest

from proxy.prefix.planned import Planned
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    Json,
    PlanningProcess,
    body,
    chat_message,
    planning_request,
    without_marks,
)

ANTHROPIC, OPENAI = "anthropic-breakpoint", "openai-breakpoint"
BOTH = (ANTHROPIC, OPENAI)
#: What a step of the work shows: some 500 tokens.
SHOWN = "The file has a line. " * 100


def work(turns: int, name: str = "one") -> list[Json]:
    """The messages of a call that so many steps of the work precede."""
    messages = [
        chat_message("system", RULES),
        chat_message("user", f"Mend file {name}."),
        chat_message("user", "Well?"),
    ]
    for turn in range(turns):
        messages.append(chat_message("assistant", f"Let me look at line {turn}. {SHOWN}"))
        messages.append(chat_message("user", f"Line {turn}: {SHOWN}"))
    return messages


def body_with_reminder(turns: int, name: str = "one") -> bytes:
    """A call whose last message ends with a reminder."""
    *rest, last = work(turns, name)
    return body(*rest, chat_message("user", f"{last['content']}\nYou have {9 - turns} turns left."))


def apart(turns: int, name: str = "one") -> bytes:
    """A call that ends with a reminder in a message of its own."""
    return body(*work(turns, name), chat_message("user", f"You have {9 - turns} turns left."))


def plain(turns: int, name: str = "one") -> bytes:
    return body(*work(turns, name))


def body_without_old_results(turns: int, name: str = "one") -> bytes:
    """A call that shows what the latest two steps found; earlier finds are left out."""
    messages = work(turns, name)
    for start in range(4, len(messages) - 4, 2):
        messages[start] = chat_message("user", "Found before.")
    return body(*messages)


def plan_turns(
    process: PlanningProcess, call=body_with_reminder, name: str = "one", turns: int = 6
) -> list[Planned]:
    return [process.plan_and_settle(planning_request(call(turn, name))) for turn in range(turns)]


def unread_tokens(planned: Planned) -> int:
    """Tokens that were sent before and are not read."""
    expected = planned.evidence.expected
    return expected.known - expected.tokens


def behind(planned: Planned) -> int:
    """Number of blocks stand behind the last mark."""
    sent = planned.evidence.sent
    return len(sent.blocks) - 1 - max(sent.marks)


def marked_role(planned: Planned) -> str:
    sent = planned.evidence.sent
    return sent.blocks[max(sent.marks)].role


def test_the_mark_stands_before_a_reminder_that_moves_with_the_last_message():
    planned_turns = plan_turns(PlanningProcess(TARGETS[ANTHROPIC]), apart)

    assert {behind(turn) for turn in planned_turns[3:]} == {1}
    assert {unread_tokens(turn) for turn in planned_turns[3:]} == {0}


def test_mark_stands_before_a_reminder_that_is_left_out_later():
    process = PlanningProcess(TARGETS[ANTHROPIC])
    for name in ("one", "two"):
        planned_turns = plan_turns(process, body_without_old_results, name, turns=12)

    assert {behind(turn) for turn in planned_turns[9:]} == {4}
    assert max(unread_tokens(turn) for turn in planned_turns[9:]) < 600


@pytest.mark.parametrize("regime", BOTH)
def test_the_mark_before_a_reminder_stands_on_what_a_user_said(regime):
    planned = plan_turns(PlanningProcess(TARGETS[regime]))[-1]

    assert (marked_role(planned), behind(planned)) == ("user", 2)


@pytest.mark.parametrize("regime", BOTH)
def test_the_next_conversation_of_a_feature_is_marked_so_from_its_first_call_on(regime):
    process = PlanningProcess(TARGETS[regime])
    plan_turns(process)
    planned_turns = plan_turns(process, name="two")

    assert all(behind(turn) > 0 for turn in planned_turns)
    assert len(planned_turns[-1].plan.policies) == 1


def test_openais_own_choice_stays_and_what_is_repeated_is_read_by_its_mark():
    process = PlanningProcess(TARGETS[OPENAI])
    first = plan_turns(process)
    second = plan_turns(process, name="two")

    assert not any(planned.evidence.sent.explicit for planned in (*first, *second))
    assert max(unread_tokens(planned) for planned in second[3:]) < 600


@pytest.mark.parametrize("regime", BOTH)
def test_a_conversation_without_reminders_is_soon_marked_at_its_end_again(regime):
    process = PlanningProcess(TARGETS[regime])
    plan_turns(process)
    later = plan_turns(process, plain, name="two", turns=12)[-1]
    alone = plan_turns(PlanningProcess(TARGETS[regime]), plain, name="two", turns=12)[-1]

    assert later.evidence.expected.tokens == alone.evidence.expected.tokens


@pytest.mark.parametrize("regime", BOTH)
def test_any_process_sends_the_same_text(regime):
    plans: dict[str, bytes] = {}
    *both, third = (PlanningProcess(TARGETS[regime], plans=plans) for _ in range(3))
    for name in ("one", "two"):
        for turn in range(6):
            call = planning_request(body_with_reminder(turn, name))
            planned = both[turn % 2].plan_and_settle(call)

            assert without_marks(third.plan(call).body) == without_marks(planned.body)
