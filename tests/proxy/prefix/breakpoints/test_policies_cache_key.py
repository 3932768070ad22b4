"""Keys and modes, where a provider looks for them."""

import orjson
import pytest

from proxy.caches.outlook import planning_regime
from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.breakpoints.policies import (
    add_cache_key,
    is_explicit,
    key_headers,
    requested_lifetime,
)
from proxy.prefix.prompts.prompt import Prompt, parse_prompt
from tests.fakes.planned_body_check import assert_nothing_lost

OPENAI = Regime(name="openai-breakpoint", provider="openai", marks=4)
INTERVAL = Regime(name="openai-interval", provider="openai")
MISTRAL = Regime(name="block-chain", provider="mistral")
GROK = Regime(name="block-chain", provider="xai")


def prompt(**fields: object) -> Prompt:
    messages = [{"role": "user", "content": "Hi"}]
    return parse_prompt(orjson.dumps({"model": "m", "messages": messages, **fields}))


WHOLE = prompt(temperature=0)


@pytest.mark.parametrize(
    ("regime", "provider", "is_said"),
    [
        ("openai-breakpoint", "openai", False),
        ("openai-interval", "azure", False),
        ("block-chain", "mistral", True),
        ("implicit", "fireworks", True),
        ("block-chain", "vllm", False),
        ("block-chain", "xai", False),
        ("implicit", "google", False),
        ("anthropic-breakpoint", "anthropic", False),
        ("", "", False),
    ],
)
def test_a_key_goes_where_the_cache_looks_for_it(regime: str, provider: str, *, is_said: bool):
    with_key = add_cache_key(
        WHOLE, BreakpointPolicy(key="k"), Regime(name=regime, provider=provider)
    )

    assert with_key.fields == {**WHOLE.fields, **({"prompt_cache_key": b'"k"'} if is_said else {})}
    assert_nothing_lost(WHOLE.render(), with_key.render())


def test_a_key_may_go_in_a_header():
    assert key_headers(BreakpointPolicy(key="k"), GROK) == {"x-grok-conv-id": "k"}
    assert (
        key_headers(BreakpointPolicy(), GROK)
        == key_headers(BreakpointPolicy(key="k"), OPENAI)
        == {}
    )


def test_explicit_mode_is_said_where_there_is_one():
    policy = BreakpointPolicy(explicit=True)

    assert (
        add_cache_key(WHOLE, policy, OPENAI).fields["prompt_cache_options"]
        == b'{"mode":"explicit"}'
    )
    assert add_cache_key(WHOLE, policy, INTERVAL) is WHOLE
    assert add_cache_key(WHOLE, BreakpointPolicy(), OPENAI) is WHOLE


def test_the_callers_own_key_and_mode_stay():
    policy = BreakpointPolicy(explicit=True, key="ours")
    own = prompt(prompt_cache_options={})
    theirs = prompt(prompt_cache_key="mine")
    old = prompt(prompt_cache_retention="in_memory")

    assert add_cache_key(own, policy, OPENAI) is own
    assert add_cache_key(theirs, policy, MISTRAL) is theirs
    assert "prompt_cache_options" not in add_cache_key(old, policy, OPENAI).fields


def test_a_null_cache_key_from_the_caller_counts_as_none():
    with_key = add_cache_key(prompt(prompt_cache_key=None), BreakpointPolicy(key="k"), MISTRAL)

    assert with_key.fields["prompt_cache_key"] == b'"k"'


def test_xai_looks_for_a_responses_key_in_the_body():
    parsed = parse_prompt(orjson.dumps({"model": "m", "input": "Hi"}))

    assert (
        add_cache_key(parsed, BreakpointPolicy(key="k"), GROK).fields["prompt_cache_key"] == b'"k"'
    )


@pytest.mark.parametrize(
    ("fields", "regime", "explicit"),
    [
        ({}, OPENAI, False),
        ({"prompt_cache_options": {"mode": "explicit"}}, OPENAI, True),
        ({"prompt_cache_options": {"mode": "explicit"}}, INTERVAL, False),
        ({"prompt_cache_options": {"mode": "implicit"}}, OPENAI, False),
        ({"prompt_cache_options": {}}, OPENAI, False),
        ({"prompt_cache_options": "explicit"}, OPENAI, False),
    ],
)
def test_is_explicit_tells_the_mode_that_is_sent(
    fields: dict[str, object], regime: Regime, *, explicit: bool
):
    assert is_explicit(prompt(**fields), regime) is explicit


@pytest.mark.parametrize(
    ("fields", "provider", "ttl"),
    [
        ({}, "openai", ""),
        ({"prompt_cache_options": {"ttl": "12h"}}, "openai", "12h"),
        ({"prompt_cache_options": {"ttl": "12h"}}, "azure", ""),
        ({"prompt_cache_options": {"ttl": "7d"}}, "openai", ""),
        ({"prompt_cache_options": {"ttl": 12}}, "openai", ""),
        ({"prompt_cache_options": "12h"}, "openai", ""),
    ],
)
def test_the_lifetime_asked_for_a_whole_call_counts_where_it_is_sold(
    fields: dict[str, object], provider: str, ttl: str
):
    regime = planning_regime("openai-breakpoint", provider=provider)

    assert requested_lifetime(prompt(**fields), regime) == ttl
    assert requested_lifetime(prompt(**fields), INTERVAL) == ""
