"""The state that is kept of a conversation from call to call."""

from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.conversations import ConversationState
from proxy.prefix.layouts.agent_shapes import TextSplits
from proxy.prefix.prediction.sent_call import digest_start
from tests.proxy.prefix.planning_requests import (
    NOW,
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    planning_request,
)

CLAUDE = TARGETS["anthropic-breakpoint"]
#: Seconds between two calls that one second of a clock may hold.
SOON = 0.3
#: How a feature's prompts open that tell the time to the second, ten calls long.
TICKS = [f"10:00:{second}" for second in range(10, 20)]


def body_with_opening(turns: int, opening: str) -> bytes:
    """A call whose instructions open with the time, or with a mode."""
    rules, *rest = conversation_messages(turns)
    return body({**rules, "content": f"It is {opening}.\n{rules['content']}"}, *rest)


def sent_in_turn(process: PlanningProcess, *openings: str, hint: str = "one") -> list[bool]:
    """True if each call of a conversation was marked, calls coming fast."""
    return [sends_mark(process, turn, each, hint) for turn, each in enumerate(openings)]


def sends_mark(process: PlanningProcess, turn: int, opening: str, hint: str) -> bool:
    process.now += SOON - 10.0
    planned = process.plan_and_settle(planning_request(body_with_opening(turn, opening), hint=hint))
    return b"cache_control" in planned.body


def comparable_calls(*openings: str, now: str, moves: bool = True) -> int:
    """Number of of a conversation's latest calls count."""
    process = PlanningProcess(CLAUDE)
    talked, *calls = (
        process.plan(planning_request(body_with_opening(0, each))).evidence.sent
        for each in (now, *openings)
    )
    known = ConversationState()
    for each in calls:
        known.record_call(each, NOW, tokens=10, turns=0)
    return len(known.comparable_starts(digest_start(talked.blocks), moves=moves))


def test_where_prompts_open_with_a_clock_it_may_stand_still():
    process = PlanningProcess(CLAUDE)
    sent_in_turn(process, *TICKS)

    assert not any(sent_in_turn(process, "10:01:00", "10:01:01", "10:01:01", hint="two")[1:])


def test_a_clock_that_stands_still_before_its_feature_is_known_does_no_lasting_harm():
    seconds = ["10:00:00", "10:00:01", "10:00:01", "10:00:02", "10:00:02", "10:00:03"]

    assert sent_in_turn(PlanningProcess(CLAUDE), *seconds)[1:] == [False, True, True, False, False]


def test_a_conversation_that_holds_still_is_marked_however_fast_it_goes():
    first, *later = sent_in_turn(PlanningProcess(CLAUDE), *["noon"] * 6)

    assert not first
    assert all(later)


def test_a_mode_that_changed_once_is_marked_however_fast_it_goes_on():
    marked = sent_in_turn(PlanningProcess(CLAUDE), "to plan", *["to act"] * 8)

    assert marked == [False, False, *[True] * 7]


def test_processes_that_share_plans_mark_alike_however_fast():
    plans: dict[str, bytes] = {}
    both = [PlanningProcess(CLAUDE, plans=plans) for _ in range(2)]
    modes = ["to plan", *["to act"] * 7]
    in_turn = zip([0, 0, 1, 0, 1, 1, 0, 1], enumerate(modes), strict=True)
    marked = []
    for at, (turn, mode) in in_turn:
        both[at].now = NOW + SOON * turn
        marked.append(sends_mark(both[at], turn, mode, "one"))

    assert marked == sent_in_turn(PlanningProcess(CLAUDE), *modes)


def test_a_start_that_came_back_or_held_for_three_calls_is_no_clock():
    assert comparable_calls("one", "two", now="two") == 1
    assert comparable_calls("one", "two", now="two", moves=False) == 2
    assert comparable_calls("one", "two", now="one") == 2
    assert comparable_calls("one", "two", "two", "two", now="two") == 4
    assert comparable_calls("one", "two", now="three") == 2


def test_a_state_remembers_the_latest_calls_only():
    sent = (
        PlanningProcess(CLAUDE).plan(planning_request(body_with_opening(0, "noon"))).evidence.sent
    )
    known = ConversationState()
    for number in range(40):
        known.record_call(sent, NOW + number, tokens=number, turns=number)
        known.record_left_out(number)

    assert (known.calls, known.latest, known.tokens, known.turns) == (40, NOW + 39, 39, 39)
    sizes = [len(each) for each in (known.points, known.openings, known.endings)]
    assert sizes == [4, 12, 4]
    assert known.lefts == (38, 39)


def test_state_is_weighed_with_the_places_at_which_texts_are_parted() -> None:
    state = ConversationState()
    before = state.size

    more = state.adopt_plan(Plan(splits=(TextSplits(0, 0, tuple(range(100))),)))

    assert more == state.size - before >= 3_000
