"""The published table of speed-ups, and the batch size where speculation stops paying."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.speculation.formula import (
    ASSUMED_SATURATION_TOKENS,
    CPU_SATURATION_TOKENS,
    break_even_batch,
    saturation_tokens,
    speed_up,
    tokens_per_step,
    verification_cost,
)

RATES = st.floats(0.0, 1.0)
DEPTHS = st.integers(1, 8)


@pytest.mark.parametrize(
    ("rate", "depth", "cost", "published"),
    [(0.5, 3, 0.02, 1.77), (0.7, 5, 0.1, 1.96), (0.8, 7, 0.02, 3.65), (0.9, 1, 0.1, 1.73)],
)
def test_the_speed_up_of_a_single_sequence_is_the_published_one(rate, depth, cost, published):
    assert speed_up(rate, depth, cost, 1, 300) == pytest.approx(published, abs=0.006)


@given(st.floats(0.0, 0.99), DEPTHS)
def test_tokens_of_a_step_follow_the_closed_form(rate, depth):
    closed = (1 - rate ** (depth + 1)) / (1 - rate)

    assert tokens_per_step(rate, depth) == pytest.approx(closed)


@given(RATES, DEPTHS, st.floats(0.0, 0.5), st.integers(1, 400))
def test_the_speed_up_never_grows_with_the_batch(rate, depth, cost, batch):
    now, later = (speed_up(rate, depth, cost, each, 200) for each in (batch, batch + 1))

    assert later <= now + 1e-9


@given(st.floats(0.3, 0.99), DEPTHS, st.floats(0.0, 0.1))
def test_speculation_pays_below_the_break_even_batch_and_not_above(rate, depth, cost):
    batch = break_even_batch(rate, depth, cost, 200)

    if batch is None:
        assert speed_up(rate, depth, cost, 1, 200) <= 1.0 + 1e-9
    else:
        assert speed_up(rate, depth, cost, batch * 0.99, 200) > 1.0
        assert speed_up(rate, depth, cost, batch * 1.01, 200) < 1.0 + 1e-9


def test_verification_is_free_until_a_step_is_full():
    assert verification_cost(3, 1, 200) == 1.0
    assert verification_cost(3, 100, 200) == 2.0
    assert verification_cost(3, 400, 200) == 4.0


def test_saturation_follows_the_gpu_and_is_assumed_where_it_is_not_known():
    assert saturation_tokens("h100", 4) == 295
    assert saturation_tokens("other", 1) == ASSUMED_SATURATION_TOKENS
    assert saturation_tokens("", 0) == CPU_SATURATION_TOKENS


@pytest.mark.parametrize(
    ("weights", "tokens"),
    [
        ("awq", 73),
        ("gptq_marlin", 73),
        (" org/Model-8B-AWQ", 73),
        (" org/model-int4-w4a16", 73),
        ("bitsandbytes", 73),
        ("fp8", 295),
        (" org/Model-4B", 295),
        ("", 295),
    ],
)
def test_weights_of_4_bits_fill_a_step_with_a_quarter_of_the_tokens(weights, tokens):
    assert saturation_tokens("H100", 1, weights) == tokens
