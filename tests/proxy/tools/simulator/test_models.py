"""Tests of what the simulator serves."""

import pytest

from proxy.caches.regimes import REGIMES
from proxy.catalog.entries import TRAITS, Model, Route, Upstream
from proxy.tools.simulator.models import MODELS, of_models, served_name, unknown_model

UPSTREAM = Upstream(name="a", kind="anthropic", base_url="http://a/v1", provider="bedrock")


def test_each_regime_has_a_model_to_meet_it_with() -> None:
    assert {model.regime for model in MODELS.values()} == REGIMES | {""}


def test_traits_are_the_catalogs() -> None:
    assert {trait for model in MODELS.values() for trait in model.traits} <= set(TRAITS)


def test_a_catalogs_model_behaves_as_the_catalog_says() -> None:
    route = Route(
        name="a/m",
        upstream=UPSTREAM,
        model="m-1",
        max_output=77,
        window=9_000,
        regime="anthropic-breakpoint",
        min_cache_tokens=512,
        prompt_cache_retention="24h",
        traits=frozenset({"prefill"}),
    )

    simulated = of_models([Model(id="m", routes=(route,))])["m-1"]

    assert (simulated.wire, simulated.regime, simulated.provider) == (
        "anthropic",
        "anthropic-breakpoint",
        "bedrock",
    )
    assert (simulated.max_output, simulated.min_cache_tokens, simulated.traits) == (
        77,
        512,
        route.traits,
    )
    assert (simulated.window, simulated.prompt_cache_retention) == (9_000, "24h")


def test_the_first_route_decides_and_a_route_without_a_name_takes_the_models() -> None:
    first = Route(name="a/n", upstream=UPSTREAM, max_output=1)
    second = Route(name="b/n", upstream=UPSTREAM, model="n", max_output=2)

    simulated = of_models([Model(id="n", routes=(first, second))])

    assert list(simulated) == ["n"]
    assert (simulated["n"].max_output, simulated["n"].regime) == (1, "")


def test_a_model_of_googles_native_api_is_simulated_in_chats_form() -> None:
    google = Upstream(name="g", kind="gemini", base_url="https://g.test/v1beta")
    simulated = of_models([Model(id="n", routes=(Route(name="g/n", upstream=google),))])

    assert simulated["n"].wire == "openai"


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("gpt-5.5", "gpt-5.5"),
        ("gpt-5.5-2026-09-01", "gpt-5.5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("gpt-5.5-latest", "gpt-5.5"),
        ("gpt-0-2026-09-01", "gpt-0-2026-09-01"),
    ],
)
def test_a_dated_name_means_the_model_of_which_it_is_a_snapshot(name: str, served: str) -> None:
    assert served_name(MODELS, name) == served


@pytest.mark.parametrize(
    ("name", "hint"),
    [("gpt-5.6-lun", "Did you mean gpt-5.6-luna?"), ("claude-haiku-4-6", "claude-haiku-4-5?")],
)
def test_name_that_is_not_simulated_gets_one_that_is_like_it(name: str, hint: str) -> None:
    assert hint in unknown_model(MODELS, name)


def test_name_that_is_like_no_other_gets_no_hint() -> None:
    assert unknown_model(MODELS, "x" * 10_000).endswith("does not exist in this simulator.")
