"""Plans of conversations, and their experiment arms."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.plan import (
    SEVERAL,
    BreakpointPolicy,
    ExperimentArm,
    Plan,
    assign_arm,
    fork_plan,
    merge_plans,
    shared_policy,
)
from tests.cache_bounds import remembers_latest

NAMES = st.sampled_from("abcdef")
PLANS = st.builds(
    Plan,
    arm=st.sampled_from(ExperimentArm),
    layout=st.integers(0, 3),
    tools=st.lists(NAMES, unique=True).map(tuple),
    policies=st.dictionaries(NAMES, st.builds(BreakpointPolicy, key=NAMES)),
    joined=st.booleans(),
)
SHARES = st.floats(0, 1)


def test_an_empty_plan_marks_and_moves_nothing():
    plan = Plan()

    assert plan.arm is ExperimentArm.TREATED
    assert (plan.layout, plan.tools, plan.policies) == (0, (), {})
    assert not any(msgspec.structs.astuple(BreakpointPolicy()))


def test_a_plan_comes_back_from_json_as_it_was():
    plan = Plan(
        arm=ExperimentArm.CONTROL,
        layout=3,
        tools=("ab", "cd"),
        policies={
            "openai-breakpoint/openai": BreakpointPolicy(
                ttl="30m", places=3, explicit=True, key="k"
            )
        },
    )

    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_two_plans_share_no_policies():
    assert Plan().policies is not Plan().policies


@given(PLANS, PLANS, PLANS)
def test_merging_plans_keeps_sent_tools_in_their_place(plan: Plan, more: Plan, last: Plan) -> None:
    grown = merge_plans(plan, more)

    assert grown.tools[: len(plan.tools)] == plan.tools
    assert set(grown.tools) == {*plan.tools, *more.tools}
    assert grown.policies == more.policies | plan.policies
    assert (grown.arm, grown.layout, grown.joined) == (plan.arm, plan.layout, plan.joined)
    assert merge_plans(grown, more) == grown
    assert merge_plans(merge_plans(plan, more), last).tools[: len(grown.tools)] == grown.tools


def test_tools_and_caches_beyond_their_bounds_are_left_out():
    flood = Plan(
        tools=tuple(f"t{n}" for n in range(5000)),
        policies={f"regime/{n}": BreakpointPolicy() for n in range(500)},
    )
    grown = merge_plans(
        Plan(tools=("t7",), policies={"regime/7": BreakpointPolicy(key="k")}), flood
    )

    assert grown.tools == ("t7", *(f"t{n}" for n in range(1024) if n != 7))
    assert list(grown.policies)[:3] == ["regime/7", "regime/0", "regime/1"]
    assert (len(grown.policies), grown.policies["regime/7"].key) == (64, "k")


@pytest.mark.parametrize("layout", [3, 1, 0])
def test_layout_that_replaced_another_goes_before_it_in_every_process(layout):
    stored_plan = Plan(layout=2, tools=("t1",))
    renewed = stored_plan.with_layout(layout)

    assert (renewed.layout, renewed.replaced) == (layout, 1)
    assert merge_plans(stored_plan, renewed) == merge_plans(renewed, stored_plan) == renewed


def test_of_two_layouts_that_replaced_one_at_once_the_first_holds():
    first, second = (Plan(layout=2).with_layout(layout) for layout in (3, 1))

    assert merge_plans(first, second) == first


def test_layout_that_replaced_none_does_not_go_before_another():
    stored_plan = Plan(layout=2)

    assert merge_plans(stored_plan, Plan(layout=3)) == stored_plan


def test_of_two_plans_the_first_continuation_holds():
    one, other = Plan(onward=("a", "b")), Plan(onward=("c", "d"))

    assert merge_plans(Plan(), one) == merge_plans(one, other) == merge_plans(one, Plan()) == one


def test_a_reference_to_two_plans_refers_to_none():
    one, other = Plan(conversation="a"), Plan(conversation="b")

    assert merge_plans(one, one) == one
    assert (
        merge_plans(one, other)
        == merge_plans(Plan(conversation=SEVERAL), one)
        == Plan(conversation=SEVERAL)
    )
    assert merge_plans(one, Plan(layout=2)) == merge_plans(Plan(layout=2), one) == Plan(layout=2)


def test_a_fork_keeps_sent_text_and_draws_its_own_arm_where_nothing_moved():
    still = Plan(tools=("a", "b"), policies={"c": BreakpointPolicy(key="k")}, onward=("c", "d"))
    moved = msgspec.structs.replace(still, layout=2)
    control, treated = Plan(arm=ExperimentArm.CONTROL), ExperimentArm.TREATED

    assert fork_plan(still, treated, ("a", "b")) == msgspec.structs.replace(still, onward=())
    assert fork_plan(still, ExperimentArm.CONTROL, ("a", "b", "new")) == Plan(
        arm=ExperimentArm.CONTROL, joined=True
    )
    assert fork_plan(still, ExperimentArm.CONTROL, ("b", "a")).arm is treated
    assert fork_plan(moved, ExperimentArm.CONTROL, ("a", "b")) == msgspec.structs.replace(
        moved, onward=()
    )
    assert fork_plan(control, treated, ()) == Plan(joined=True)


@given(st.binary(max_size=40))
def test_control_shares_of_zero_and_one_put_none_or_all_into_the_control_arm(conversation):
    assert assign_arm(conversation, 0.0) is ExperimentArm.TREATED
    assert assign_arm(conversation, 1.0) is ExperimentArm.CONTROL


@given(st.binary(max_size=40), SHARES, SHARES)
def test_a_larger_share_takes_nobody_out_of_the_control_arm(conversation, one, other):
    if assign_arm(conversation, min(one, other)) is ExperimentArm.CONTROL:
        assert assign_arm(conversation, max(one, other)) is ExperimentArm.CONTROL


def test_the_control_arm_gets_about_its_share_of_conversations():
    left = [assign_arm(n.to_bytes(16, "big"), 0.05) is ExperimentArm.CONTROL for n in range(20_000)]

    assert 900 < sum(left) < 1_100


def test_an_arm_is_the_same_in_every_version():
    drawn = [
        n for n in range(100) if assign_arm(n.to_bytes(16, "big"), 0.05) is ExperimentArm.CONTROL
    ]

    assert drawn == [67, 84, 96]


def test_the_latest_1024_policies_are_one_object_for_equal_ones():
    assert remembers_latest(lambda number: shared_policy(BreakpointPolicy(back=number)), 1_024)
