import pytest
from hypothesis import given

from slo.objectives.ladder_levels import MAX_LEVELS, effective_ladder, ladder_problem, model_levels
from slo.objectives.objective import Enforce, Objective
from tests.fakes.objectives import objective, objectives


def test_enforce_shed_without_a_ladder_is_a_ladder_of_shed_alone() -> None:
    assert effective_ladder(Enforce.SHED, ()) == ("shed",)
    assert effective_ladder(Enforce.SHED, ("small", "shed")) == ("small", "shed")
    assert effective_ladder(Enforce.DEGRADE, ()) == ()


def test_a_step_that_is_no_keyword_is_a_model() -> None:
    ladder = ("elsewhere", "gpt-small", "Elsewhere", "cache-only", "shed")
    assert model_levels(objective(ladder=ladder)) == ("gpt-small", "Elsewhere")


@pytest.mark.parametrize(
    ("enforce", "ladder", "text"),
    [
        (Enforce.DEGRADE, (), "missing"),
        (Enforce.SHED, (), "missing"),
        (Enforce.SHED, ("small",), "does not end in shed"),
        (Enforce.DEGRADE, tuple(map(str, range(MAX_LEVELS + 1))), "over 8 levels"),
        (Enforce.OBSERVE, ("requested", "small"), "names what is asked for"),
        (Enforce.DEGRADE, ("small", "small"), "twice"),
        (Enforce.DEGRADE, ("small", "elsewhere"), "out of order"),
        (Enforce.DEGRADE, ("shed", "cache-only"), "out of order"),
        (Enforce.DEGRADE, ("cache-only", "small"), "out of order"),
    ],
)
def test_unsound_ladder_is_reported(enforce: Enforce, ladder: tuple[str, ...], text: str) -> None:
    problem = ladder_problem(enforce, ladder)
    assert problem is not None
    assert text in problem[0]


@pytest.mark.slow
@given(objectives())
def test_a_sound_ladder_is_not(drawn: Objective) -> None:
    assert ladder_problem(drawn.enforce, drawn.ladder) is None


def test_a_ladder_without_a_use_yet_may_be_written() -> None:
    assert ladder_problem(Enforce.OBSERVE, ()) is None
    assert ladder_problem(Enforce.OBSERVE, ("elsewhere", "a", "b", "cache-only", "shed")) is None
