import asyncio

from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.eligibility.output_limits import output_allowance, with_output_limit
from proxy.calls.translation.translation import prepare
from proxy.services.budgets.ceiling_evaluation import CeilingEvaluation
from slo.budgets.ceiling import CeilingDecision, CeilingExceeded, CeilingStep, OutputClamped
from tests.fakes.admission_harness import BODY
from tests.fakes.ceiling_harness import DEAR, HALF, WORST, CeilingHarness, ceiling


def case(spent: int = 0, body: bytes = BODY) -> CeilingEvaluation:
    harness = CeilingHarness()
    attempt = harness.attempt(body=body)
    prepared = prepare(attempt.call, DEAR)
    evaluation = CeilingEvaluation(attempt, prepared, DEAR, harness.predictor, spent)
    evaluation.learn(asyncio.run(harness.predictor.predict(attempt, prepared, DEAR, exactly=True)))
    return evaluation


def decide(evaluation: CeilingEvaluation, limit: int) -> CeilingDecision:
    return evaluation.decide(ceiling(limit, on_exceed=(CeilingStep.CLAMP,)), lambda _: True)


def test_a_ceiling_refusal_names_the_worst_cost_and_the_cost_so_far():
    assert case().worst_cost() == WORST
    assert case(spent=5).worst_cost() == WORST + 5
    assert case(spent=5).likely_cost(500) == HALF + 5


def test_before_anything_is_known_it_has_cost_what_it_has():
    harness = CeilingHarness()
    attempt = harness.attempt()
    evaluation = CeilingEvaluation(attempt, prepare(attempt.call, DEAR), DEAR, harness.predictor, 7)

    assert (evaluation.worst_cost(), evaluation.likely_cost(), evaluation.total_tokens(3)) == (
        7,
        None,
        3,
    )


def test_the_reason_for_a_reroute_is_reported():
    assert case().reroute_reason(ceiling(HALF)) == (
        "the ceiling c of $0.002011 a call, and it may cost $0.004011"
    )


def test_a_refusal_is_reported():
    assert case().refusal(ceiling(HALF), lambda _: True).code == "cost_ceiling"


@given(st.integers(1, 2 * WORST), st.integers(0, WORST), st.integers(1, 5))
def test_a_clamped_call_never_costs_more_than_the_ceiling(limit, spent, choices):
    evaluation = case(spent, BODY.replace(b"}", b',"n":%d}' % choices))
    decision = decide(evaluation, limit)

    if isinstance(decision, OutputClamped):
        clamped = with_output_limit(evaluation.prepared, DEAR, decision.tokens)
        total = output_allowance(clamped.body, "chat/completions", DEAR).total
        assert evaluation.worth is not None
        assert total == evaluation.total_tokens(decision.tokens)
        assert spent + evaluation.worth.cost_with(total) <= limit
        assert decision.tokens >= 250
    elif isinstance(decision, CeilingExceeded):
        assert evaluation.worth is not None
        assert spent + evaluation.worth.cost_with(250 * choices) > limit
    else:
        assert evaluation.worst_cost() <= limit
