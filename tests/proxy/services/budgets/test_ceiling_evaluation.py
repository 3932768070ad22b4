import asyncio

from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.output_limits import output_allowance
from proxy.calls.translation import prepare
from proxy.services.budgets.ceiling_evaluation import Case
from proxy.services.budgets.clamps import clamped
from slo.ceiling import Clamped, Decision, Exceeds, Step
from tests.fakes.ceilinged import DEAR, HALF, WORST, Hall, ceiling
from tests.fakes.limited import BODY


def case(spent: int = 0, body: bytes = BODY) -> Case:
    hall = Hall()
    attempt = hall.attempt(body=body)
    prepared = prepare(attempt.call, DEAR)
    found = Case(attempt, prepared, DEAR, hall.predictor, spent)
    found.learn(asyncio.run(hall.predictor.predicted(attempt, prepared, DEAR, exactly=True)))
    return found


def decided(found: Case, limit: int) -> Decision:
    return found.decided(ceiling(limit, on_exceed=(Step.CLAMP,)), lambda _: True)


def test_what_it_may_cost_is_told_with_what_it_has_cost():
    assert case().worst() == WORST
    assert case(spent=5).worst() == WORST + 5
    assert case(spent=5).likely(500) == HALF + 5


def test_before_anything_is_known_it_has_cost_what_it_has():
    hall = Hall()
    attempt = hall.attempt()
    found = Case(attempt, prepare(attempt.call, DEAR), DEAR, hall.predictor, 7)

    assert (found.worst(), found.likely(), found.total(3)) == (7, None, 3)


def test_why_it_goes_elsewhere_is_told():
    assert case().why(ceiling(HALF)) == (
        "the ceiling c of $0.002011 a call, and it may cost $0.004011"
    )


def test_a_refusal_is_told():
    assert case().refusal(ceiling(HALF), lambda _: True).code == "cost_ceiling"


@given(st.integers(1, 2 * WORST), st.integers(0, WORST), st.integers(1, 5))
def test_what_is_clamped_never_costs_more_than_the_ceiling(limit, spent, choices):
    found = case(spent, BODY.replace(b"}", b',"n":%d}' % choices))
    decision = decided(found, limit)

    if isinstance(decision, Clamped):
        sent = clamped(found.prepared, DEAR, decision.tokens)
        total = output_allowance(sent.body, "chat/completions", DEAR).total
        assert found.worth is not None
        assert total == found.total(decision.tokens)
        assert spent + found.worth.at(total) <= limit
        assert decision.tokens >= 250
    elif isinstance(decision, Exceeds):
        assert found.worth is not None
        assert spent + found.worth.at(250 * choices) > limit
    else:
        assert found.worst() <= limit
