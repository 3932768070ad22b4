import random

from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.similarity.verifier import untrained_verifier


def test_untrained_verifier_takes_no_side():
    assert untrained_verifier(3).probability((1.0, 0.5, 0.5)) == 0.5


def test_verifier_learns_what_makes_answers_right():
    dice = random.Random(5)  # noqa: S311 # no secret
    verifier = untrained_verifier(3)
    for _ in range(1_500):
        measures = (1.0, dice.random(), dice.random())
        verifier.learn(measures, was_right=dice.random() < measures[1])

    assert verifier.probability((1.0, 0.9, 0.5)) > 0.7
    assert verifier.probability((1.0, 0.1, 0.5)) < 0.3
    assert abs(verifier.weights[2]) < 1.0


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1), st.booleans()), max_size=60),
    st.tuples(st.floats(0, 1), st.floats(-1, 1)),
)
def test_probability_stays_within_its_range(pairs, asked):
    verifier = untrained_verifier(3)
    for one, other, was_right in pairs:
        verifier.learn((1.0, one, other), was_right=was_right)

    assert 0.0 <= verifier.probability((1.0, *asked)) <= 1.0
    assert all(verifier.covariance[place][place] > 0 for place in range(3))
