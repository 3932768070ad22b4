from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.experiment_arms import assign_arm

SHARES = st.floats(0, 1)


@given(st.binary(max_size=40))
def test_all_or_none_are_left_alone_where_that_is_the_share(conversation):
    assert assign_arm(conversation, 0.0) is ExperimentArm.TREATED
    assert assign_arm(conversation, 1.0) is ExperimentArm.CONTROL


@given(st.binary(max_size=40), SHARES, SHARES)
def test_a_larger_share_takes_nobody_out_of_the_control_arm(conversation, one, other):
    if assign_arm(conversation, min(one, other)) is ExperimentArm.CONTROL:
        assert assign_arm(conversation, max(one, other)) is ExperimentArm.CONTROL


def test_about_the_share_is_left_alone():
    left = [assign_arm(n.to_bytes(16, "big"), 0.05) is ExperimentArm.CONTROL for n in range(20_000)]

    assert 900 < sum(left) < 1_100


def test_an_arm_is_the_same_in_every_version():
    drawn = [
        n for n in range(100) if assign_arm(n.to_bytes(16, "big"), 0.05) is ExperimentArm.CONTROL
    ]

    assert drawn == [67, 84, 96]
