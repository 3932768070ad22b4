"""Replicas tell sessions alike, and no order of calls splits or merges any."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.plan import SEVERAL, Plan
from proxy.prefix.conversations import Conversations
from proxy.prefix.planned import Planned
from proxy.prefix.prompts.conversation import ConversationChain
from tests.examples import examples
from tests.proxy.prefix.growing_sessions import (
    REMINDERS,
    WAY,
    are_apart,
    both,
    names,
    plan_sessions,
    process,
    session_messages,
    sessions,
)
from tests.proxy.prefix.planning_requests import (
    Json,
    PlanningProcess,
    body,
    chat_message,
    planning_request,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        lambda name: [*REMINDERS, chat_message("user", f"I am {name}.")],
        lambda name: [chat_message("user", f"I am {name}."), *REMINDERS],
    ],
    ids=["words last", "words first"],
)
def test_replicas_that_share_a_store_tell_sessions_alike_and_so_does_one_that_begins_later(first):
    every = sessions(first)
    plans: dict[str, bytes] = {}
    planned_sessions = plan_sessions(
        every, *(PlanningProcess(WAY, plans=plans, share=0.5) for _ in range(2))
    )
    restarted = PlanningProcess(WAY, plans=plans, share=0.5)
    later = [[restarted.plan_and_settle(one[4])] for one in every]

    assert are_apart(planned_sessions)
    assert are_apart([[*a, *b] for a, b in zip(planned_sessions, later, strict=True)])
    assert {len({planned.plan.arm for planned in one}) for one in planned_sessions} == {1}


def test_replicas_part_sessions_whose_first_call_is_the_same():
    planned_sessions = plan_sessions(sessions(lambda _: REMINDERS), *both())

    assert are_apart(planned_sessions, since=1)


def test_the_same_first_call_is_the_same_conversation_anywhere_without_asking():
    (one,) = sessions(lambda _: REMINDERS, many=1)

    assert names([process().plan_and_settle(one[0])]) == names([process().plan_and_settle(one[0])])


@st.composite
def beginnings(draw: st.DrawFn) -> list[list[list[Json]]]:
    """The calls of sessions that begin alike, with examples or without."""
    shared = [
        *REMINDERS,
        chat_message("assistant", "Yes?"),
        chat_message("user", "Go on."),
        chat_message("user", "Well?"),
    ]
    lengths = draw(st.sampled_from([(1, 3), (5, 6)]))
    same = draw(st.none() | st.integers(*lengths))  # of first calls that are the same
    every = []
    for number in range(draw(st.integers(2, 6))):
        alike = draw(st.integers(*lengths)) if same is None else same
        more = [chat_message("user", f"I am {number}.")] if same is None else []
        every.append(session_messages([*shared[:alike], *more], str(number), 5))
    return every


@pytest.mark.slow
@given(beginnings(), st.integers(1, 3), st.integers(0, 9_999).map(Random))
@examples(50, deadline=None)
def test_no_session_is_split_or_merged_in_any_order_of_calls(
    every: list[list[list[Json]]], processes: int, roll: Random
):
    plans: dict[str, bytes] = {}
    here = [PlanningProcess(WAY, plans=plans) for _ in range(processes)]
    order = [at for at, calls in enumerate(every) for _ in calls]
    roll.shuffle(order)
    planned_sessions: list[list[Planned]] = [[] for _ in every]
    for at in order:
        call = planning_request(body(*every[at][len(planned_sessions[at])]))
        planned_sessions[at].append(roll.choice(here).plan_and_settle(call))

    assert are_apart(planned_sessions, since=1)
    for calls, planned_calls in zip(every, planned_sessions, strict=True):
        is_alone = sum(calls[0] == other[0] for other in every) == 1
        assert not is_alone or len(names(planned_calls)) == 1


def link(*values: str, answers: tuple[tuple[int, int], ...] = ()) -> ConversationChain:
    return ConversationChain(
        tuple(value.encode() for value in values), tuple(b"x" for _ in values[1:]), answers
    )


def test_a_value_of_several_conversations_leads_to_none():
    index = Conversations()
    index.load_plans({b"same".hex(): Plan(conversation=SEVERAL)})
    call = link("base", "same", "other", "answer", "more", answers=((2, 3),))

    resolved = index.resolve(call)

    assert (resolved.name, resolved.source) == (call.whole, b"")
    assert index.resolve(link("base", "same", "more")).beside == (b"same",)


def test_indexes_count_the_bytes_of_values_and_of_latest_calls():
    index = Conversations()
    call = link("base", "one", "two")
    index.record_call(call, index.resolve(call))

    assert [kind.size_bytes for kind in index.indexes] == [130, 130, 0, 220]
