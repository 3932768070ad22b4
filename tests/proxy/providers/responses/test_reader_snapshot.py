from typing import Any

import pytest
from openai.types.responses import Response

from proxy.providers.responses.reader import Echo, id_suffix, usage

FULL: dict[str, Any] = {
    "model": "asked",
    "input": "Hi",
    "instructions": "Be kind.",
    "max_output_tokens": 9,
    "max_tool_calls": 2,
    "metadata": {"feature": "x"},
    "parallel_tool_calls": False,
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "safety_identifier": "s",
    "service_tier": "flex",
    "store": True,
    "temperature": 0.5,
    "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": {}}},
    "tool_choice": {"type": "function", "name": "f"},
    "tools": [
        {"type": "function", "name": "f", "parameters": {}},
        {"type": "custom", "name": "c"},
    ],
    "top_logprobs": 2,
    "top_p": 0.9,
    "truncation": "auto",
    "user": "u",
}


def echo(request_fields: dict[str, Any]) -> Echo:
    return Echo(request=request_fields, created=12.75, tail="1", model="m")


@pytest.mark.parametrize(
    "request_fields", [{"model": "asked", "input": "Hi"}, FULL, {"text": None}]
)
def test_a_snapshot_is_what_the_sdk_calls_a_response(request_fields: Any) -> None:
    response = Response.model_validate(echo(request_fields).snapshot("completed", []))

    assert (response.id, response.model, response.status) == ("resp_1", "m", "completed")
    assert (response.created_at, response.output_text) == (12, "")
    assert response.instructions == request_fields.get("instructions")
    assert response.temperature == request_fields.get("temperature")
    assert [tool.type for tool in response.tools] == [
        t["type"] for t in request_fields.get("tools", ())
    ]


def test_omitted_parameters_are_echoed_with_their_defaults() -> None:
    response = echo({}).snapshot("in_progress", [])

    assert response["text"] == {"format": {"type": "text"}}
    assert (response["tool_choice"], response["tools"], response["parallel_tool_calls"]) == (
        "auto",
        [],
        True,
    )
    assert (response["metadata"], response["usage"], response["error"]) == ({}, None, None)


def test_parameters_that_were_not_applied_are_not_echoed() -> None:
    """Nothing is stored or truncated, whatever was asked."""
    response = echo(FULL).snapshot("completed", [])

    assert (response["store"], response["truncation"], response["background"]) == (
        False,
        "disabled",
        False,
    )


def test_more_fields_take_the_place_of_the_usual_ones() -> None:
    response = echo(FULL).snapshot(
        "completed", [], service_tier="default", usage={"total_tokens": 1}
    )

    assert (response["service_tier"], response["usage"]) == ("default", {"total_tokens": 1})


@pytest.mark.parametrize(
    ("chat_id", "body", "expected"),
    [
        ("chatcmpl-abc", b"x", "abc"),
        ("msg_01", b"x", "msg_01"),
        ("", b"x", "2d711642b726b04401627ca9fbac32f5"),
        ("chatcmpl-", b"x", "2d711642b726b04401627ca9fbac32f5"),
    ],
)
def test_ids_end_as_the_chat_id_does_or_as_the_request_demands(
    chat_id: str, body: bytes, expected: Any
) -> None:
    assert id_suffix(chat_id, body) == expected


@pytest.mark.parametrize(
    ("chat", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2}, (5, 0, 0, 2, 0, 7)),
        (
            {
                "prompt_tokens": 50,
                "completion_tokens": 20,
                "total_tokens": 71,
                "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
                "completion_tokens_details": {"reasoning_tokens": 15},
            },
            (50, 30, 10, 20, 15, 71),
        ),
        (
            {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}},
            (5, 0, 0, 0, 0, 5),
        ),
        (
            {"prompt_tokens": 10.0, "completion_tokens": 5, "prompt_tokens_details": []},
            (10, 0, 0, 5, 0, 15),
        ),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 3.0}},
            (10, 3, 0, 0, 0, 10),
        ),
        ({"prompt_tokens": -100, "completion_tokens": 5}, (0, 0, 0, 5, 0, 5)),
    ],
)
def test_usage_is_the_same_counts_under_other_names(chat: Any, expected: Any) -> None:
    responses_usage = usage(chat)

    assert responses_usage is not None
    assert (
        responses_usage["input_tokens"],
        responses_usage["input_tokens_details"]["cached_tokens"],
        responses_usage["input_tokens_details"]["cache_write_tokens"],
        responses_usage["output_tokens"],
        responses_usage["output_tokens_details"]["reasoning_tokens"],
        responses_usage["total_tokens"],
    ) == expected
