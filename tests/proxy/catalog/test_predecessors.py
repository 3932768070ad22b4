"""Lines of models, and which member is the one before."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.entries import Model
from proxy.catalog.predecessors import find_predecessors
from tests.fakes.call_dependencies import route

SOLD = route("openai")
UNPRICED = replace(SOLD, tariff=None)


def assumed_price(name: str, *listed: str) -> str:
    """The listed model whose price another name is taken to have; "" for none."""
    models = [Model(id=name, routes=(SOLD,)) for name in listed]
    return find_predecessors(models).with_assumed_price(UNPRICED, (name,)).assumed_price_of


@pytest.mark.parametrize(
    ("name", "listed", "before"),
    [
        ("gpt-6.3-sol", ["gpt-6.1-sol", "gpt-6.2-sol", "gpt-6-sol"], "gpt-6.2-sol"),
        ("gpt-6.10-sol", ["gpt-6.9-sol"], "gpt-6.9-sol"),
        ("gpt-7-sol", ["gpt-6.2-sol"], "gpt-6.2-sol"),
        ("claude-opus-6", ["claude-opus-5-5", "claude-opus-5"], "claude-opus-5-5"),
        ("claude-4-haiku", ["claude-3-5-haiku"], "claude-3-5-haiku"),
        ("gemini-3.2-pro", ["gemini-3.1-pro-preview"], "gemini-3.1-pro-preview"),
        ("deepseek-v4.1-pro", ["deepseek-v4-pro"], "deepseek-v4-pro"),
        ("claude-opus-5-6", ["claude-opus-5-5"], "claude-opus-5-5"),
        ("claude-opus-5-5", ["claude-opus-5"], "claude-opus-5"),
        ("gpt-6.2.1-sol", ["gpt-6.2-sol"], "gpt-6.2-sol"),
        ("gpt-5.4-mini", ["gpt-5-mini"], "gpt-5-mini"),
        ("gpt-99.99.99", ["gpt-5.5"], ""),
        ("gpt-99", ["gpt-5.5"], ""),
        ("gpt-6.3-mini", ["gpt-5.4-mini"], ""),
        ("gpt-7.1-sol", ["gpt-6.2-sol"], ""),
        ("gpt-6.3.1-sol", ["gpt-6.2-sol"], ""),
        ("gpt-6.8-sol", ["gpt-6.2-sol"], ""),
        ("claude-opus-55", ["claude-opus-5-5"], ""),
        ("gpt-6.1-sol", ["gpt-6.2-sol"], ""),
        ("gpt-6.2-sol", ["gpt-6.2-sol"], ""),
        ("gpt-6.3-mini", ["gpt-6.2-sol", "gpt-6.2"], ""),
        ("gpt-6.3", ["gpt-6.2-sol"], ""),
        ("gpt-6.3-sol-pro", ["gpt-6.2-sol"], ""),
        ("gpt-5o", ["gpt-4o"], ""),
        ("llama-4-9b", ["llama-3-8b"], ""),
        ("gpt-4-0613", ["gpt-3-0301"], ""),
        ("mistral-large-2612", ["mistral-large-2512"], ""),
        ("gemini-2.5-flash-preview-04-17", ["gemini-2.0-flash"], ""),
        ("", ["gpt-6.2-sol"], ""),
        ("-", ["-"], ""),
    ],
)
def test_only_the_version_before_of_the_same_words_is_a_predecessor(name, listed, before):
    assert assumed_price(name, *listed) == before


def test_models_without_a_price_of_another_provider_or_of_an_own_engine_are_no_predecessors():
    other = replace(SOLD, upstream=replace(SOLD.upstream, provider="other"))
    own = replace(SOLD, upstream=replace(SOLD.upstream, engine="house"))
    for served in (UNPRICED, other, own):
        predecessors = find_predecessors([Model(id="gpt-6.2-sol", routes=(served,))])
        assert predecessors.with_assumed_price(UNPRICED, ("gpt-6.3-sol",)) == UNPRICED


def test_limits_that_a_route_states_are_its_own():
    before = replace(SOLD, window=100, max_output=10)
    predecessors = find_predecessors([Model(id="gpt-6.2-sol", routes=(before,))])

    assumed = predecessors.with_assumed_price(replace(UNPRICED, window=7), ("gpt-6.3-sol",))

    assert (assumed.window, assumed.max_output) == (7, 10)


WORDS = st.lists(
    st.sampled_from(["gpt", "sol", "mini", "pro", "5", "6.1", "v2", "0613"]), max_size=5
)


@given(WORDS.map("-".join), WORDS.map("-".join))
def test_an_assumed_price_is_of_a_name_with_the_same_words(name, listed):
    before = assumed_price(name, listed)

    if before:
        silent = {"5", "6.1", "v2"}
        assert [word for word in name.split("-") if word not in silent] == [
            word for word in before.split("-") if word not in silent
        ]
