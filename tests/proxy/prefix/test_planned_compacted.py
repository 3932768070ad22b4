"""A conversation that was shortened is the same one, and its reset is a declared one."""

import msgspec

from proxy.prefix.explain.reasons import MissReason
from proxy.records.call import UncompactedConversation
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
CALLER_MESSAGES = conversation_messages(9, opening=LONG)


def compacted_call(*more, reset, messages=CALLER_MESSAGES):
    """A call that the gateway shortened; ``messages`` are what it stands for."""
    origin = UncompactedConversation(
        messages=tuple(msgspec.json.encode(message) for message in (*messages, *more)),
        turns=9,
        reset=reset,
    )
    shortened = body(
        conversation_messages(0)[0], chat_message("user", "In short: a parcel. " * 300), *more
    )
    return msgspec.structs.replace(planning_request(shortened), origin=origin)


def test_a_shortened_prompt_belongs_to_the_conversation_it_came_from():
    process = PlanningProcess(TARGETS["openai-interval"])
    whole = process.plan(planning_request(body(*conversation_messages(3, opening=LONG))))
    short = process.plan(compacted_call(reset=True))

    assert short.draft.conversation == whole.draft.conversation
    assert (whole.draft.turns, short.draft.turns) == (3, 9)


def test_reset_by_compaction_is_reported_as_its_own_miss_and_no_habit():
    process = PlanningProcess(TARGETS["openai-interval"])
    tail = [chat_message(role, f"{n} {LONG}") for n, role in enumerate(["assistant", "user"] * 3)]
    before = conversation_messages(3, opening=LONG)
    process.plan_and_settle(planning_request(body(*before, *tail)))
    more = [chat_message("assistant", "Yes."), chat_message("user", "So?")]
    short = process.plan(compacted_call(*tail, *more, reset=True, messages=before))
    system = 2_048
    usage = Usage(input=short.evidence.sent.estimate - system, cache_read=system)
    miss = process.planner.settle_call(short, usage)

    assert short.evidence.sent.compacted
    assert miss is not None
    assert (miss.reason, miss.detail) == (
        MissReason.COMPACTED,
        "the gateway shortened the conversation",
    )
    left_out = process.planner.memory.of(short.place.team).left_out
    assert not left_out.peek(short.place)


def test_call_after_a_compaction_is_planned_as_usual():
    process = PlanningProcess(TARGETS["openai-interval"])
    process.plan_and_settle(compacted_call(reset=True))
    after = process.plan(
        compacted_call(chat_message("assistant", "Yes."), chat_message("user", "So?"), reset=False)
    )

    assert not after.evidence.sent.compacted
    assert after.evidence.expected.tokens > 0
