"""Tests of what is read of a request's body."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.eligibility.request_traits import request_traits
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
