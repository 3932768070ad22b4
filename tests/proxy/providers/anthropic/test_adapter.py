"""The Anthropic wire, as the pipeline meets it."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.entries import Route, Upstream
from proxy.providers.anthropic.adapter import AnthropicWire
from proxy.providers.port import PreparedRequest, Wire
from proxy.records.call import Call, Key
from proxy.records.request_fields import parse_request_fields
from slo.usage import Usage
from tests.fakes.call_dependencies import call
from tests.fakes.converted_calls import prepare_converted
from tests.fakes.refusals import refusing
from tests.proxy.providers.anthropic.messages_streams import stream

_KEY = Key(id="key_1", team="t", team_name="T")
_ROUTE = Route(
    name="a/claude",
    upstream=Upstream(name="a", kind="anthropic", base_url="https://a.test/v1"),
    model="claude",
)
_ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
_STREAM = stream([{"type": "text", "text": "hello"}])


def _call(
    body: dict[str, Any],
    endpoint: str = "chat/completions",
    headers: dict[str, str] | None = None,
    method: str = "POST",
) -> Call:
    written = orjson.dumps({"model": "public", **body})
    return Call(
        id="call_1",
        key=_KEY,
        method=method,
        endpoint=endpoint,
        headers=headers or {},
        body=written,
        fields=parse_request_fields(written),
        arrived=1_700_000_000.5,
    )


def _chat(**fields: Any) -> Call:
    return _call({"messages": [{"role": "user", "content": "hi"}], **fields})


def _read(prepared: PreparedRequest, answer: bytes) -> bytes:
    assert prepared.reader is not None
    return prepared.reader.feed(answer) + prepared.reader.end()


def test_a_chat_call_goes_to_messages_under_the_pinned_version() -> None:
    wire: Wire = AnthropicWire()
    prepared = wire.request(_chat(seed=1), _ROUTE)

    assert (prepared.method, prepared.path) == ("POST", "/messages")
    assert prepared.headers == {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
    }
    assert orjson.loads(prepared.body)["model"] == "claude"
    assert prepared.notes == ("dropped seed: the model has no such parameter",)


def test_of_the_callers_headers_only_beta_features_go_along() -> None:
    headers = {"anthropic-beta": "b-2026-01-01", "anthropic-version": "x", "openai-beta": "y"}
    call = _call({"messages": [{"role": "user", "content": "hi"}]}, headers=headers)
    sent = AnthropicWire().request(call, _ROUTE).headers

    assert sent["anthropic-beta"] == "b-2026-01-01"
    assert sent["anthropic-version"] == "2023-06-01"
    assert "openai-beta" not in sent


def test_an_answer_comes_back_under_the_callers_name_and_time() -> None:
    given = orjson.loads(_read(AnthropicWire().request(_chat(), _ROUTE), orjson.dumps(_ANSWER)))

    assert (given["model"], given["created"]) == ("public", 1_700_000_000)
    assert given["choices"][0]["message"]["content"] == "hello"


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_stream_comes_back_with_usage_where_it_was_asked_for(*, is_asked: bool) -> None:
    call = _chat(stream=True, stream_options={"include_usage": is_asked})
    given = _read(AnthropicWire().request(call, _ROUTE), _STREAM)

    assert (b'"prompt_tokens":129' in given) == is_asked
    assert given.endswith(b"data: [DONE]\n\n")


def test_a_response_is_asked_for_and_read_through_the_chat_wire() -> None:
    prepared = prepare_converted(_call({"input": "hi"}, "responses"), _ROUTE)
    given = orjson.loads(_read(prepared, orjson.dumps(_ANSWER)))

    assert orjson.loads(prepared.body)["messages"][0]["content"] == [{"type": "text", "text": "hi"}]
    assert given["object"] == "response"
    assert given["output"][-1]["content"][0]["text"] == "hello"
    assert given["usage"]["input_tokens"] == 3


def test_a_streamed_response_ends_complete_and_with_usage() -> None:
    call = _call({"input": "hi", "stream": True}, "responses")
    given = _read(prepare_converted(call, _ROUTE), _STREAM)

    assert b"event: response.completed" in given
    assert b'"input_tokens":129' in given


@pytest.mark.parametrize(
    ("endpoint", "method"), [("embeddings", "POST"), ("completions", "POST"), ("responses", "GET")]
)
def test_an_endpoint_that_anthropic_lacks_is_refused_with_an_alternative(
    endpoint: str, method: str
) -> None:
    with refusing(400, match="ask a model of another provider") as caught:
        AnthropicWire().request(_call({"input": "hi"}, endpoint, method=method), _ROUTE)

    assert caught.value.code == "unsupported_endpoint"


def test_the_wire_reads_its_own_usage_and_errors() -> None:
    wire = AnthropicWire()

    assert wire.usage({"input_tokens": 1, "cache_read_input_tokens": 2}) == Usage(
        input=1, cache_read=2
    )
    assert wire.failure(529, {}, b"").status == 503


_COMPACTION = {"type": "compaction", "content": "so far", "encrypted_content": "b3BhcXVl"}
_THRESHOLD = [{"type": "compaction", "compact_threshold": 60_000}]


def _compacting_call(**fields: Any) -> Call:
    body = {"input": "hi", "context_management": _THRESHOLD, **fields}
    return _call(body, "responses", {"anthropic-beta": "theirs"})


def test_betas_that_the_body_needs_join_those_of_operator_and_caller() -> None:
    upstream = Upstream(
        name="a", kind="anthropic", base_url="https://a.test", headers={"Anthropic-Beta": "ours"}
    )
    sent = prepare_converted(_compacting_call(), Route(name="a/c", upstream=upstream))

    assert sent.headers["anthropic-beta"] == "ours,theirs,compact-2026-01-12"


_SIGNED: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "a", "signature": "s1"},
    {"type": "thinking", "thinking": "b", "signature": "s2"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "compaction", "content": "so far"},
]
_WORDS = [{"type": "text", "text": words} for words in ("so ", "on 👋")]


def _join_texts(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The content, neighbouring words as one block."""
    joined: list[dict[str, Any]] = []
    for block in content:
        if joined and joined[-1]["type"] == block["type"] == "text":
            joined[-1] = {"type": "text", "text": joined[-1]["text"] + block["text"]}
        else:
            joined.append(block)
    return joined


def _items(
    prepared: PreparedRequest, content: list[dict[str, Any]], *, streamed: bool
) -> list[Any]:
    if not streamed:
        answer = {"id": "msg_1", "content": content, "stop_reason": "end_turn"}
        return list(orjson.loads(_read(prepared, orjson.dumps(answer)))["output"])
    last = _read(prepared, stream(content)).split(b"data: ")[-1]
    return list(orjson.loads(last)["response"]["output"])


@given(st.lists(st.sampled_from([*_SIGNED, *_WORDS, {"type": "tool_use"}]), max_size=8))
def test_a_response_keeps_reasoning_in_its_place_there_and_back(pieces: list[Any]) -> None:
    named = enumerate(pieces)
    call = {"type": "tool_use", "name": "f", "input": {}}
    sent = [one | call | {"id": f"t{n}"} if one["type"] == "tool_use" else one for n, one in named]
    fields = {"input": [{"role": "user", "content": "hi"}]}
    whole, streamed = (
        _items(
            prepare_converted(_call(fields | {"stream": flag}, "responses"), _ROUTE),
            sent,
            streamed=flag,
        )
        for flag in (False, True)
    )
    results = [
        {"type": "function_call_output", "call_id": block["id"], "output": "1"}
        for block in sent
        if block["type"] == "tool_use"
    ]
    back = {"input": [*fields["input"], *whole, *results]}
    turns = orjson.loads(prepare_converted(_call(back, "responses"), _ROUTE).body)["messages"]

    if any(block in _SIGNED for block in sent):
        assert whole == streamed
    if sent and sent[-1] not in _SIGNED and any(block in _SIGNED for block in sent):
        assert turns[1]["content"] == _join_texts(sent)


def test_a_refusal_of_a_response_names_what_its_caller_wrote() -> None:
    file = {"type": "input_file", "file_id": "f"}
    items = [{"role": "user", "content": "hi"}, {"role": "user", "content": [file]}]
    with refusing(400) as caught:
        prepare_converted(_call({"instructions": "be", "input": items}, "responses"), _ROUTE)

    assert caught.value.param == "input[1].content[0].file_id"


def test_the_notes_of_a_response_name_what_its_caller_wrote() -> None:
    fields = {
        "input": "hi",
        "store": True,
        "max_output_tokens": 10_000,
        "text": {"verbosity": "low", "format": {"type": "json_object"}},
    }
    route = replace(_ROUTE, max_output=5_000)

    assert prepare_converted(_call(fields, "responses"), route).notes == (
        "dropped store: nothing is kept for this model",
        "dropped text.verbosity: the model has no such parameter",
        "lowered max_output_tokens to 5000: the model's most",
        "wrote text.format json_object as an instruction: the model has no such parameter",
    )


@pytest.mark.parametrize("streamed", [False, True])
def test_a_compaction_goes_through_a_response_and_comes_back_as_it_was(*, streamed: bool) -> None:
    prepared = prepare_converted(_compacting_call(stream=streamed), _ROUTE)
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 60_000}}
    assert orjson.loads(prepared.body)["context_management"] == {"edits": [edit]}
    if streamed:
        given = _read(prepared, stream([_COMPACTION, *_ANSWER["content"]]))
        last = given.split(b"data: ")[-1]
        output = orjson.loads(last)["response"]["output"]
        assert given.count(b"response.output_item.done") == 4  # names and types of two items
    else:
        answer = _ANSWER | {"content": [_COMPACTION, *_ANSWER["content"]]}
        output = orjson.loads(_read(prepared, orjson.dumps(answer)))["output"]
    assert [item["type"] for item in output] == ["compaction", "message"]

    later = _compacting_call(input=[*output, {"role": "user", "content": "on"}])
    turns = orjson.loads(prepare_converted(later, _ROUTE).body)["messages"]
    assert turns[0]["content"] == [_COMPACTION, {"type": "text", "text": "hello"}]
    assert [turn["role"] for turn in turns] == ["assistant", "user"]


def test_a_compaction_of_another_provider_is_refused_with_the_way_to_fix_it() -> None:
    theirs = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAB"}
    with refusing(400, match="send the items that it stands for") as caught:
        prepare_converted(_compacting_call(input=[theirs]), _ROUTE)

    assert caught.value.param == "input[0]"


@pytest.mark.parametrize(
    ("answered", "shown"),
    [
        (
            b'{"type":"model","id":"claude","display_name":"C","created_at":"2026-01-02T00:00:00Z"}',
            {"id": "claude", "object": "model", "created": 1_767_312_000, "owned_by": "a"},
        ),
        (b'{"id":"c"}', {"id": "c", "object": "model", "created": 0, "owned_by": "a"}),
        (b'{"created_at":"never"}', {"created_at": "never"}),
    ],
)
def test_a_model_is_shown_as_openai_shows_one(answered, shown):
    question = call(b"", "models/a%2Fclaude", method="GET", fields=None)
    prepared = AnthropicWire().request(question, _ROUTE)

    assert (prepared.method, prepared.path, prepared.body) == ("GET", "/models/claude", b"")
    assert prepared.headers["anthropic-version"] == "2023-06-01"
    assert prepared.reader is not None
    shown_model = prepared.reader.feed(answered[:5]) + prepared.reader.feed(answered[5:])
    assert orjson.loads(shown_model + prepared.reader.end()) == shown


def test_a_model_is_deleted_nowhere_at_anthropic():
    with refusing(400):
        AnthropicWire().request(call(b"", "models/claude", method="DELETE", fields=None), _ROUTE)
