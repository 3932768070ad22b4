"""The state that is kept of a conversation from call to call."""

from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.conversations import ConversationState
from proxy.prefix.layouts.agent_shapes import TextSplits
from tests.proxy.prefix.planning_requests import (
    NOW,
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    planning_request,
)

CLAUDE, OPENAI = TARGETS["anthropic-breakpoint"], TARGETS["openai-breakpoint"]
#: Seconds between two calls that one second of a clock may hold.
SOON = 0.3
DAY_S = 86_400.0


def body_with_opening(turns: int, opening: str) -> bytes:
    """A call whose instructions open with the time, or with a mode."""
    rules, *rest = conversation_messages(turns)
    return body({**rules, "content": f"It is {opening}.\n{rules['content']}"}, *rest)


def marked_calls(process: PlanningProcess, *openings: str) -> list[bool]:
    """True for each call of a conversation that is sent with marks, calls coming fast."""
    are_marked = []
    for turn, opening in enumerate(openings):
        process.now += SOON - 10.0
        call = planning_request(body_with_opening(turn, opening))
        are_marked.append(b"cache_control" in process.plan_and_settle(call).body)
    return are_marked


def explicit_calls(*openings: str) -> list[bool]:
    """True for each call that switches OpenAI's own choice of breakpoints off."""
    process = PlanningProcess(OPENAI)
    return [
        process.plan_and_settle(
            planning_request(body_with_opening(turn, opening))
        ).evidence.sent.explicit
        for turn, opening in enumerate(openings)
    ]


def test_a_conversation_that_holds_still_is_marked_however_fast_it_goes():
    assert all(marked_calls(PlanningProcess(CLAUDE), *["noon"] * 8))


def test_two_agents_that_take_turns_are_both_marked_once_the_first_has_read():
    first_one, other, *later = marked_calls(PlanningProcess(CLAUDE), *["one", "two"] * 4)

    assert first_one
    assert not other
    assert all(later)


def test_a_mode_that_changed_after_one_lost_write_is_marked_once_it_was_repeated():
    before, changed, *later = marked_calls(PlanningProcess(CLAUDE), "to plan", *["to act"] * 7)

    assert before
    assert not changed
    assert all(later[3:])


def test_a_conversation_whose_first_words_change_with_each_call_loses_its_marks():
    clock = [f"10:00:{second}" for second in range(10, 40)]

    assert not any(marked_calls(PlanningProcess(CLAUDE), *clock)[1:])


def test_openais_own_choice_is_switched_off_where_no_two_calls_begin_alike():
    clock = [f"10:00:{second}" for second in range(10, 20)]
    stands = [*clock[:5], clock[4], *clock[5:9]]

    assert explicit_calls(*clock) == [False] * 6 + [True] * 4
    assert not any(explicit_calls(*stands))


def test_a_state_remembers_the_latest_calls_only():
    sent = (
        PlanningProcess(CLAUDE).plan(planning_request(body_with_opening(0, "noon"))).evidence.sent
    )
    state = ConversationState()
    for number in range(40):
        state.record_call(sent, NOW + number, tokens=number, turns=number)

    assert (state.calls, state.latest, state.tokens, state.turns) == (40, NOW + 39, 39, 39)
    sizes = [len(entries) for entries in (state.points, state.openings, state.endings)]
    assert sizes == [4, 12, 4]


def test_state_is_weighed_with_the_places_at_which_texts_are_parted() -> None:
    state = ConversationState()
    assert state.size == 2_400

    more = state.adopt_plan(Plan(tools=("a",), splits=(TextSplits(0, 0, tuple(range(100))),)))

    assert more == state.size - 2_400 == 100 + 101 * 36
