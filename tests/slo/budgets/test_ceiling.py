import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.ceiling import (
    CallFits,
    Ceiling,
    CeilingDecision,
    CeilingExceeded,
    CeilingRefused,
    CeilingStep,
    CheaperModel,
    ClampRange,
    CostPrediction,
    ModelCost,
    OutputClamped,
    PredictionAccuracy,
    decide_ceiling,
    least_output_tokens,
)

CLAMP, CHEAPER, REFUSE = CeilingStep


def ceiling(limit: int, *steps: CeilingStep, cheaper: tuple[str, ...] = ()) -> Ceiling:
    return Ceiling(name="c", limit=limit, on_exceed=steps, cheaper=cheaper)


def offer(sure: int, per_token: int, max_tokens: int, fewest: int = 1) -> ModelCost:
    """A call of which each token costs the same."""

    def price(tokens: int) -> int:
        return sure + per_token * tokens

    predicted = CostPrediction(sure=sure, likely=sure, worst=price(max_tokens))
    return ModelCost(
        predicted=predicted, clamp=ClampRange(most=max_tokens, least=fewest, price=price)
    )


def nowhere(name: str) -> ModelCost | None:
    raise AssertionError(name)


def test_a_call_within_its_ceiling_goes_unmodified():
    assert decide_ceiling(ceiling(100, CLAMP), offer(0, 1, 100), nowhere) == CallFits()


def test_a_clamp_is_as_high_as_the_ceiling_allows():
    assert decide_ceiling(ceiling(100, *CeilingStep), offer(11, 3, 100), nowhere) == OutputClamped(
        29
    )


def test_a_clamp_that_would_cut_what_answers_need_is_not_made():
    assert (
        decide_ceiling(ceiling(100, CLAMP, REFUSE), offer(11, 3, 100, fewest=30), nowhere)
        == CeilingRefused()
    )


def test_a_call_without_an_output_limit_is_not_clamped():
    cost = ModelCost(predicted=CostPrediction(sure=1, likely=2, worst=200))

    assert decide_ceiling(ceiling(100, CLAMP), cost, nowhere) == CeilingExceeded()


def test_the_first_model_on_which_it_fits_is_taken():
    offers = {"a": None, "b": offer(0, 9, 100, fewest=50), "c": offer(0, 1, 100)}
    policy = ceiling(100, CHEAPER, cheaper=("a", "b", "c", "d"))

    assert decide_ceiling(policy, offer(101, 1, 1), offers.__getitem__) == CheaperModel("c")


def test_a_model_on_which_it_fits_once_clamped_will_do_where_clamps_are_made():
    offers = {"a": offer(0, 9, 100, fewest=5)}
    dear = offer(101, 1, 1)

    def under(*steps: CeilingStep) -> CeilingDecision:
        return decide_ceiling(ceiling(100, *steps, cheaper=("a",)), dear, offers.get)

    assert under(CLAMP, CHEAPER) == CheaperModel("a")
    assert under(CHEAPER, REFUSE) == CeilingRefused()


def test_a_call_does_not_go_round_in_circles():
    offers = {"a": offer(0, 1, 1), "b": offer(0, 1, 1)}
    policy = ceiling(100, CHEAPER, cheaper=("a", "b"))

    assert decide_ceiling(policy, offer(101, 1, 1), offers.get, "a") == CheaperModel("b")
    assert decide_ceiling(policy, offer(101, 1, 1), offers.get, "b") == CeilingExceeded()


def test_steps_are_taken_in_their_order():
    offers = {"a": offer(0, 1, 1)}
    policy = ceiling(50, CHEAPER, CLAMP, REFUSE, cheaper=("a",))

    assert decide_ceiling(policy, offer(0, 1, 100), offers.get) == CheaperModel("a")


@pytest.mark.parametrize(
    ("steps", "decision"),
    [((), CeilingExceeded()), ((CLAMP,), CeilingExceeded()), ((REFUSE,), CeilingRefused())],
)
def test_at_an_unknown_price_it_fits_nowhere(steps, decision):
    assert decide_ceiling(ceiling(100, *steps), None, nowhere) == decision


@pytest.mark.parametrize(
    ("requested_tokens", "usual", "choices", "needs", "fewest"),
    [
        (4096, None, 1, 1, 256),
        (1024, None, 3, 1, 256),
        (1001, None, 3, 1, 251),
        (0, None, 1, 1, 256),
        (0, None, 1, 300, 300),
        (4096, 250, 1, 1, 250),
        (4096, 250, 3, 1, 84),
        (4096, 250, 1, 2049, 2049),
        (0, 0, 1, 0, 1),
    ],
)
def test_a_call_keeps_what_its_answers_mostly_need(requested_tokens, usual, choices, needs, fewest):
    assert least_output_tokens(requested_tokens, usual, choices, needs) == fewest


@pytest.mark.parametrize(
    ("team", "feature", "of", "is_meant"),
    [
        ("*", "*", ("a", ""), True),
        ("a", "*", ("a", "x"), True),
        ("a", "*", ("b", "x"), False),
        ("*", "x", ("b", "x"), True),
        ("*", "", ("b", ""), True),
        ("*", "", ("b", "x"), False),
    ],
)
def test_a_ceiling_is_for_some_calls(team, feature, of, is_meant):
    policy = Ceiling(name="c", team=team, feature=feature, limit=1)

    assert policy.applies(*of) is is_meant


COSTS = st.integers(0, 10**12)
TOKENS = st.integers(0, 200_000)
OFFERS = st.builds(offer, COSTS, st.integers(0, 10**6), TOKENS, st.integers(1, 200_000))
STEPS = st.lists(st.sampled_from(CeilingStep), unique=True, max_size=3).map(tuple)
MODELS = st.lists(st.one_of(st.none(), OFFERS), max_size=3)


@given(OFFERS, st.integers(1, 10**13))
def test_a_clamp_fits_and_one_token_more_would_not(model_cost, limit):
    decision = decide_ceiling(ceiling(limit, CLAMP), model_cost, nowhere)

    if isinstance(decision, OutputClamped):
        clamp = model_cost.clamp
        assert clamp is not None
        assert clamp.least <= decision.tokens < clamp.most
        assert clamp.price(decision.tokens) <= limit < clamp.price(decision.tokens + 1)


@given(OFFERS, MODELS, STEPS, st.integers(1, 10**13), st.integers(0, 10**13))
def test_a_higher_ceiling_never_makes_a_decision_worse(model_cost, models, steps, limit, more):
    names = tuple(map(str, range(len(models))))
    offers = dict(zip(names, models, strict=True))

    def fitting_tokens(limit: int) -> tuple[int, int]:
        """Return how bad the decision is: by its step, then by how much it takes away."""
        decision = decide_ceiling(ceiling(limit, *steps, cheaper=names), model_cost, offers.get)
        if isinstance(decision, OutputClamped):
            return steps.index(CLAMP), -decision.tokens
        if isinstance(decision, CheaperModel):
            return steps.index(CHEAPER), int(decision.model)
        return (-1 if isinstance(decision, CallFits) else 3), 0

    if REFUSE in steps[:-1]:
        steps = steps[: steps.index(REFUSE) + 1]
    assert fitting_tokens(limit + more) <= fitting_tokens(limit)


def test_of_no_calls_nothing_is_said():
    accuracy = PredictionAccuracy()

    assert (accuracy.calls, accuracy.within) == (0, 0)
    assert accuracy.error_quantile(0.95) is None


def test_the_share_is_of_calls_whose_cost_is_known():
    accuracy = PredictionAccuracy()
    for settled in (1, 10, 11, None):
        accuracy.record(settled, 5, 10)

    assert (accuracy.calls, accuracy.within, accuracy.unpriced) == (3, 2, 1)


def test_errors_are_settled_over_predicted():
    accuracy = PredictionAccuracy()
    for settled in range(1, 101):
        accuracy.record(settled, 100, 1000)

    assert accuracy.error_quantile(0.5) == pytest.approx(0.5, rel=0.03)
    assert accuracy.error_quantile(0.99) == pytest.approx(0.99, rel=0.03)


@pytest.mark.parametrize("predicted", [0, None])
def test_a_cost_without_a_prediction_has_no_error(predicted):
    accuracy = PredictionAccuracy()
    accuracy.record(5, predicted, 10)

    assert accuracy.within == accuracy.calls == 1
    assert accuracy.error_quantile(0.5) is None


def test_late_errors_outweigh_early_ones():
    accuracy = PredictionAccuracy()
    for _ in range(10_000):
        accuracy.record(1, 1, 1)
    for _ in range(10_000):
        accuracy.record(4, 1, 1)

    assert accuracy.error_quantile(0.5) == pytest.approx(4, rel=0.03)
    assert accuracy.calls == 20_000


def test_errors_count_half_after_4096_of_them():
    accuracy = PredictionAccuracy()
    for settled in [1] * 4_096 + [4] * 2_000:
        accuracy.record(settled, 1, 1)
    assert accuracy.error_quantile(0.5) == pytest.approx(1, rel=0.03)

    for _ in range(95):
        accuracy.record(4, 1, 1)

    assert accuracy.error_quantile(0.5) == pytest.approx(4, rel=0.03)
