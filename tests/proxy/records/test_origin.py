"""A conversation that was shortened is the same one, and its reset is a declared one."""

import msgspec

from proxy.prefix.conversations import ConversationHabits
from proxy.prefix.explain.reasons import MissReason
from proxy.records.origin import UncompactedConversation
from slo.usage import Usage
from tests.proxy.prefix.planning_requests import (
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
)

LONG = "Where is my parcel? " * 600
#: What its caller sent, nine answers long.
CAME = conversation_messages(9, opening=LONG)


def compacted_call(*more, reset, came=CAME):
    """A call that the gateway shortened; ``came`` is what it stands for."""
    origin = UncompactedConversation(
        messages=tuple(msgspec.json.encode(each) for each in (*came, *more)), turns=9, reset=reset
    )
    told = body(
        conversation_messages(0)[0], chat_message("user", "In short: a parcel. " * 300), *more
    )
    return msgspec.structs.replace(planning_request(told), origin=origin)


def test_a_shortened_prompt_belongs_to_the_conversation_it_came_from():
    house = PlanningProcess(TARGETS["openai-interval"])
    whole = house.plan(planning_request(body(*conversation_messages(3, opening=LONG))))
    short = house.plan(compacted_call(reset=True))

    assert short.draft.conversation == whole.draft.conversation
    assert (whole.draft.turns, short.draft.turns) == (3, 9)


def test_a_reset_is_told_as_one_and_says_nothing_of_habits():
    house = PlanningProcess(TARGETS["openai-interval"])
    tail = [chat_message(role, f"{n} {LONG}") for n, role in enumerate(["assistant", "user"] * 3)]
    before = conversation_messages(3, opening=LONG)
    house.plan_and_settle(planning_request(body(*before, *tail)))
    more = [chat_message("assistant", "Yes."), chat_message("user", "So?")]
    short = house.plan(compacted_call(*tail, *more, reset=True, came=before))
    system = 2_048
    used = Usage(input=short.evidence.sent.estimate - system, cache_read=system)
    found = house.planner.settle_call(short, used)

    assert short.evidence.sent.compacted
    assert found is not None
    assert (found.reason, found.detail) == (
        MissReason.COMPACTED,
        "the gateway shortened the conversation",
    )
    habits = house.planner.memory.of(short.place.team).habits
    assert habits.get_or_make(short.place, ConversationHabits).left_out == 0


def test_the_call_after_it_is_an_ordinary_one():
    house = PlanningProcess(TARGETS["openai-interval"])
    house.plan_and_settle(compacted_call(reset=True))
    after = house.plan(
        compacted_call(chat_message("assistant", "Yes."), chat_message("user", "So?"), reset=False)
    )

    assert not after.evidence.sent.compacted
    assert after.evidence.expected.tokens > 0
