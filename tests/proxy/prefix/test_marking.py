"""A call gets as many marks as pay their surcharge."""

from proxy.prefix.arrangement import arrange_prompt
from proxy.prefix.breakpoints.plan import BreakpointPolicy, Plan
from proxy.prefix.breakpoints.policies import fixed_marks
from proxy.prefix.marking import CallToMark, affordable_variant, with_cache_key
from tests.proxy.prefix.planning_requests import (
    NOW,
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    planning_request,
    tool,
)

CLAUDE = TARGETS["anthropic-breakpoint"]


def call_to_mark(
    process: PlanningProcess, plan: Plan | None = None, **fields: object
) -> CallToMark:
    """A first call of a long system text, in order and unmarked."""
    raw = body(*conversation_messages(0, RULES * 3, f"{RULES} Where is my parcel?"), **fields)
    draft = process.planner.read_call(planning_request(raw))
    arranged = arrange_prompt(draft, plan or Plan(), None, late=False)
    indexes = process.planner.memory.of(draft.request.team, NOW)
    return CallToMark.begin(indexes, draft, process.to, arranged, NOW)


def marks_sent(call: CallToMark) -> int:
    policy = fixed_marks(CLAUDE.regime, call.key_policy(), left_out=0, explicit=False)
    variant, trial = affordable_variant(call, policy)
    assert trial is not None
    assert trial.is_live == (variant.evidence.sent.marks == trial.sent.marks)
    assert bool(trial.number) == bool(variant.evidence.sent.marks)
    return len(variant.evidence.sent.marks)


def test_every_place_that_is_there_is_marked_at_first():
    assert marks_sent(call_to_mark(PlanningProcess(CLAUDE))) == 2


def earn(call: CallToMark, share: float) -> None:
    """Let the call's feature have earned a part of what the call costs, and nothing be staked."""
    assert CLAUDE.rates is not None
    cost = call.alike.estimate * float(CLAUDE.rates.input or 0)
    account = call.indexes.stakes._account_of(call.place)
    account.of(call.place.family).net = account.of(call.place.family).balance = share * cost


def test_the_conversation_goes_unmarked_where_only_what_stands_before_it_is_paid_for():
    call = call_to_mark(PlanningProcess(CLAUDE, stake=0.0))
    earn(call, 0.2)

    assert marks_sent(call) == 1


def test_the_tools_alone_are_marked_where_nothing_longer_is_paid_for():
    tools = [tool("find", description=RULES)]
    call = call_to_mark(PlanningProcess(CLAUDE, stake=0.0), tools=tools)
    earn(call, 0.1)
    policy = fixed_marks(CLAUDE.regime, call.key_policy(), left_out=0)
    variant, trial = affordable_variant(call, policy)

    assert list(variant.evidence.sent.marks) == [0]
    assert trial is not None
    assert len(trial.sent.marks) == 3


def test_no_mark_is_placed_once_the_stake_is_lost():
    process = PlanningProcess(CLAUDE, stake=1.0)
    call = call_to_mark(process)
    account = call.indexes.stakes._account_of(call.place)
    account.of(call.place.family).record_call(1e6, -1e15)

    assert marks_sent(call) == 0


def test_the_key_of_a_conversation_is_decided_once():
    process = PlanningProcess(TARGETS["block-chain"])
    call, own = with_cache_key(call_to_mark(process))
    again, same = with_cache_key(call)

    assert again is call
    assert same == own
    stored_plan = Plan(
        policies={name: BreakpointPolicy(key="kept") for name in call.found.plan.policies}
    )
    assert with_cache_key(call_to_mark(process, stored_plan))[1].key == "kept"
