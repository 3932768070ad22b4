"""Tests of what is read of a request's body."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from proxy.calls.eligibility.request_traits import RequestTraits, request_traits
from proxy.records.body_reader import BodyReader
from tests.fakes.call_dependencies import call


def test_a_long_body_is_read_once_for_each_call():
    long = b'{"messages":[{"role":"user","content":"' + b"x" * 70_000 + b'"}]}'
    one = call(long, id="call_read_once")

    assert request_traits(one) is request_traits(call(long, id="call_read_once"))
    assert request_traits(one) is not request_traits(call(long, id="call_read_once_again"))
    assert request_traits(one) == request_traits(call(long, id="call_read_once_again"))


def test_of_many_calls_with_long_bodies_only_the_last_are_remembered():
    long = b'{"input":"' + b"x" * 70_000 + b'"}'
    first = request_traits(call(long, fields=None, id="call_0"))
    for n in range(1, 4_200):
        request_traits(call(long, fields=None, id=f"call_{n}"))

    assert request_traits(call(long, fields=None, id="call_4199")) is request_traits(
        call(long, fields=None, id="call_4199")
    )
    assert request_traits(call(long, fields=None, id="call_0")) is not first


def test_a_long_body_of_no_known_form_looks_like_all_there_is():
    traits = request_traits(
        call(b'{"messages":"' + b"x" * 300_000 + b'"}', fields=None, id="call_odd")
    )

    assert traits.vision
    assert traits.is_answered


TEXTS = st.sampled_from(["Which?", "x" * 5_000, [{"type": "text"}], [{"type": "image"}], None, 7])
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXTS}
    )
    | st.sampled_from(["no object", {}]),
    min_size=1,
    max_size=8,
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.sampled_from([1, 2, None]),
        "max_tokens": st.sampled_from([7, "7", None]),
        "tools": st.sampled_from([[], [{"type": "function"}], [{"type": "custom"}]]),
        "response_format": st.sampled_from([{"type": "json_schema"}, {"type": "text"}, None]),
        "tool_choice": st.sampled_from(["auto", {"type": "any"}]),
        "stop": st.just(["."]),
        "input": st.sampled_from(["x", 7]),
    },
)


@given(MESSAGES, MESSAGES, OPTIONS, st.sampled_from(["chat/completions", "messages"]))
def test_a_body_read_by_its_new_messages_has_the_traits_of_its_bytes(
    first, more, options, endpoint
):
    reader, text = BodyReader(), [{"role": "system", "content": "y" * 5_000}]
    for messages in ([*text, *first], [*text, *first, *more], [*text, *first[:-1]]):
        body = json.dumps({"model": "m", "messages": messages, **options}).encode()
        fields, split = reader.read("team", body)

        assert split is not None
        traits = request_traits(call(body, endpoint, fields=fields, split=split))
        alone = request_traits(call(bytes(bytearray(body)), endpoint))
        assert traits.first == alone.first
        assert facts(traits) == facts(alone)


def facts(traits: RequestTraits) -> dict[str, Any]:
    return {
        name: value
        for name, value in asdict(traits).items()
        if name not in {"first_message", "start"}
    }


NAMES = (
    *("messages", "input", "role", "type", "content", "output", "text", "tools", "\\", "é"),
    *("response_format", "format", "max_tokens", "max_output_tokens"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner | st.sampled_from(["assistant", "user", "json_schema", "image_url"]),
        )
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(JSON)
def test_any_json_body_has_traits(value):
    body = json.dumps(value).encode()

    traits = request_traits(call(body, fields=None))
    assert len(traits.first) == 16
    assert isinstance(traits.output, int)


@given(st.binary(max_size=40), st.integers(0, 120))
def test_a_body_with_noise_in_it_has_traits(noise, index):
    body = (
        b'{"messages":[{"role":"user","content":[{"type":"text"}]}],"text":{"format":{"type":"x"}},'
        b'"response_format":{"type":"json_schema"},"max_tokens":5,"tools":[]}'
    )

    assert len(request_traits(call(body[:index] + noise + body[index:], fields=None)).first) == 16
