"""Tests of the calls whose answers may be continued."""

import json
from typing import Any

import pytest

from proxy.calls.eligibility.continuable import may_be_continued
from tests.fakes.call_dependencies import call


def is_continuable(endpoint: str = "chat/completions", **fields: Any) -> bool:
    message = [{"role": "user", "content": "Hi"}]
    field = "input" if endpoint == "responses" else "messages"
    body = {"model": "m", "stream": True, field: message} | fields
    return may_be_continued(call(json.dumps(body).encode(), endpoint))


@pytest.mark.parametrize("endpoint", ["chat/completions", "messages", "responses"])
def test_a_stream_of_text_may_be_continued_in_each_api(endpoint):
    assert is_continuable(endpoint)


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1},
        {"response_format": {"type": "text"}},
        {"text": {"format": {"type": "text"}, "verbosity": "low"}},
        {"output_config": {"effort": "low"}},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
    ],
)
def test_fields_that_leave_text_alone_do_not_matter(fields):
    assert is_continuable(**fields)


@pytest.mark.parametrize(
    ("endpoint", "fields"),
    [
        ("chat/completions", {"stream": False}),
        ("chat/completions", {"n": 2}),
        ("chat/completions", {"n": True}),
        ("chat/completions", {"response_format": {"type": "json_object"}}),
        ("chat/completions", {"response_format": {"type": "json_schema", "json_schema": {}}}),
        ("chat/completions", {"guided_json": {}}),
        ("chat/completions", {"structured_outputs": {"regex": "a"}}),
        ("chat/completions", {"audio": {"voice": "a"}}),
        ("messages", {"output_config": {"format": {"type": "json_schema"}}}),
        ("responses", {"text": {"format": {"type": "json_schema"}}}),
        ("responses", {"background": True}),
        ("messages", {"messages": [{"role": "assistant", "content": "So"}]}),
        ("completions", {"prompt": "Hi"}),
        ("chat/completions", {"response_format": "odd"}),
    ],
)
def test_a_form_that_cannot_be_gone_on_from_is_not_continued(endpoint, fields):
    assert not is_continuable(endpoint, **fields)
