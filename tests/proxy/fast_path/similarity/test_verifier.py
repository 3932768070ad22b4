import random

from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.similarity.verifier import untrained_verifier


def test_untrained_verifier_takes_no_side():
    assert untrained_verifier(3).probability((1.0, 0.5, 0.5), "a") == 0.5


def test_verifier_learns_what_makes_answers_right():
    dice = random.Random(5)  # noqa: S311 # no secret
    verifier = untrained_verifier(3)
    for _ in range(1_500):
        measures = (1.0, dice.random(), dice.random())
        verifier.learn(measures, "a", was_right=dice.random() < measures[1])

    assert verifier.probability((1.0, 0.9, 0.5), "a") > 0.7
    assert verifier.probability((1.0, 0.1, 0.5), "a") < 0.3
    assert abs(verifier.weights[2]) < 1.0


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1), st.booleans()), max_size=60),
    st.tuples(st.floats(0, 1), st.floats(-1, 1)),
)
def test_probability_stays_within_its_range(pairs, asked):
    verifier = untrained_verifier(3)
    for one, other, was_right in pairs:
        verifier.learn((1.0, one, other), "a", was_right=was_right)

    assert 0.0 <= verifier.probability((1.0, *asked), "a") <= 1.0
    assert all(verifier.covariance[place][place] > 0 for place in range(3))


def test_answer_that_is_often_mistaken_scores_lower_than_others():
    dice = random.Random(5)  # noqa: S311 # no secret
    verifier = untrained_verifier(2)
    for number in range(600):
        measures, answer = (1.0, dice.random()), ("clear", "mistaken")[number % 2]
        is_right = answer == "clear" or dice.random() < 0.5
        verifier.learn(measures, answer, was_right=is_right)

    assert verifier.score((1.0, 0.5), "clear") > verifier.score((1.0, 0.5), "unseen")
    assert verifier.score((1.0, 0.5), "unseen") > verifier.score((1.0, 0.5), "mistaken")


def test_answers_with_a_weight_of_their_own_are_bounded():
    verifier = untrained_verifier(1)
    for number in range(1_010):
        verifier.learn((1.0,), f"answer {number}", was_right=True)

    assert len(verifier.answers) == 1_000
    assert "answer 9" not in verifier.answers
