from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.eligibility import output_limits
from proxy.calls.eligibility.output_limits import (
    LIMIT_FIELDS,
    MAX_CHOICES,
    MAX_OUTPUT_TOKENS,
    OutputAllowance,
    decode_once,
    output_allowance,
    positive_count,
    read_fields,
    with_output_limit,
)
from proxy.catalog.entries import BodyFields
from proxy.providers.port import PreparedRequest
from tests.fakes.call_dependencies import route

THERE = route("gpu")


def allowance(to: str = "chat/completions", **fields: object) -> OutputAllowance:
    return output_allowance(orjson.dumps({"model": "m", **fields}), to, route(max_output=4096))


def test_an_output_limit_is_known_and_lowered_by_the_name_that_its_upstream_has_for_it():
    renames = BodyFields(rename=dict.fromkeys(LIMIT_FIELDS["chat/completions"], "limit"))
    odd = replace(THERE, upstream=replace(THERE.upstream, body_fields=renames))

    def body_with_limit(body: bytes) -> bytes:
        request = PreparedRequest(method="POST", path="/chat/completions", headers={}, body=body)
        return with_output_limit(request, odd, 5).body

    assert output_allowance(b'{"limit":9}', "chat/completions", odd).requested == 9
    assert body_with_limit(b'{"limit":9}') == body_with_limit(b"{}") == b'{"limit":5}'


@pytest.mark.parametrize(
    ("total", "fields"),
    [
        (4096, {}),
        (100, {"max_tokens": 100}),
        (200, {"max_tokens": 100, "max_completion_tokens": 200}),
        (200, {"max_tokens": 200, "max_completion_tokens": 100}),
        (300, {"to": "responses", "max_output_tokens": 300}),
        (4096, {"to": "responses", "max_tokens": 1}),
        (4096, {"max_tokens": 1_000_000}),
        (300, {"max_tokens": 100, "n": 3}),
        (12_800, {"max_tokens": 100, "n": 10**9}),
        (500, {"to": "completions", "max_tokens": 100, "best_of": 5}),
        (16, {"to": "completions"}),
        (300, {"to": "completions", "max_tokens": 100, "prompt": ["a", "b", "c"]}),
        (600, {"to": "completions", "max_tokens": 100, "prompt": ["a", "b", "c"], "n": 2}),
        (200, {"to": "completions", "max_tokens": 100, "prompt": [[1, 2, 3], [4]]}),
        (100, {"to": "completions", "max_tokens": 100, "prompt": [1, 2, 3]}),
        (100, {"to": "completions", "max_tokens": 100, "prompt": "a, b"}),
        (200, {"to": "completions", "max_tokens": 100, "prompt": ['say "a", [b', "c\\"]}),
        (10_000, {"to": "completions", "max_tokens": 1, "prompt": ["a"] * 10_000}),
        (200_000, {"to": "completions", "max_tokens": 1, "prompt": ["a"] * 200_000}),
        (100, {"to": "completions", "max_tokens": 100, "prompt": []}),
        (100, {"max_tokens": 100, "prompt": ["a", "b"]}),
        (2000, {"max_tokens": 100.0, "n": "20"}),
        (2000, {"max_tokens": "100", "n": 19.5}),
        (4096, {"max_tokens": "inf"}),
        (4096, {"max_tokens": "1" * 99}),
        (0, {"to": "embeddings"}),
        (4096, {"max_tokens": "many"}),
        (4096, {"max_tokens": -1}),
        (4096, {"max_tokens": True}),
    ],
)
def test_as_much_may_be_generated_as_the_call_asks_and_the_route_allows(total, fields):
    assert allowance(**fields).total == total


def test_output_limits_are_the_same_for_decoded_and_raw_bodies():
    long = orjson.dumps({"model": "m", "user": "x" * 70_000, "max_tokens": 5})
    other = orjson.dumps({"model": "m", "user": "x" * 70_000, "max_tokens": 6})

    with decode_once(long, long, b"{}"), decode_once(long):
        limits = [
            output_allowance(body, "chat/completions", THERE).requested
            for body in (long, long, other)
        ]

    assert limits == [5, 5, 6]
    assert output_allowance(long, "chat/completions", THERE).requested == 5


def test_a_body_at_hand_is_read_once():
    long = orjson.dumps({"model": "m", "user": "x" * 70_000, "thinking": {"type": "adaptive"}})

    with decode_once(long):
        assert read_fields(long) is read_fields(long)
        with decode_once(long):
            assert read_fields(long) is read_fields(long)
        assert read_fields(long) is read_fields(long)
    assert read_fields(long) is not read_fields(long)
    assert output_limits._decoded_bodies == {}


def test_a_body_that_is_no_json_may_generate_what_the_route_allows():
    assert output_allowance(b"\xff", "chat/completions", route(max_output=7)).total == 7
    assert output_allowance(b"{}", "chat/completions", route()).total == 16_384


def test_a_limit_from_the_caller_is_kept_apart_from_a_default():
    assert (allowance(max_tokens=5).requested, allowance().requested) == (5, 0)


@pytest.mark.parametrize(
    ("to", "fields", "needs"),
    [
        ("messages", {"thinking": {"type": "enabled", "budget_tokens": 2048}}, 2049),
        ("messages", {"thinking": {"type": "adaptive"}}, 1),
        ("messages", {"thinking": {"type": "enabled", "budget_tokens": "x"}}, 1),
        ("messages", {"thinking": [1]}, 1),
        ("responses", {}, 16),
    ],
)
def test_an_output_limit_is_above_what_the_model_is_told_to_think(to, fields, needs):
    assert allowance(to, **fields).minimum == needs


#: JSON of numbers that callers may write, and of what is none.
NUMBERS = (
    st.integers().map(str)
    | st.integers(1, 9_000).map(lambda digits: "9" * digits)
    | st.integers(1, 9_000).map(lambda digits: f"-{'9' * digits}")
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.sampled_from(["1e400", "-1e400", '"1e30"', '"nan"', '"inf"', "null", "true", "[]", "{}"])
    | st.text(max_size=40).map(lambda text: orjson.dumps(text).decode())
)
NAMES = st.sampled_from(
    ["max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "thinking", "seed"]
)
ENDPOINTS = st.sampled_from(
    ["chat/completions", "completions", "responses", "messages", "models/g:generateContent"]
)


def body_with(members: dict[str, str]) -> bytes:
    thinking = members.get("thinking", "0")
    members = members | {"thinking": f'{{"type":"enabled","budget_tokens":{thinking}}}'}
    config = ",".join(
        f'"{name}":{members[field]}'
        for name, field in (("maxOutputTokens", "max_tokens"), ("candidateCount", "n"))
        if field in members
    )
    inner = ",".join(f'"{name}":{number}' for name, number in members.items())
    return f'{{"model":"m",{inner},"generationConfig":{{{config}}}}}'.encode()


@given(
    st.dictionaries(NAMES, NUMBERS),
    ENDPOINTS,
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(1, 10**7),
)
def test_output_allowance_is_within_what_the_model_can_give(
    members: dict[str, str], endpoint: str, max_output: int | None, window: int | None
) -> None:
    there = route(max_output=max_output, window=window)

    allowed = output_allowance(body_with(members), endpoint, there)

    assert 1 <= allowed.per_choice <= (max_output or window or MAX_OUTPUT_TOKENS)
    assert 1 <= allowed.choices <= MAX_CHOICES
    assert 0 <= allowed.requested <= allowed.per_choice
    assert 1 <= allowed.minimum <= max(allowed.per_choice, 16)


@given(st.floats() | st.integers() | st.integers(1, 5_000).map(lambda digits: 10**digits))
def test_any_number_is_a_count_within_bounds(number: Any) -> None:
    assert 0 <= positive_count(number) <= MAX_OUTPUT_TOKENS


def test_a_number_that_no_decoder_takes_hides_no_other_member():
    huge = "9" * 9_000
    body = body_with({"max_completion_tokens": "100", "n": huge})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body)

    allowed = output_allowance(body, "chat/completions", route(max_output=4096))

    assert (allowed.per_choice, allowed.choices) == (100, MAX_CHOICES)


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ({"maxOutputTokens": 100, "candidateCount": 3}, 300),
        ({"candidateCount": 10**9}, MAX_CHOICES * 4096),
        ({}, 4096),
        ([], 4096),
    ],
)
def test_output_limits_of_googles_own_api_are_read(config, total):
    for method in ("generateContent", "streamGenerateContent"):
        to = f"models/g:{method}"
        assert allowance(to, generationConfig=config, max_tokens=1, n=7).total == total
