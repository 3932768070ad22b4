from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import CallerError
from proxy.providers.responses.request import chat_body
from tests.fakes.refusals import refusing

ASKED: dict[str, Any] = {"model": "m", "input": "Hi"}
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
TOOL = {"type": "function", "name": "f"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def chat(**fields: object) -> Any:
    return orjson.loads(chat_body(orjson.dumps(ASKED | fields)).body)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"max_output_tokens": 9}, {"max_completion_tokens": 9}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"temperature": None, "user": None}, {}),
        ({"user": "u", "safety_identifier": "s"}, {"user": "u", "safety_identifier": "s"}),
        ({"metadata": {"feature": "x"}}, {"metadata": {"feature": "x"}}),
        ({"service_tier": "flex", "prompt_cache_key": "k"},
         {"service_tier": "flex", "prompt_cache_key": "k"}),
        ({"prompt_cache_options": {"mode": "explicit", "comparison_response_id": "r"}},
         {"prompt_cache_options": {"mode": "explicit"}}),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
        ({"reasoning": {"mode": "standard"}}, {}),
        ({"text": {"verbosity": "low", "format": {"type": "text"}}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "json_object"}}},
         {"response_format": {"type": "json_object"}}),
        ({"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA,
                              "strict": True, "description": None}}},
         {"response_format": {"type": "json_schema",
                              "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}}),
        ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ({"top_logprobs": 0}, {}),
        ({"include": ["message.output_text.logprobs", "reasoning.encrypted_content"]},
         {"logprobs": True}),
        ({"include": ["reasoning.encrypted_content"]}, {}),
        ({"store": True, "truncation": "auto", "background": False, "max_tool_calls": 3}, {}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": True, "stream_options": {"include_obfuscation": False}},
         {"stream": True,
          "stream_options": {"include_obfuscation": False, "include_usage": True}}),
        ({"stream": False, "stream_options": {}}, {"stream": False}),
        ({"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
         {"tools": [{"type": "function", "function": {"name": "f"}}],
          "tool_choice": "required", "parallel_tool_calls": False}),
        ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}, {}),
        ({"seed": 7, "chat_template_kwargs": {"thinking": True}},
         {"seed": 7, "chat_template_kwargs": {"thinking": True}}),
        ({"previous_response_id": None, "conversation": None, "prompt": None}, {}),
    ],
)  # fmt: skip
def test_each_field_is_said_in_chat(fields: Any, expected: Any) -> None:
    assert chat(**fields) == CHAT | expected


@pytest.mark.parametrize(
    ("fields", "param", "fix"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "send the earlier items"),
        ({"conversation": "conv_1"}, "conversation", "send the earlier items"),
        ({"conversation": {"id": "conv_1"}}, "conversation", "with `store` false"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", "instructions"),
        ({"background": True}, "background", "stream"),
        ({"context_management": [{"type": "compaction"}]}, "context_management", "shorter"),
        ({"moderation": {"model": "m"}}, "moderation", "of its own"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode", "Leave"),
        ({"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options.prewarm", "Leave"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "run it yourself"),
        ({"input": [{"type": "item_reference", "id": "i"}]}, "input[0].type", "items themselves"),
        ({"reasoning": 5}, "reasoning", "Expected"),
        ({"reasoning": {"effort": 5}}, "reasoning.effort", "Expected"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type", "Invalid"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format", "missing"),
        ({"prompt_cache_options": "x"}, "prompt_cache_options", "Expected"),
        ({"stream": True, "stream_options": 5}, "stream_options", "Expected"),
        ({"include": "x"}, "include", "Expected"),
        ({"instructions": ["x"]}, "instructions", "Expected"),
    ],
)  # fmt: skip
def test_a_field_that_chat_lacks_is_refused_with_its_fix(fields: Any, param: str, fix: str) -> None:
    with refusing(400, match=fix) as caught:
        chat(**fields)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        ({"store": True}, ["dropped store: nothing is kept for this model"]),
        ({"truncation": "auto"}, ["dropped truncation auto: nothing is cut for this model"]),
        (
            {"max_tool_calls": 2},
            ["dropped max_tool_calls: it counts built-in tools, and this model has none"],
        ),
        ({"store": False, "truncation": "disabled", "max_tool_calls": None}, []),
    ],
)
def test_a_responses_field_that_is_not_carried_out_is_noted(
    fields: dict[str, Any], notes: list[str]
) -> None:
    assert list(chat_body(orjson.dumps(ASKED | fields)).notes) == notes


@pytest.mark.parametrize("where", ["input", "metadata", "reasoning"])
def test_json_too_deep_to_be_said_again_is_refused(where: str) -> None:
    body = b'{"input":"x","%b":%b}' % (where.encode(), b'{"a":' * 300 + b"1" + b"}" * 300)

    with refusing(400):
        chat_body(body)


def test_the_same_body_gives_the_same_bytes() -> None:
    body = orjson.dumps(ASKED | {"tools": [TOOL], "stream": True, "reasoning": {"effort": "low"}})

    assert chat_body(body).body == chat_body(body).body


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "name", "mode", "tools", "format", "text"]),
            inner | st.sampled_from(["message", "user", "input_text", "function", "reasoning"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)
SHAPED = ["input", "instructions", "tools", "tool_choice", "text", "reasoning", "include"]
CAUTIOUS = ["stream", "stream_options", "prompt_cache_options", "top_logprobs", "prompt"]
FIELDS = st.sampled_from([*SHAPED, *CAUTIOUS, "metadata", "other"])


@pytest.mark.slow
@given(st.dictionaries(FIELDS, JSON, max_size=5))
def test_any_json_is_either_said_or_refused(fields: Any) -> None:
    body = orjson.dumps(fields)
    try:
        chat = orjson.loads(chat_body(body).body)
    except CallerError:
        return

    assert isinstance(chat["messages"], list)


@given(st.binary(max_size=30))
def test_any_bytes_are_either_said_or_refused(body: bytes) -> None:
    with refusing(400):
        chat_body(body)


def test_a_compaction_is_said_in_anthropics_words_where_the_model_takes_them() -> None:
    def edits(*compactions: object) -> Any:
        body = orjson.dumps(ASKED | {"context_management": compactions})
        return orjson.loads(chat_body(body, compacts=True).body)

    edit: dict[str, Any] = {"type": "compact_20260112"}
    assert edits() == CHAT
    assert edits({"type": "compaction"}) == CHAT | {"context_management": {"edits": [edit]}}
    edit["trigger"] = {"type": "input_tokens", "value": 50_000}
    assert edits({"type": "compaction", "compact_threshold": 50_000}) == CHAT | {
        "context_management": {"edits": [edit]}
    }


@pytest.mark.parametrize(
    ("given_field", "param", "fix"),
    [
        ([{"type": "compaction", "compact_threshold": 49_999}],
         "context_management[0].compact_threshold", "higher threshold"),
        ([{"type": "compaction"}] * 2, "context_management", "Send one"),
        ([{"type": "truncation"}], "context_management[0].type", "Invalid"),
        ({"edits": []}, "context_management", "Expected"),
    ],
)  # fmt: skip
def test_a_compaction_with_another_meaning_is_refused(
    given_field: Any, param: str, fix: str
) -> None:
    body = orjson.dumps(ASKED | {"context_management": given_field})
    with refusing(400, match=fix) as caught:
        chat_body(body, compacts=True)

    assert caught.value.param == param
