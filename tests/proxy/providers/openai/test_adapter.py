import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.entries import Route, Upstream
from proxy.providers.openai.adapter import OpenAIWire, UsageChunkFilter
from proxy.providers.sse import EventFramer
from proxy.records.request_fields import parse_request_fields
from slo.usage import Usage
from tests.fakes.answers import ASKED, BEAT, DONE, STREAMED, USAGE, chunk, event, usage_chunk
from tests.fakes.call_dependencies import call, route
from tests.fakes.refusals import refusing

WIRE = OpenAIWire()
ENDS = ["\n\n", "\r\n\r\n", "\n\r\n", "\r\r"]


def to(name: str = "up", model: str = "", **fields: Any) -> Route:
    upstream = Upstream(name=name, kind="openai", base_url="http://up/v1", **fields)
    return route(name, upstream=upstream, model=model)


def test_a_body_that_need_not_change_goes_on_unmodified():
    prepared = WIRE.request(call(ASKED), to())

    assert prepared.body is call(ASKED).body
    assert (prepared.reader, prepared.notes) == (None, ())
    assert prepared.headers == {"content-type": "application/json"}


def test_only_the_models_name_differs_where_the_upstream_has_its_own():
    prepared = WIRE.request(call(ASKED), to(model='theirs "x"'))

    assert prepared.body == ASKED.replace(b'"m"', b'"theirs \\"x\\""')


def test_a_model_of_the_same_name_is_not_written_again():
    assert WIRE.request(call(ASKED), to(model="m")).body == ASKED


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (STREAMED, {"include_usage": True}),
        (STREAMED[:-1] + b',"stream_options":null}', {"include_usage": True}),
        (
            STREAMED[:-1] + b',"stream_options":{"include_usage":false,"more":[1]}}',
            {"include_usage": True, "more": [1]},
        ),
    ],
)
@pytest.mark.parametrize("endpoint", ["chat/completions", "completions"])
def test_a_stream_is_asked_for_its_usage(body, options, endpoint):
    prepared = WIRE.request(call(body, endpoint=endpoint), to())

    assert json.loads(prepared.body) == json.loads(STREAMED) | {"stream_options": options}
    assert isinstance(prepared.reader, UsageChunkFilter)


@pytest.mark.parametrize(
    ("body", "endpoint", "there"),
    [
        (STREAMED[:-1] + b',"stream_options":{"include_usage":true}}', "chat/completions", to()),
        (STREAMED, "responses", to()),
        (STREAMED, "chat/completions", to(asks_usage=False)),
        (ASKED, "chat/completions", to()),
    ],
)
def test_a_stream_is_not_asked_where_that_changes_nothing(body, endpoint, there):
    prepared = WIRE.request(call(body, endpoint=endpoint), there)

    assert (prepared.body, prepared.reader) == (body, None)


@pytest.mark.parametrize(
    ("endpoint", "turns", "kind", "serves_responses", "path"),
    [
        ("chat/completions", "messages", "image_url", True, "/chat/completions"),
        ("responses", "input", "input_image", True, "/responses"),
        ("responses", "input", "input_image", False, "/chat/completions"),
    ],
)
def test_images_are_left_out_with_a_note_where_the_model_cannot_see(
    endpoint, turns, kind, serves_responses, path
):
    message = {"role": "user", "content": [{"type": kind, "file_id": "file-1"}]}
    body = json.dumps({"model": "m", turns: [message]}).encode()
    there = replace(to(serves_responses=serves_responses), can=frozenset({"tools"}))
    prepared = WIRE.request(call(body, endpoint=endpoint), there)

    assert prepared.path == path
    assert b"(An image was left out: this model cannot see it.)" in prepared.body
    assert kind.encode() not in prepared.body
    assert prepared.notes[-1] == "left out images and files: the model cannot see them"


def test_a_body_that_is_not_for_us_goes_on_untouched():
    prepared = WIRE.request(call(b"\x00\xff", "audio/transcriptions", fields=None), to(model="x"))

    assert prepared.body == b"\x00\xff"


def test_a_marker_is_said_as_the_routes_cache_takes_it():
    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [part]}]}).encode()
    prepared = WIRE.request(call(body), replace(to(), regime="implicit"))

    assert b"cache_control" not in prepared.body
    assert prepared.notes == ("dropped 1 cache markers: this model takes none there",)
    assert WIRE.request(call(body, endpoint="embeddings"), to()).body == body


@pytest.mark.parametrize("endpoint", ["chat/completions", "responses"])
def test_a_team_that_is_not_alone_says_whose_cache_it_is_to_meet(endpoint):
    there = to(provider="vllm", serves_responses=False)
    body = ASKED if endpoint != "responses" else b'{"model":"m","input":"Hi"}'
    alone, salted = (WIRE.request(call(body, endpoint, salt=salt), there) for salt in ("", "s"))

    assert b"cache_salt" not in alone.body
    assert json.loads(salted.body) == json.loads(alone.body) | {"cache_salt": "s"}
    assert alone.headers == call(body).headers


def test_fireworks_gets_the_teams_salt_in_a_header():
    prepared = WIRE.request(call(ASKED, salt="s"), to(provider="fireworks"))

    assert prepared.body == ASKED
    assert prepared.headers["x-prompt-cache-isolation-key"] == "s"
    assert prepared.headers["content-type"] == "application/json"


def test_a_model_is_deleted_by_the_name_its_upstream_has_for_it():
    deletion = call(b"", "models/bot", method="DELETE", fields=None, query="a=1")

    assert WIRE.request(deletion, to()).path == "/models/bot?a=1"
    assert WIRE.request(deletion, to(model="ft:m:acme::a b")).path == "/models/ft:m:acme::a%20b?a=1"
    assert WIRE.request(deletion, to(model="theirs")).body == b""


def test_a_form_names_the_model_as_its_upstream_does():
    sent = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=b"}
    given_call = call(
        sent, "audio/transcriptions", headers=headers, fields=parse_request_fields(b'{"model":"m"}')
    )

    assert WIRE.request(given_call, to()).body is sent
    assert WIRE.request(given_call, to(model="theirs")).body == sent.replace(
        b"\nm\r", b"\ntheirs\r"
    )


def test_the_upstream_path_keeps_the_callers_query():
    prepared = WIRE.request(call(b"", "files/f", fields=None, query="limit=2", method="GET"), to())

    assert (prepared.method, prepared.path) == ("GET", "/files/f?limit=2")


def test_an_upstream_without_responses_is_asked_in_chat():
    given_call = call(b'{"model":"m","input":"Hello"}', endpoint="responses")
    prepared = WIRE.request(given_call, to(model="theirs", serves_responses=False))

    assert prepared.path == "/chat/completions"
    assert json.loads(prepared.body)["model"] == "theirs"
    assert json.loads(prepared.body)["messages"] == [{"role": "user", "content": "Hello"}]
    assert prepared.notes
    assert prepared.reader is not None
    answer = {
        "id": "c",
        "model": "theirs",
        "choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    answer_read = prepared.reader.feed(json.dumps(answer).encode()) + prepared.reader.end()
    assert json.loads(answer_read)["output"][0]["content"][0]["text"] == "Hi"


def test_an_upstream_without_responses_keeps_the_callers_name_of_the_model():
    given_call = call(b'{"model":"m","input":"Hello"}', endpoint="responses")

    assert json.loads(WIRE.request(given_call, to(serves_responses=False)).body)["model"] == "m"


def test_a_responses_feature_that_chat_lacks_is_refused():
    given_call = call(
        b'{"model":"m","input":"Hi","previous_response_id":"r"}', endpoint="responses"
    )
    with refusing(400):
        WIRE.request(given_call, to(serves_responses=False))


def test_usage_is_in_disjoint_buckets():
    assert WIRE.usage(USAGE) == Usage(input=36, cache_read=64, output=10)


def test_failures_are_reported_by_the_table():
    assert WIRE.failure(401, {}, b"{}").code == "upstream_unauthorized"


other_events = st.sampled_from(
    [
        lambda end: chunk("Hel", end),
        lambda end: chunk('"usage":{},"choices":[]', end),
        lambda end: event({"choices": [], "prompt_filter_results": [], "usage": None}, end),
        lambda end: event({"choices": [], "usage": []}, end),
        lambda end: event({"choices": [{"index": 0, "delta": {}}], "usage": USAGE}, end),
        lambda end: event({"usage": {}, "choices": {"choices": []}}, end),
        lambda end: event({"choices": [{"choices": []}], "usage": USAGE}, end),
        lambda end: event({"choices": [], "usage": None, "x": {"usage": {}}}, end),
        lambda end: event('{"usage":{"a":1},"choices":[],', end),
        lambda end: BEAT,
        lambda end: DONE,
    ]
)


@given(
    st.lists(other_events, max_size=6),
    st.lists(st.integers(0, 6), max_size=2),
    st.sampled_from(ENDS),
    st.lists(st.integers(1, 60), max_size=12),
)
def test_of_any_stream_cut_anywhere_only_usage_chunks_are_taken(makes, places, end, cuts):
    pieces = [make(end) for make in makes]
    expected = b"".join(pieces)
    for place in places:
        pieces.insert(place, usage_chunk(end))
    whole = b"".join(pieces)

    frames, reader, given = EventFramer(), UsageChunkFilter(), b""
    for cut in cuts:
        given += reader.feed(frames.feed(whole[:cut]))
        whole = whole[cut:]
    given += reader.feed(frames.feed(whole)) + reader.feed(frames.unfinished_event()) + reader.end()

    assert given == expected


def test_an_error_that_comes_with_the_usage_reaches_the_caller():
    failed = event({"choices": [], "error": {"message": "no"}, "usage": USAGE})
    fine = event({"choices": [], "error": None, "usage": USAGE})

    assert UsageChunkFilter().feed(failed) == failed
    assert UsageChunkFilter().feed(fine) == b""
