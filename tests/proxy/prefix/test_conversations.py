"""Sessions that begin alike are told apart, and each stays one conversation to its end."""

from collections.abc import Callable

import orjson
import pytest

from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.planned import PlanningRequest
from proxy.records.call import UncompactedConversation
from tests.proxy.prefix.growing_sessions import (
    MANY,
    REMINDERS,
    SYSTEM,
    are_apart,
    both,
    names,
    plan_sessions,
    process,
    session_messages,
    sessions,
)
from tests.proxy.prefix.planning_requests import Json, body, chat_message, planning_request, tool


def test_sessions_that_differ_at_their_fourth_message_are_apart_and_have_arms_of_their_own():
    every = sessions(lambda name: [*REMINDERS, chat_message("user", f"I am {name}.")])
    planned_sessions = plan_sessions(every, process(share=0.5))

    assert are_apart(planned_sessions)
    assert {len({planned.plan.arm for planned in one}) for one in planned_sessions} == {1}
    assert 10 < sum(one[0].plan.arm is ExperimentArm.CONTROL for one in planned_sessions) < 40


@pytest.mark.slow
@pytest.mark.parametrize("tail", [1, 2, 3])
@pytest.mark.parametrize("drops", [True, False], ids=["dropped", "replaced"])
def test_reminders_at_the_end_that_the_next_call_lacks_or_changes_split_none(tail, drops):
    def call(at: int, messages: list[Json]) -> PlanningRequest:
        """The call; what its history holds of reminders is none, or others than were sent."""
        reminders = [chat_message("user", f"It is {at}:0{number}.") for number in range(tail)]
        history = messages if drops else with_history(messages)
        return planning_request(body(*history, *reminders))

    def with_history(messages: list[Json]) -> list[Json]:
        grown: list[Json] = []
        for message in messages:
            if message["role"] == "assistant":
                grown += [chat_message("user", f"It was {number}.") for number in range(tail)]
            grown.append(message)
        return grown

    every = []
    for number in range(MANY):
        name = f"Session {number}"
        talk = session_messages([*REMINDERS, chat_message("user", f"I am {name}.")], name)
        every.append([call(at, messages) for at, messages in enumerate(talk)])

    assert are_apart(plan_sessions(every, process()))
    assert are_apart(plan_sessions(every, *both()))


def test_sessions_whose_first_call_is_the_same_part_with_their_first_answer():
    every = sessions(lambda _: REMINDERS)
    planned_sessions = plan_sessions(every, process(share=0.5))

    assert len(set[bytes]().union(*(names(one[:1]) for one in planned_sessions))) == 1
    assert are_apart(planned_sessions, since=1)
    assert 10 < sum(one[1].plan.arm is ExperimentArm.CONTROL for one in planned_sessions) < 40


def test_sessions_answered_alike_part_with_their_first_result():
    def opening(name: str) -> list[Json]:
        return [
            *REMINDERS,
            chat_message("assistant", "I look."),
            chat_message("user", f"There is {name}."),
        ]

    every = [
        [planning_request(body(SYSTEM, *REMINDERS)), *calls] for calls in sessions(opening)
    ]  # fmt: skip

    assert are_apart(plan_sessions(every, process()), since=1)


def test_a_session_that_parts_goes_on_with_the_order_of_its_tools_and_its_key():
    tools = {"tools": [tool("b"), tool("a")]}
    here = process()
    first = here.plan_and_settle(planning_request(body(SYSTEM, *REMINDERS, **tools)))
    one, other = (
        here.plan_and_settle(
            planning_request(body(*session_messages(REMINDERS, name, 2)[1], **tools))
        )
        for name in ("A", "B")
    )

    assert one.draft.conversation == first.draft.conversation != other.draft.conversation
    assert other.plan.tools == first.plan.tools
    assert other.plan.policies.items() >= first.plan.policies.items()
    assert orjson.loads(other.body)["tools"] == orjson.loads(first.body)["tools"]


@pytest.mark.slow
def test_examples_before_the_first_question_merge_none():
    def opening(name: str) -> list[Json]:
        pairs = [("Is 4 even?", "Yes."), ("Is 5 even?", "No.")]
        examples = [
            chat_message(role, text)
            for pair in pairs
            for role, text in zip(ROLES, pair, strict=True)
        ]
        return [*examples, chat_message("user", f"Is {name} even?")]

    assert are_apart(plan_sessions(sessions(opening), process()))
    assert are_apart(plan_sessions(sessions(opening), *both()))


ROLES = ("user", "assistant")


def test_a_retried_call_belongs_to_the_same_conversation():
    (one,) = sessions(lambda _: REMINDERS, many=1)
    twice = [call for call in one for _ in range(2)]

    assert are_apart(plan_sessions([twice], process()))
    assert are_apart(plan_sessions([[*one, *one[2:], *one]], process()))


def test_a_question_that_is_edited_parts_with_all_that_was_sent_kept():
    here = process()
    calls = session_messages(REMINDERS, "A")
    before = [here.plan_and_settle(planning_request(body(*messages))) for messages in calls[:3]]
    edited = [[*messages[:-1], chat_message("user", "A: no, go left.")] for messages in calls[2:3]]
    (other,) = (here.plan_and_settle(planning_request(body(*messages))) for messages in edited)
    more = [chat_message("assistant", "Left."), chat_message("user", "Thanks.")]
    after = here.plan_and_settle(planning_request(body(*edited[0], *more)))
    again = here.plan_and_settle(planning_request(body(*calls[3])))

    assert other.draft.conversation == after.draft.conversation
    assert names(before) == {again.draft.conversation} != {other.draft.conversation}
    assert other.plan.policies.items() >= before[1].plan.policies.items()


def test_names_from_the_caller_keep_identical_sessions_apart():
    alike = [body(*message) for message in session_messages(REMINDERS, "A", 3)]
    named = [
        [planning_request(raw, hint="one") for raw in alike],
        [planning_request(raw, session="one") for raw in alike],
        [planning_request(raw, session="two") for raw in alike],
        [planning_request(raw, key="key_2") for raw in alike],
        *(
            [
                planning_request(body(*message, **fields))
                for message in session_messages(REMINDERS, "A", 3)
            ]
            for fields in (
                {"user": "u"},
                {"prompt_cache_key": "k"},
                {"metadata": {"user_id": '{"session_id":"1"}'}},
                {"client_metadata": {"session_id": "1"}},
            )
        ),
    ]

    assert are_apart(plan_sessions(named, process()))


def test_helpers_of_one_session_are_conversations_of_their_own():
    helpers = [
        [planning_request(call.body, session="one") for call in one]
        for one in sessions(
            lambda name: [*REMINDERS, chat_message("user", f"Task of {name}.")], many=3
        )
    ]

    assert are_apart(plan_sessions(helpers, process()))


def test_marks_that_move_and_texts_that_become_parts_split_none():
    def mark_last(messages: list[Json]) -> list[Json]:
        *before, last = messages
        part = {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}
        return [*before, last | {"content": [part]}]

    def parts(messages: list[Json]) -> list[Json]:
        return [
            message | {"content": [{"type": "text", "text": message["content"]}]}
            for message in messages
        ]

    calls = session_messages(REMINDERS, "A")
    forms: list[Callable[[list[Json]], list[Json]]] = [mark_last, parts, list]
    one = [
        planning_request(body(*forms[index % 3](messages_of_call)))
        for index, messages_of_call in enumerate(calls)
    ]

    assert are_apart(plan_sessions([one], process()))
    assert are_apart(plan_sessions([one], *both()))


@pytest.mark.parametrize("processes", [1, 2])
def test_an_agent_that_takes_back_what_it_said_with_a_question_stays_one(processes):
    """Its last message ends with how much is left, and says so no more once it is answered."""

    def call(at: int, messages: list[Json]) -> PlanningRequest:
        *before, last = messages
        return planning_request(
            body(*before, last | {"content": f"{last['content']}\n{9 - at} left."})
        )

    every = []
    for number in range(9):
        name = f"Session {number}"
        talk = session_messages(
            [chat_message("user", f"I am {name}."), chat_message("user", "Well?")], name
        )
        every.append([call(at, text) for at, text in enumerate(talk)])
    here = [process()] if processes == 1 else both()

    assert are_apart(plan_sessions(every, *here))


def test_an_agent_that_leaves_out_old_results_stays_one():
    def leave_out_old(messages: list[Json]) -> list[Json]:
        old = range(len(REMINDERS) + 2, len(messages) - 4, 2)
        return [
            chat_message("user", "Left out.")
            if index in old and message["role"] == "user"
            else message
            for index, message in enumerate(messages)
        ]

    calls = session_messages(REMINDERS, "A", 9)
    one = [planning_request(body(*leave_out_old(call_messages))) for call_messages in calls]

    assert are_apart(plan_sessions([one], process()))
    assert are_apart(plan_sessions([one], *both()))


def test_an_answer_whose_thoughts_are_left_out_later_stays_the_same_ones():
    def thinking(messages: list[Json]) -> list[Json]:
        at = max(at for at, message in enumerate(messages) if message["role"] == "assistant")
        thought = messages[at] | {"reasoning_content": "Let me think."}
        return [*messages[:at], thought, *messages[at + 1 :]]

    first, *others = session_messages(REMINDERS, "A")
    one = [
        planning_request(body(*first)),
        *(planning_request(body(*thinking(other))) for other in others),
    ]

    assert are_apart(plan_sessions([one], process()))


@pytest.mark.slow
def test_items_of_the_responses_api_are_told_apart_too():
    def as_responses_body(messages: list[Json]) -> bytes:
        items = []
        for message in messages:
            kind = "output_text" if message["role"] == "assistant" else "input_text"
            if message["role"] == "assistant":
                items.append(
                    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}
                )
            items.append(message | {"content": [{"type": kind, "text": message["content"]}]})
        return orjson.dumps({"model": "any", "input": items, "store": False})

    every = [
        [
            planning_request(as_responses_body(message))
            for message in session_messages(
                [*REMINDERS, chat_message("user", f"Session {n}")], str(n)
            )
        ]
        for n in range(MANY)
    ]

    assert are_apart(plan_sessions(every, process()))


def test_a_shortened_conversation_stays_the_one_that_its_caller_sees():
    here, calls = process(), session_messages(REMINDERS, "A", 9)
    before = [here.plan_and_settle(planning_request(body(*call))) for call in calls[:5]]
    after = [here.plan_and_settle(compacted_call(call)) for call in calls[5:8]]
    last = here.plan_and_settle(planning_request(body(*calls[8])))

    assert len(names([*before, *after, last])) == 1


def compacted_call(messages: list[Json]) -> PlanningRequest:
    """The call as it is sent once the gateway has shortened it."""
    came = tuple(map(orjson.dumps, messages))
    turns = sum(message["role"] == "assistant" for message in messages)
    short = body(SYSTEM, chat_message("user", "In short: A."), messages[-1])
    return planning_request(short, origin=UncompactedConversation(messages=came, turns=turns))
