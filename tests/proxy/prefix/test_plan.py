"""What was decided for a conversation."""

import msgspec

from proxy.prefix.plan import Arm, Plan, Policy


def test_without_a_decision_nothing_is_marked_or_moved():
    plan = Plan()

    assert plan.arm is Arm.TREATED
    assert (plan.layout, plan.tools, plan.policies) == (0, (), {})
    assert not any(msgspec.structs.astuple(Policy()))


def test_a_plan_comes_back_from_json_as_it_was():
    plan = Plan(
        arm=Arm.CONTROL,
        layout=3,
        tools=("ab", "cd"),
        policies={"openai-breakpoint/openai": Policy(stable="30m", explicit=True, key="k")},
    )

    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_two_plans_share_no_policies():
    assert Plan().policies is not Plan().policies
