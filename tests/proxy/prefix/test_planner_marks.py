"""Places of a conversation that are marked, call by call."""

from proxy.prefix.breakpoints.plan import BreakpointPolicy
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
    tool,
)

ANTHROPIC = TARGETS["anthropic-breakpoint"]


def test_a_feature_that_never_goes_on_is_soon_sent_unmodified():
    process = PlanningProcess(ANTHROPIC)
    for number in range(60):
        process.plan_and_settle(planning_request(body(chat_message("user", f"{number} {RULES}"))))
    planned = process.plan(planning_request(body(chat_message("user", f"last {RULES}"))))

    assert planned.body is planned.draft.request.body


def test_marks_are_no_part_of_a_conversations_plan_but_its_key_is():
    process = PlanningProcess(ANTHROPIC)
    begun, later = (
        process.plan_and_settle(planning_request(body(*conversation_messages(turns))))
        for turns in range(2)
    )

    assert [list(planned.evidence.sent.marks) for planned in (begun, later)] == [[0, 1], [0, 1, 3]]
    assert begun.plan.policies == {"anthropic-breakpoint/": BreakpointPolicy()}
    assert later.plan.policies == begun.plan.policies


def test_a_prompt_sent_again_word_for_word_is_marked_and_read_each_time():
    process = PlanningProcess(ANTHROPIC)
    first_one, second = (
        process.plan_and_settle(planning_request(body(*conversation_messages(0)))) for _ in range(2)
    )

    assert second.body == first_one.body
    assert second.evidence.expected.tokens == second.evidence.sent.estimate


DESK = [tool(name, strict=True, note="n" * 2_000) for name in ("find", "book", "cancel")]


def at_noon(turns: int, call: int, opening: str = "Where is my parcel?", **fields: object) -> bytes:
    """A call whose first line tells the time."""
    return body(
        *conversation_messages(turns, rules=f"Call {call}.\n{RULES}", opening=opening), **fields
    )


def test_a_conversation_whose_first_line_changes_loses_its_marks_and_others_keep_theirs():
    process = PlanningProcess(ANTHROPIC)
    for turns in range(3):
        process.plan_and_settle(
            planning_request(
                body(*conversation_messages(turns, opening="Before?"), tools=[tool("a")])
            )
        )
    changing = [
        process.plan_and_settle(planning_request(at_noon(turns, turns, tools=[tool("a")])))
        for turns in range(24)
    ]
    still = process.plan_and_settle(
        planning_request(body(*conversation_messages(3, opening="Before?"), tools=[tool("a")]))
    )

    assert not any(planned.evidence.sent.marks for planned in changing[16:])
    assert still.evidence.sent.marks


def test_of_first_calls_at_once_that_begin_otherwise_one_is_marked_until_it_is_answered():
    process = PlanningProcess(ANTHROPIC)
    calls = [
        planning_request(at_noon(0, index, f"Order {index}?", tools=[tool("a")]))
        for index in range(3)
    ]
    planned_calls = [process.plan(call) for call in calls]

    assert [b"cache_control" in one.body for one in planned_calls] == [True, False, False]


def test_tools_are_marked_where_the_text_behind_them_changes_with_each_call():
    process = PlanningProcess(ANTHROPIC)
    for number in range(6):
        for turn in range(3):
            raw = at_noon(turn, 3 * number + turn, f"Order {number}?", tools=DESK)
            process.plan_and_settle(planning_request(raw))
    planned = process.plan(planning_request(at_noon(0, 99, "Order 99?", tools=DESK)))

    assert list(planned.evidence.sent.marks) == [2]
    assert planned.evidence.expected.tokens > 1_000


def test_tools_that_are_nearly_all_of_a_prompt_do_not_make_its_conversation_go_on():
    process = PlanningProcess(ANTHROPIC)
    large = [tool(name, note="n" * 99_999) for name in ("find", "book")]
    for number in range(6):
        for turn in range(3):
            raw = at_noon(turn, 3 * number + turn, f"Order {number}?", tools=large)
            process.plan_and_settle(planning_request(raw))
    planned = process.plan(planning_request(at_noon(0, 99, "Order 99?", tools=large)))

    assert list(planned.evidence.sent.marks) == [1]


def test_an_agent_whose_helper_speaks_in_its_conversation_is_marked_all_the_same():
    process = PlanningProcess(ANTHROPIC)
    helper = body(
        chat_message("system", f"You name things.\n{RULES}"), chat_message("user", "A title?")
    )
    process.plan_and_settle(
        planning_request(body(*conversation_messages(0), tools=[tool("a")]), hint="one")
    )
    process.plan_and_settle(planning_request(helper, hint="one"))
    later = process.plan_and_settle(
        planning_request(body(*conversation_messages(1), tools=[tool("a")]), hint="one")
    )

    assert max(later.evidence.sent.marks) == len(later.evidence.sent.blocks) - 1
