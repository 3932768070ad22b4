"""Tests of who is let in with which call, and what is told to those who are not."""

import json
from typing import Any

import pytest

from proxy.api.endpoint import Endpoint
from proxy.records.receipt import Outcome
from tests.fakes.answers import ASKED, COMPLETION, SHOWN, STREAM, STREAMED, stream
from tests.fakes.asgi import AsgiConnection, refusal
from tests.fakes.clock import run_in_instant_time
from tests.fakes.endpoint_harness import GONE, EndpointHarness, endpoint_refusal
from tests.fakes.upstream import ScriptedAnswer


def test_a_call_is_answered_with_its_price():
    harness = EndpointHarness()
    answered = harness.ask()

    assert (answered.status, answered.body) == (200, COMPLETION)
    assert answered.headers["x-request-id"] == "call_1790000000"
    assert answered.headers["x-thriftgate-model"] == "m"
    assert answered.headers["x-thriftgate-cached-tokens"] == "64"
    assert answered.headers["x-thriftgate-cost-usd"] == "0.0000824"
    assert float(answered.headers["x-thriftgate-overhead-ms"]) == 0.0
    assert answered.headers["content-type"] == "application/json"
    (receipt,) = harness.receipts
    assert (receipt.call_id, receipt.started) == ("call_1790000000", 1_790_000_000.0)


def test_a_stream_is_answered_and_ends_with_its_account_if_asked():
    quiet = EndpointHarness((stream(STREAM),)).ask(STREAMED)
    loud = EndpointHarness((stream(STREAM),)).ask(STREAMED, headers={"x-thriftgate-trailer": "1"})

    assert quiet.body == SHOWN
    comments = [line for line in loud.body.split(b"\n") if line.startswith(b": thriftgate ")]
    assert (
        json.loads(comments[0].removeprefix(b": thriftgate "))["x-thriftgate-cost-usd"]
        == "0.0000824"
    )
    assert loud.body.replace(comments[0] + b"\n\n", b"") == SHOWN


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1", "/v1/models", "/v1/thriftgate/calls/c"])
def test_a_request_that_is_no_call_goes_to_the_pages(path):
    answered = EndpointHarness().ask(path=path)

    assert answered.body == b"pages"


def test_a_scope_that_is_not_http_goes_to_the_pages():
    async def work() -> None:
        events: list[str] = []

        async def pages(head: Any, _receive: Any, _send: Any) -> None:
            events.append(head["type"])

        front = Endpoint(pages, EndpointHarness().front._deps, EndpointHarness().front._admission)
        connection = AsgiConnection()
        await front({"type": "lifespan"}, connection.receive, connection.send)
        assert events == ["lifespan"]

    run_in_instant_time(work())


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, "key_1"),
        ({"authorization": "", "api-key": "tg-1"}, "key_1"),
        ({"authorization": "", "x-api-key": "tg-1"}, "key_1"),
        ({"authorization": "Bearer tg-2"}, "key_2"),
    ],
)
def test_a_good_key_opens(headers, key):
    harness = EndpointHarness()

    assert harness.ask(headers=headers).status == 200
    assert harness.receipts[0].key_id == key


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ("", "missing_api_key"),
        ("Bearer tg-no", "invalid_api_key"),
        ("Bearer tg-revoked", "invalid_api_key"),
        ("Bearer tg-expired", "expired_api_key"),
        ("Basic dGc6MQ==", "invalid_api_key"),
    ],
)
def test_a_bad_key_is_refused_before_its_body_is_read(headers, code):
    silent = AsgiConnection([None])

    assert endpoint_refusal(silent, headers={"authorization": headers}) == (401, code, None)


def test_a_model_beyond_the_list_of_its_key_is_refused_and_that_is_recorded():
    harness = EndpointHarness()
    answer = harness.ask(headers={"authorization": "Bearer tg-limited"})

    assert (answer.status, refusal(answer)["code"]) == (403, "model_not_allowed")
    assert [(receipt.outcome, receipt.error) for receipt in harness.receipts] == [
        ("refused", "model_not_allowed")
    ]


def test_a_key_is_never_in_what_is_reported():
    connection = EndpointHarness().ask(headers={"authorization": "Bearer tg-supersecret"})

    assert b"supersecret" not in connection.body


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"x" * 1001, {}, (413, "body_too_large", None)),
        (b"", {"content-length": "1001"}, (413, "body_too_large", None)),
        (b"{", {}, (400, "invalid_json", None)),
        (b"[]", {}, (400, "invalid_type", None)),
        (b'{"model":1}', {}, (400, "invalid_type", "model")),
        (b'{"model":"m","stream":"yes"}', {}, (400, "invalid_type", "stream")),
        (b"{}", {}, (400, "missing_model", "model")),
        (b'{"model":""}', {}, (400, "missing_model", "model")),
        (b'{"model":"n"}', {}, (404, "model_not_found", "model")),
        (ASKED, {"content-type": "text/plain"}, (415, "unsupported_content_type", None)),
        (ASKED, {"content-encoding": "gzip"}, (415, "unsupported_content_encoding", None)),
    ],
)
def test_an_error_that_the_caller_must_fix_names_the_place(body, headers, expected):
    assert endpoint_refusal(body, headers=headers) == expected


@pytest.mark.parametrize(
    "body",
    [b'{"prompt":{"id":"pmpt_1"},"input":"Hi"}', b'{"previous_response_id":"resp_1"}', b"{}"],
)
def test_a_responses_call_needs_no_model(body):
    assert EndpointHarness().ask(body, path="/v1/responses").status == 200
    assert endpoint_refusal(body, path="/v1/chat/completions") == (400, "missing_model", "model")


def test_a_body_that_does_not_come_is_refused():
    assert endpoint_refusal(AsgiConnection([b"{", None])) == (400, "body_timeout", None)


def test_a_caller_that_leaves_while_sending_is_told_nothing():
    harness = EndpointHarness()
    left = harness.ask(AsgiConnection([], leaves_after=1.0))

    assert left.sent == []
    assert harness.receipts == []


@pytest.mark.parametrize("path", ["/v1/chat/../files", "/v1/chat/%2e%2e/files"])
def test_a_path_that_leaves_is_refused(path):
    assert endpoint_refusal(path=path) == (404, "not_found", None)


def test_a_refused_call_leaves_a_receipt_with_what_was_known():
    harness = EndpointHarness()
    harness.ask(b'{"model":3}', headers={"x-thriftgate-feature": "search"})

    (receipt,) = harness.receipts
    assert (receipt.outcome, receipt.status, receipt.error) == (
        Outcome.REFUSED,
        400,
        "invalid_type",
    )
    assert (receipt.team, receipt.key_id, receipt.feature) == ("team_1", "key_1", "search")


@pytest.mark.parametrize("media", ["application/json", "application/json; charset=utf-8", ""])
def test_json_may_be_announced_in_any_way_or_none(media):
    assert EndpointHarness().ask(headers={"content-type": media}).status == 200


@pytest.mark.parametrize(
    ("header", "metadata", "token", "feature"),
    [
        ("header", "body", "tg-1", "header"),
        ("", "body", "tg-1", "body"),
        ("", "", "tg-1", "chat"),
        ("", "", "tg-2", ""),
        ("a\x00b\tc", "", "tg-1", "abc"),
        (" \x01 ", "body", "tg-1", ""),
        ("x" * 300, "", "tg-1", "x" * 128),
        ("", "n\\nl", "tg-1", "nl"),
    ],
)
def test_a_feature_is_named_by_header_body_or_key_in_this_order(header, metadata, token, feature):
    harness = EndpointHarness()
    body = ASKED[:-1] + b',"metadata":{"feature":"' + metadata.encode() + b'"}}'
    headers = {"x-thriftgate-feature": header, "authorization": f"Bearer {token}"}

    assert harness.ask(body, headers=headers).status == 200
    assert harness.receipts[0].feature == feature


@pytest.mark.parametrize(
    ("header", "metadata", "is_cut"),
    [("x" * 129, "", True), ("", "x" * 129, True), ("x" * 128, "y" * 129, False), ("", "", False)],
)
def test_a_feature_that_is_cut_says_so(header, metadata, is_cut):
    harness = EndpointHarness()
    body = ASKED[:-1] + b',"metadata":{"feature":"' + metadata.encode() + b'"}}'
    answered = harness.ask(body, headers={"x-thriftgate-feature": header})
    notes = ("the feature's name is cut to 128 characters",) if is_cut else ()

    assert harness.receipts[0].notes == notes
    assert answered.headers.get("x-thriftgate-notes") == (notes[0] if notes else None)


@pytest.mark.parametrize("name", ["日本", "café", "функция", "😀"])
def test_a_feature_is_the_same_in_a_header_and_in_a_body(name):
    headed, bodied = EndpointHarness(), EndpointHarness()
    headed.ask(headers={"x-thriftgate-feature": name.encode().decode("latin-1")})
    bodied.ask(ASKED[:-1] + b',"metadata":{"feature":"' + name.encode() + b'"}}')

    assert headed.receipts[0].feature == bodied.receipts[0].feature == name


@pytest.mark.parametrize("teams", [1, 2])
@pytest.mark.parametrize(
    "raw", ["/v1/chat/completion%73", "/v1/chat/completions/", "/v1/%63hat/Completions"]
)
def test_no_spelling_of_a_path_leads_past_the_meter(raw, teams):
    harness = EndpointHarness((stream(STREAM),), teams=teams)
    answered = harness.ask(STREAMED, path="/v1/chat/completions", raw=raw)

    assert answered.status == 200
    ((_, sent),) = harness.transport.sent
    assert sent.path == "/chat/completions"
    assert b"include_usage" in sent.body
    (receipt,) = harness.receipts
    assert (receipt.endpoint, receipt.cost_nanos) == ("chat/completions", 82_400)


def test_an_endpoint_without_a_reader_is_passed_through_with_its_bodys_model():
    harness = EndpointHarness((ScriptedAnswer([b"\x01"], headers={"content-type": "audio/mpeg"}),))
    body = b'{"model":"m","voice":"v"}'

    assert harness.ask(body, path="/v1/audio/speech", query="x=1").body == b"\x01"
    _, prepared = harness.transport.sent[0]
    assert (prepared.path, prepared.body) == ("/audio/speech?x=1", body)
    assert harness.receipts[0].model == "m"


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b"\xff\x00", "multipart/form-data; boundary=x"),
        (b"[1]", "application/json"),
        (b"", "application/json"),
    ],
)
def test_a_body_that_is_none_of_our_business_is_passed_through(body, media):
    harness = EndpointHarness((GONE,))

    assert harness.ask(body, path="/v1/uploads", headers={"content-type": media}).status == 200
    assert harness.transport.sent[0][1].body == body
