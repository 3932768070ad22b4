import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tokens.ratios import TokenRatios


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-4o", 1000),
        ("llama-3", 1000),
        ("", 1000),
        ("claude-3-5-sonnet-20241022", 1000),
        ("claude-sonnet-4-20250514", 1000),
        ("claude-sonnet-4-5-20250929", 1000),
        ("claude-opus-4-6", 1000),
        ("claude-opus-4-7", 1300),
        ("claude-opus-4.8", 1300),
        ("claude-fable-5", 1300),
        ("us.anthropic.claude-haiku-5-5-v1:0", 1300),
        ("anthropic/claude-opus-5-5", 1300),
    ],
)
def test_an_untaught_model_counts_as_ours_but_for_newer_claudes(model: str, tokens: int) -> None:
    assert TokenRatios().estimate(model, 1000) == tokens


def test_a_ratio_is_learned_from_what_is_reported() -> None:
    ratios = TokenRatios()
    for _ in range(100):
        ratios.observe("m", 1000, 1200)

    assert ratios.estimate("m", 1000) == pytest.approx(1200, abs=5)
    assert ratios.estimate("another", 1000) == 1000


def test_recent_observations_outweigh_older_ones() -> None:
    ratios = TokenRatios()
    for reported in [1200] * 300 + [900] * 300:
        ratios.observe("m", 1000, reported)

    assert ratios.estimate("m", 1000) == pytest.approx(900, abs=5)


def test_token_ratio_changes_little_by_one_observation_far_off() -> None:
    ratios = TokenRatios()
    for _ in range(100):
        ratios.observe("m", 1000, 1000)
    ratios.observe("m", 1000, 10**9)

    assert ratios.estimate("m", 1000) < 1100


@pytest.mark.parametrize(("counted", "reported"), [(0, 10), (10, 0), (-1, 5), (5, -1)])
def test_a_call_without_tokens_teaches_nothing(counted: int, reported: int) -> None:
    ratios = TokenRatios()
    ratios.observe("m", counted, reported)

    assert ratios.estimate("m", 1000) == 1000


def test_only_so_many_models_are_remembered() -> None:
    ratios = TokenRatios(models=2)
    for model in ("a", "b", "a", "c"):
        ratios.observe(model, 100_000, 200_000)

    assert ratios.estimate("b", 1000) == 1000
    assert ratios.estimate("a", 1000) > 1900
    assert len(ratios._sums) == 2


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**7)), max_size=30))
def test_an_estimate_stays_between_the_bounds(calls: list[tuple[int, int]]) -> None:
    ratios = TokenRatios()
    for counted, reported in calls:
        ratios.observe("m", counted, reported)

    assert 249 <= ratios.estimate("m", 1000) <= 4001
