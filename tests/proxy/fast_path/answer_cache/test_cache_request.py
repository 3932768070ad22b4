"""Keys of calls: equal for equal calls of one feature, different for all others."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.answer_cache.cache_control import CacheControl
from proxy.fast_path.answer_cache.cache_request import CacheRequest, may_be_cached, read_request
from slo.policies.answer_cache import AnswerCachePolicy
from tests.examples import examples
from tests.fakes.call_dependencies import KEY, call, route

REUSABLE = AnswerCachePolicy(name="all", reusable=True)
REPEATED = AnswerCachePolicy(name="repeated")
IGNORING = AnswerCachePolicy(
    name="ignoring",
    reusable=True,
    ignore_fields=(("metadata", "request_id"), ("user",), ("safety_identifier",)),
)
ROUTES = (route(),)
BODY = {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": "Hi"}]}
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.text() | st.sampled_from(["user", "metadata", "n"]), VALUES, max_size=5)


def request(body: Any, policy: AnswerCachePolicy = REUSABLE, **fields: Any) -> CacheRequest | None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_request(call(raw, **{"fields": None, **fields}), policy, ROUTES)


def key(body: Any, policy: AnswerCachePolicy = REUSABLE, **fields: Any) -> str:
    found = request(body, policy, **fields)
    assert found is not None
    return found.key


@examples(60)
@given(BODIES, BODIES)
def test_two_bodies_share_a_key_only_if_they_hold_the_same_json(one, other):
    # As JSON, for True is 1 to Python, and 1.0 is 1.
    is_same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    assert (key(one) == key(other)) is is_same


@examples(40)
@given(BODIES, st.data())
def test_a_change_of_one_value_makes_another_key(body, data):
    name = data.draw(st.sampled_from(sorted(body))) if body else "n"
    changed = {**body, name: [body.get(name)]}

    assert key(changed) != key(body)


@examples(40)
@given(BODIES, VALUES, VALUES)
def test_ignored_fields_alone_make_no_other_key(body, user, request_id):
    metadata = body.get("metadata")
    kept = metadata if isinstance(metadata, dict) else {}
    plain = {**body, "metadata": kept}
    changed = {**plain, "metadata": {**kept, "request_id": request_id}, "user": user}

    assert key(changed, IGNORING) == key(plain, IGNORING)
    assert key(changed) != key(plain) or changed == plain


def test_order_and_spaces_of_a_body_make_no_other_key():
    spaced = json.dumps(dict(reversed(BODY.items())), indent=2).encode()

    assert key(spaced) == key(BODY)
    assert key(b'{"a":"\\u00e9"}') == key('{"a":"é"}'.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"seed":123456789012345678901}', b'{"seed":123456789012345678902}'),
        (b'{"n":1}', b'{"n":1.0}'),
        (b'{"n":1}', b'{"n":true}'),
        (b'{"n":null}', b"{}"),
        (b'{"stream":true}', b'{"stream":false}'),
    ],
)
def test_numbers_and_flags_that_differ_make_other_keys(one, other):
    assert key(one) != key(other)


@pytest.mark.parametrize(
    "fields",
    [
        {"key": msgspec.structs.replace(KEY, team="team_2")},
        {"feature": "other"},
        {"endpoint": "completions"},
        {"query": "api-version=2"},
        {"compaction": "off"},
        {"regions": frozenset({"eu"})},
        {"headers": {"anthropic-beta": "x"}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_calls_of_another_team_feature_or_form_have_other_keys(fields):
    assert key(BODY, **fields) != key(BODY)


def test_a_callers_own_request_id_and_key_make_no_other_key():
    other_key = msgspec.structs.replace(KEY, id="key_2")
    headers = {"x-client-request-id": "1", "idempotency-key": "2"}

    assert key(BODY, key=other_key, headers=headers, id="call_2") == key(BODY)


def test_another_model_or_provider_behind_the_same_name_makes_another_key():
    asked = call(json.dumps(BODY).encode())
    renamed = (replace(ROUTES[0], model="m-2"),)
    keys = {
        found.key
        for routes in (ROUTES, renamed, (route("two"),))
        if (found := read_request(asked, REUSABLE, routes)) is not None
    }

    assert len(keys) == 3


def test_replicas_of_one_engine_share_a_key():
    def replica(name: str) -> Any:
        one = route(name)
        return replace(one, upstream=replace(one.upstream, engine="lab"))

    asked = call(json.dumps(BODY).encode())
    one = read_request(asked, REUSABLE, (replica("a"), replica("b")))
    other = read_request(asked, REUSABLE, (replica("c"),))

    assert one is not None
    assert other is not None
    assert one.key == other.key


@pytest.mark.parametrize(
    ("body", "endpoint", "repeats"),
    [
        ({"temperature": 0}, "chat/completions", True),
        ({"temperature": 0.0}, "messages", True),
        ({"temperature": False}, "chat/completions", False),
        ({"temperature": 0.1}, "chat/completions", False),
        ({"temperature": None}, "chat/completions", False),
        ({"seed": 0}, "chat/completions", True),
        ({"seed": None}, "chat/completions", False),
        ({}, "responses", False),
        ({}, "embeddings", True),
    ],
)
def test_only_calls_that_ask_for_an_answer_that_repeats_are_cached(body, endpoint, repeats):
    assert (request(body, REPEATED, endpoint=endpoint) is not None) is repeats


def test_a_call_with_hosted_tools_repeats_only_where_its_feature_says_so():
    raw = json.dumps({"model": "m", "seed": 1, "tools": [{"type": "web_search"}]}).encode()
    asked = call(raw, "responses")

    assert read_request(asked, REPEATED, ROUTES) is None
    assert read_request(asked, REUSABLE, ROUTES) is not None


@pytest.mark.parametrize("body", [b"[]", b"{", b'"x"', b"\xff", b'{"a":1e999}', b"[" * 5_000])
def test_a_body_that_is_no_object_is_not_cached(body):
    assert request(body) is None


@pytest.mark.parametrize(
    ("endpoint", "fields", "expected"),
    [
        ("chat/completions", {}, True),
        ("responses", {}, True),
        ("messages", {}, True),
        ("embeddings", {}, True),
        ("completions", {}, True),
        ("batches", {}, False),
        ("chat/completions", {"method": "GET"}, False),
        ("chat/completions", {"fields": None}, False),
        ("chat/completions", {"feature": "warming:chat"}, False),
    ],
)
def test_only_calls_that_generate_or_embed_may_be_cached(endpoint, fields, expected):
    assert may_be_cached(call(json.dumps(BODY).encode(), endpoint, **fields)) is expected


@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "background"])
def test_a_call_that_goes_on_from_what_a_provider_keeps_is_not_cached(field):
    assert not may_be_cached(call(json.dumps({"model": "m", field: "x"}).encode(), "responses"))


def test_an_answer_is_accepted_up_to_the_age_that_policy_and_caller_allow():
    asked = call(json.dumps(BODY).encode())
    found = read_request(
        asked, AnswerCachePolicy(name="a", ttl=60.0), ROUTES, CacheControl(max_age=10), ("kb",)
    )
    free = read_request(asked, AnswerCachePolicy(name="a", ttl=60.0), ROUTES)

    assert found is not None
    assert free is not None
    assert (found.accepts(10.0), found.accepts(10.5), found.tags) == (True, False, ("kb",))
    assert (free.accepts(59.9), free.accepts(60.0)) == (True, False)


@pytest.mark.parametrize(
    ("fields", "endpoint", "offers_tools"),
    [
        ({"tools": [{"type": "function"}]}, "chat/completions", True),
        ({"functions": [{"name": "pay"}]}, "chat/completions", True),
        ({"mcp_servers": [{"url": "https://example.com"}]}, "messages", True),
        ({"prompt": {"id": "pmpt_1"}}, "responses", True),
        ({"prompt": "Hi"}, "completions", False),
        ({"tools": []}, "messages", False),
        ({}, "messages", False),
    ],
)
def test_equal_calls_that_offer_tools_share_no_answer_under_way(fields, endpoint, offers_tools):
    found = request({**BODY, **fields}, REPEATED, endpoint=endpoint, id="call_7")
    reusable = request({**BODY, **fields}, endpoint=endpoint, id="call_7")

    assert found is not None
    assert reusable is not None
    assert found.flight_key == ("call_7" if offers_tools else found.key)
    assert reusable.flight_key == reusable.key
