"""Tests of what keeps teams out of each other's caches."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.entries import Route, Upstream
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.providers.cache_isolation import add_cache_salt, isolate_cache
from tests.fakes.call_dependencies import KEY, call, route

ONE, TWO = "1" * 32, "2" * 32
CHAT = "chat/completions"
KINDS = [
    ("openai-breakpoint", "openai", "prompt_cache_key"),
    ("openai-interval", "openai", "prompt_cache_key"),
    ("", "openai", "prompt_cache_key"),
    ("openai-breakpoint", "azure", "prompt_cache_key"),
    ("openai-interval", "azure", "prompt_cache_key"),
    ("openai-breakpoint", "", "prompt_cache_key"),
    ("block-chain", "", "cache_salt"),
    ("block-chain", "vllm", "cache_salt"),
    ("implicit", "sglang", "cache_salt"),
    ("block-chain", "tensorrt-llm", "cache_salt"),
]
NONE = [
    ("anthropic-breakpoint", "bedrock"),
    ("block-chain", "xai"),
    ("implicit", "google"),
    ("implicit", "groq"),
    ("prefix-unit", "deepseek"),
    ("", ""),
    ("", "azure"),
]


def to(regime: str, provider: str, *, shares_cache: bool = False) -> Route:
    there = Upstream(
        name="up",
        kind="openai",
        base_url="http://up/v1",
        provider=provider,
        shares_cache=shares_cache,
    )
    return route("up", upstream=there, regime=regime)


def fields(there: Route, salt: str, endpoint: str = CHAT, **body: Any) -> dict[str, Any]:
    isolation = isolate_cache(orjson.dumps(body), endpoint, there, salt)
    return {name: orjson.loads(raw) for name, raw in isolation.fields.items()}


@pytest.mark.parametrize(("regime", "provider", "field"), KINDS)
def test_a_call_that_says_nothing_says_whose_it_is(regime: str, provider: str, field: str):
    there = to(regime, provider)

    assert fields(there, ONE) == {field: ONE}
    for nothing in (b"null", b'""'):
        isolation = isolate_cache(b'{"' + field.encode() + b'":' + nothing + b"}", CHAT, there, ONE)
        assert isolation.fields == {field: orjson.dumps(ONE)}


@pytest.mark.parametrize(("regime", "provider", "field"), KINDS)
def test_a_key_of_the_callers_parts_its_own_cache_and_no_others(
    regime: str, provider: str, field: str
):
    there = to(regime, provider)
    mine, same, other, theirs = (
        fields(there, salt, **{field: own_key})[field]
        for salt, own_key in ((ONE, "k"), (ONE, "k"), (ONE, "j"), (TWO, "k"))
    )

    assert mine == same
    assert len({mine, other, theirs, ONE, TWO}) == 5


@pytest.mark.parametrize(("regime", "provider", "field"), KINDS)
def test_where_teams_may_share_a_cache_a_call_says_only_what_its_caller_did(
    regime: str, provider: str, field: str
):
    there = to(regime, provider, shares_cache=True)

    assert fields(there, ONE) == fields(there, ONE, **{field: "k"}) == {}


@pytest.mark.parametrize(("regime", "provider"), NONE)
def test_where_a_cache_cannot_be_parted_nothing_is_said(regime: str, provider: str):
    isolation = isolate_cache(
        b'{"prompt_cache_key":"k","cache_salt":"s"}', CHAT, to(regime, provider), ONE
    )

    assert (isolation.fields, isolation.headers) == ({}, {})


@pytest.mark.parametrize(("regime", "provider", "field"), KINDS)
def test_with_one_team_nothing_is_said(regime: str, provider: str, field: str):
    assert fields(to(regime, provider), "", **{field: "k"}) == {}


@pytest.mark.parametrize(
    ("provider", "endpoint", "is_said"),
    [
        ("openai", "responses", True),
        ("openai", "responses/compact", True),
        ("openai", "completions", False),
        ("openai", "embeddings", False),
        ("vllm", "completions", True),
        ("vllm", "responses", True),
        ("vllm", "rerank", False),
        ("tensorrt-llm", "completions", False),
        ("tensorrt-llm", "responses", False),
    ],
)
def test_a_cache_key_is_sent_to_endpoints_that_know_it(
    provider: str, endpoint: str, *, is_said: bool
):
    assert bool(fields(to("", provider), ONE, endpoint)) is is_said


def test_mistral_shares_nothing_without_a_key():
    there = to("block-chain", "mistral")

    assert fields(there, ONE) == {}
    assert fields(there, ONE, prompt_cache_key="k") != fields(there, TWO, prompt_cache_key="k")


def test_fireworks_reads_a_header():
    there = to("implicit", "fireworks")
    alone = isolate_cache(b"{}", CHAT, there, ONE)
    keyed = isolate_cache(b'{"prompt_cache_isolation_key":"k"}', CHAT, there, ONE)
    value = keyed.headers["x-prompt-cache-isolation-key"]

    assert (alone.fields, alone.headers) == ({}, {"x-prompt-cache-isolation-key": ONE})
    assert keyed.fields == {"prompt_cache_isolation_key": orjson.dumps(value)}
    assert value != ONE


def test_a_key_that_is_said_twice_is_said_once_and_hashed():
    there = to("openai-breakpoint", "openai")
    twice = b'{"prompt_cache_key":"k","prompt_cache\\u005fkey":"' + TWO.encode() + b'"}'

    assert isolate_cache(twice, CHAT, there, ONE).fields["prompt_cache_key"] != orjson.dumps(TWO)


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_key_leads_into_another_teams_cache(mine: str, theirs: str):
    there = to("openai-breakpoint", "openai")

    assert fields(there, ONE, prompt_cache_key=mine) != fields(there, TWO, prompt_cache_key=theirs)


def test_each_of_several_teams_gets_a_salt_of_its_own():
    seal = Pseudonymizer(b"secret")
    mine = call(b"{}")
    theirs = call(b"{}", key=msgspec.structs.replace(KEY, team="team_2"))
    salts = [add_cache_salt(team_call, 2, seal).salt for team_call in (mine, mine, theirs)]

    assert salts[0] == salts[1] != salts[2]
    assert {len(salt) for salt in salts} == {32}


@pytest.mark.parametrize("teams", [0, 1])
def test_call_of_the_only_team_gets_no_salt(teams):
    mine = call(b"{}")

    assert add_cache_salt(mine, teams, Pseudonymizer(b"secret")) is mine
