"""Limits of the regimes."""

import pytest

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.caches.regimes import REGIMES
from proxy.tools.replay.line_limits import cache_bounds
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.upstream import cache_of

PROVIDERS = ("", "azure", "groq", "fireworks", "sglang", "llamacpp", "mistral", "xai", "bedrock")


@pytest.mark.parametrize("regime", sorted(REGIMES))
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("least", [None, 100])
def test_no_cache_reads_less_than_its_least_or_between_its_steps(regime, provider, least):
    model = SimulatedModel(regime=regime, provider=provider, min_cache_tokens=least)
    limits = cache_bounds(model)

    for total in (90, 700, 5_000):
        cache = cache_of(model)
        marked = TokenBlock(role="user", tokens=tuple(range(total)), message=0, mark=_mark(regime))
        rest = TokenBlock(role="user", tokens=(7,), message=1)
        prompt = CachedPrompt(blocks=(marked, rest))
        cache.serve(prompt, 0.0)
        cache.begin_answer(prompt, 1.0)
        cache.finish_answer(prompt, (1, 2), 2.0)
        read = cache.serve(prompt, 10.0).read

        assert read % limits.step == 0
        assert read == 0 or read >= limits.least


def _mark(regime: str):
    return {"openai-breakpoint": "30m", "anthropic-breakpoint": "5m"}.get(regime)


def test_a_route_without_a_regime_caches_nothing():
    assert not cache_bounds(SimulatedModel(regime="")).caches


def test_the_models_own_least_goes_before_the_regimes():
    limits = cache_bounds(SimulatedModel(regime="anthropic-breakpoint", min_cache_tokens=512))

    assert limits.least == 512
    assert limits.write == "write_5m"


def test_azure_steps_are_smaller():
    usual = cache_bounds(SimulatedModel(regime="openai-interval"))
    azure = cache_bounds(SimulatedModel(regime="openai-interval", provider="azure"))

    assert (usual.step, azure.step) == (2_048, 128)


def test_only_openais_breakpoints_never_end_an_answer():
    spoken = {regime: cache_bounds(SimulatedModel(regime=regime)).spoken for regime in REGIMES}

    assert [regime for regime, found in spoken.items() if not found] == ["openai-breakpoint"]


def test_only_deepseek_keeps_whole_units_alone():
    found = {regime: cache_bounds(SimulatedModel(regime=regime)) for regime in REGIMES}

    assert [(name, each.build) for name, each in found.items() if each.units] == [
        ("prefix-unit", 2.0)
    ]
