"""Tests of layouts that running conversations take over, or leave."""

import msgspec
import pytest

from proxy.prefix.breakpoints.plan import ExperimentArm, Plan
from proxy.prefix.conversations import ConversationState
from proxy.prefix.guard import CostComparison
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.lessons import LayoutChange
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.mark_account import STAKE_UNITS_PER_DOLLAR
from tests.fakes.handbook import handbook
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    learned_layout,
    planning_request,
)

#: Caches whose minimum these prompts reach.
LONG_ENOUGH = sorted(name for name, target in TARGETS.items() if target.regime.least <= 2_048)


def renewed_layout(
    line: str,
    regime: str = "openai-interval",
    rules: str = RULES,
    control_loss: float = 0.0,
    **changes: object,
) -> int:
    """The layout with which the fourth call of a conversation goes on, begun without one."""
    return renewed_plan(line, regime, rules, control_loss, **changes).layout


def renewed_plan(
    line: str, regime: str, rules: str, control_loss: float, **changes: object
) -> Plan:
    """The same, with its arm, after its feature's control arm lost so much."""
    target = TARGETS[regime]
    clocks = (f"It is 12:{number:02}:07.\n{RULES}" for number in range(12))
    calls = [body(*conversation_messages(0, text, f"I am {text[6:11]}")) for text in clocks]
    layout = learned_layout(target, calls)
    assert layout is not None
    process = PlanningProcess(target)
    for turn in range(4):
        text = f"{line.format(turn)}\n{rules}"
        request = planning_request(body(*conversation_messages(turn, text)))
        if turn < 3:
            planned = process.plan_and_settle(request)
    control = process.planner.memory.of("team_1").unmodified._control(planned.place)
    loss = CostComparison(planned=control_loss * STAKE_UNITS_PER_DOLLAR, direct=0.0)
    control.record_call(loss, is_planned=False)
    draft = process.planner.read_call(request)
    plan = process.planner.known_plan(draft)
    assert plan is not None
    plan = msgspec.structs.replace(plan, **changes)
    change = LayoutChange(None, layout, 7)
    return process.planner.renew_plan(draft, target, plan, change, process.now + 10.0)


@pytest.mark.parametrize("regime", LONG_ENOUGH)
def test_running_conversation_cut_off_by_a_clock_goes_on_with_the_newer_layout(regime):
    assert renewed_layout("It is 12:0{}:07.", regime) == 7


@pytest.mark.parametrize("regime", LONG_ENOUGH)
def test_running_conversation_that_is_warm_keeps_its_layout(regime):
    assert renewed_layout("It is 12:00:07.", regime) == 0


def test_conversation_of_the_control_arm_keeps_no_layout():
    assert renewed_layout("It is 12:0{}:07.", arm=ExperimentArm.CONTROL) == 0


@pytest.mark.parametrize("regime", LONG_ENOUGH)
def test_conversation_of_the_control_arm_takes_the_layout_once_comparing_cost_too_much(regime):
    line, control = "It is 12:0{}:07.", ExperimentArm.CONTROL
    plan = renewed_plan(line, regime, RULES, 0.01, arm=control)

    assert (plan.arm, plan.layout) == (ExperimentArm.RELEASED, 7)
    assert renewed_plan("It is 12:00:07.", regime, RULES, 0.01, arm=control).arm is control


def test_running_conversation_in_which_nothing_moves_keeps_its_layout():
    assert renewed_layout("It is 12:0{}:07.", rules=handbook(20, "other rules")) == 0


def test_conversation_of_which_nothing_was_seen_here_keeps_its_layout():
    """Its provider may hold all of it."""
    target = TARGETS["openai-interval"]
    process = PlanningProcess(target)
    request = planning_request(body(*conversation_messages(3, f"It is 12:01:07.\n{RULES}")))
    draft = process.planner.read_call(request)
    layout = Layout(
        version=7,
        moves=(LayoutMove(before=None, after=None, slot=PromptSlot.SEMI_STABLE, label="all"),),
    )
    change = LayoutChange(None, layout, 7)

    assert process.planner.renew_plan(draft, target, Plan(joined=True), change, 1.0).layout == 0


def left_layout(
    *, lost: float, idle: float = 10.0, regime: str = "openai-interval", version: int = 3
) -> int:
    """The layout with which a warm conversation goes on that has layout 7 where another holds.

    Args:
        lost: Fresh tokens that it lost with its layout.
        idle: Seconds since its latest call.
        regime: Its cache.
        version: Version of the layout that holds, which moves nothing.
    """
    target = TARGETS[regime]
    calls = [
        body(*conversation_messages(0, f"Desk {index}.\n{RULES}", f"{index}?"))
        for index in range(24)
    ]
    layout = learned_layout(target, calls)
    assert layout is not None
    process = PlanningProcess(target, layout=layout)
    for turn in range(3):
        request = planning_request(body(*conversation_messages(turn, f"Desk A.\n{RULES}")))
        process.plan_and_settle(request)
    request = planning_request(body(*conversation_messages(3, f"Desk A.\n{RULES}")))
    draft = process.planner.read_call(request)
    plan = process.planner.known_plan(draft)
    assert plan is not None
    plan = msgspec.structs.replace(plan, layout=7)
    process.planner._indexes_of(draft).states.get_or_make(
        draft.conversation, ConversationState
    ).lost = lost
    change = LayoutChange(layout, None, version)
    return process.planner.renew_plan(draft, target, plan, change, process.now + idle).layout


@pytest.mark.parametrize(("lost", "goes_on_with"), [(-100.0, 7), (0.0, 7), (10_000.0, 3)])
@pytest.mark.parametrize("regime", LONG_ENOUGH)
def test_warm_conversation_leaves_a_rolled_back_layout_once_it_lost_more_than_that_costs(
    regime, lost, goes_on_with
):
    assert left_layout(lost=lost, regime=regime) == goes_on_with


def test_cold_conversation_leaves_a_rolled_back_layout_at_once():
    assert left_layout(lost=-100.0, idle=1e6) == 3


def test_warm_conversation_takes_no_newer_layout_over_however_much_it_lost():
    assert left_layout(lost=10_000.0, version=8) == 7
