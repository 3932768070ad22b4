"""Tests of who is let in with which call, and what is told to those who are not."""

import json
from typing import Any

import pytest

from proxy.api.endpoint import Endpoint
from proxy.api.isolation import NO_REALTIME
from proxy.catalog.families import Family, UnlistedModels
from proxy.records.receipt import Outcome
from tests.fakes.answers import ASKED, COMPLETION, SHOWN, STREAM, STREAMED, stream
from tests.fakes.asgi import Connection, refusal
from tests.fakes.call_dependencies import route
from tests.fakes.clock import played
from tests.fakes.endpoint_harness import EndpointHarness, endpoint_refusal
from tests.fakes.upstream import JSON, Scripted


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
    (kept,) = harness.receipts
    assert (kept.call_id, kept.started) == ("call_1790000000", 1_790_000_000.0)


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
        told: list[str] = []

        async def pages(head: Any, _receive: Any, _send: Any) -> None:
            told.append(head["type"])

        front = Endpoint(pages, EndpointHarness().front._deps, EndpointHarness().front._admission)
        connection = Connection()
        await front({"type": "lifespan"}, connection.receive, connection.send)
        assert told == ["lifespan"]

    played(work())


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
    ("given", "code"),
    [
        ("", "missing_api_key"),
        ("Bearer tg-no", "invalid_api_key"),
        ("Bearer tg-revoked", "invalid_api_key"),
        ("Basic dGc6MQ==", "invalid_api_key"),
    ],
)
def test_a_bad_key_is_refused_before_its_body_is_read(given, code):
    silent = Connection([None])

    assert endpoint_refusal(silent, headers={"authorization": given}) == (401, code, None)


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
    assert endpoint_refusal(Connection([b"{", None])) == (400, "body_timeout", None)


def test_a_caller_that_leaves_while_sending_is_told_nothing():
    harness = EndpointHarness()
    left = harness.ask(Connection([], leaves_after=1.0))

    assert left.sent == []
    assert harness.receipts == []


@pytest.mark.parametrize("path", ["/v1/chat/../files", "/v1/chat/%2e%2e/files"])
def test_a_path_that_leaves_is_refused(path):
    assert endpoint_refusal(path=path) == (404, "not_found", None)


def test_a_refused_call_leaves_a_receipt_with_what_was_known():
    harness = EndpointHarness()
    harness.ask(b'{"model":3}', headers={"x-thriftgate-feature": "search"})

    (kept,) = harness.receipts
    assert (kept.outcome, kept.status, kept.error) == (Outcome.REFUSED, 400, "invalid_type")
    assert (kept.team, kept.key_id, kept.feature) == ("team_1", "key_1", "search")


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
    (kept,) = harness.receipts
    assert (kept.endpoint, kept.cost_nanos) == ("chat/completions", 82_400)


GONE = Scripted([b"{}"], headers=JSON)


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/files", "GET"),
        ("/v1/responses/resp_1", "GET"),
        ("/v1/chat/completions/c", "POST"),
        ("/v1/batches/b/cancel", "POST"),
        ("/v1/skills", "POST"),
    ],
)
def test_provider_state_is_one_teams_or_allowed_or_forbidden(path, method):
    def status(**harness: Any) -> int:
        front = EndpointHarness((GONE,), **harness)
        return front.ask(b"", path=path, method=method, headers={"content-type": ""}).status

    assert status(teams=1) == 200
    assert status(teams=2, shared=True) == 200
    assert status(teams=2) == 403


@pytest.mark.parametrize("teams", [1, 2])
@pytest.mark.parametrize("path", ["responses", "embeddings", "completions", "moderations"])
def test_a_url_typed_into_a_browser_is_told_to_post(path, teams):
    harness = EndpointHarness(teams=teams)
    told = harness.ask(b"", path=f"/v1/{path}", method="GET", headers={"content-type": ""})

    assert (told.status, told.headers["allow"]) == (405, "POST")
    assert told.headers["x-should-retry"] == "false"
    assert refusal(told)["type"] == "invalid_request_error"
    assert refusal(told)["message"] == f"/v1/{path} is not asked by GET; did you mean POST?"
    assert harness.receipts[0].status == 405
    assert harness.transport.sent == []


def test_stored_completions_are_listed_for_a_team_alone_or_where_that_is_allowed():
    def listed(**harness: Any) -> int:
        front = EndpointHarness((GONE,), **harness)
        return front.ask(b"", method="GET", headers={"content-type": ""}).status

    assert listed(teams=1) == 200
    assert listed(teams=2, shared=True) == 200
    assert listed(teams=2) == 405


def test_teams_that_share_a_gateway_may_still_generate():
    assert EndpointHarness(teams=2).ask().status == 200
    assert EndpointHarness((GONE,), teams=2).ask(path="/v1/moderations").status == 200


@pytest.mark.parametrize("path", ["responses/compact", "responses/input_tokens"])
def test_each_of_several_teams_may_use_paths_that_hold_no_state(path):
    body = b'{"model":"m","input":"hi"}'

    assert EndpointHarness(teams=2).ask(body, path=f"/v1/{path}").status == 200


def test_each_of_several_teams_may_ask_for_variations_of_an_image():
    form = {"content-type": "multipart/form-data; boundary=b"}
    harness = EndpointHarness((GONE,), teams=2)

    assert harness.ask(b"--b--", path="/v1/images/variations", headers=form).status == 200


def test_a_model_is_deleted_where_it_is_kept():
    harness = EndpointHarness((GONE,))
    answered = harness.ask(b"", path="/v1/models/m", method="DELETE")

    assert answered.status == 200
    ((name, prepared),) = harness.transport.sent
    assert (name, prepared.method, prepared.path) == ("one", "DELETE", "/models/m")
    assert endpoint_refusal(b"", path="/v1/models/n", method="DELETE") == (
        404,
        "model_not_found",
        "model",
    )
    assert harness.ask(b"", path="/v1/models/", method="DELETE").body == b"pages"


def test_one_of_several_teams_may_not_delete_a_model():
    code = "provider_state_is_shared"

    assert endpoint_refusal(
        b"", EndpointHarness(teams=2), path="/v1/models/m", method="DELETE"
    ) == (403, code, None)


#: Fine-tunes of m are an upstream's to know.
FINE_TUNES = UnlistedModels(
    families=(Family(names="ft:{base}:*", upstream=route("two").upstream),),
    upstreams={"two": route("two").upstream},
)


def test_a_model_that_only_an_upstream_may_know_is_shown_by_it():
    shown = b'{"id":"ft:m:acme::a","object":"model","created":1,"owned_by":"acme"}'
    harness = EndpointHarness((Scripted([shown], headers=JSON),), passing=FINE_TUNES)
    answered = harness.ask(b"", path="/v1/models/ft:m:acme::a", method="GET")

    assert (answered.status, answered.body) == (200, shown)
    ((name, prepared),) = harness.transport.sent
    assert (name, prepared.method, prepared.path) == ("two", "GET", "/models/ft:m:acme::a")


def test_an_upstream_says_that_it_has_no_such_model():
    gone = b'{"error":{"message":"No such model.","type":"invalid_request_error","code":"gone"}}'
    harness = EndpointHarness((Scripted([gone], status=404, headers=JSON),), passing=FINE_TUNES)
    answered = harness.ask(b"", path="/v1/models/ft:m:acme::a", method="GET")

    assert (answered.status, refusal(answered)["message"]) == (404, "No such model.")


@pytest.mark.parametrize("path", ["m", "m-2026-01-31", "n", "ft:other", ""])
def test_other_models_are_shown_or_refused_by_the_gateways_page(path):
    harness = EndpointHarness(passing=FINE_TUNES)

    assert harness.ask(b"", path=f"/v1/models/{path}", method="GET").body == b"pages"
    assert harness.transport.sent == []


def test_one_of_several_teams_is_not_shown_what_the_account_of_all_keeps():
    harness = EndpointHarness(teams=2, passing=FINE_TUNES)
    code = "provider_state_is_shared"

    assert endpoint_refusal(b"", harness, path="/v1/models/ft:m:a", method="GET") == (
        403,
        code,
        None,
    )


def test_a_forbidden_call_says_who_can_allow_it():
    harness = EndpointHarness(teams=2)
    connection = harness.ask(path="/v1/files")

    assert refusal(connection)["code"] == "provider_state_is_shared"
    assert "THRIFTGATE_SHARED_PROVIDER_STATE=true" in refusal(connection)["message"]
    assert harness.receipts[0].outcome is Outcome.REFUSED


@pytest.mark.parametrize("field", ['"previous_response_id":"resp_1"', '"background":true'])
def test_a_response_that_needs_what_another_team_may_have_left_is_forbidden(field):
    harness = EndpointHarness(teams=2)
    body = b'{"model":"m","input":"hi",' + field.encode() + b"}"

    param = field.split('"')[1]
    assert endpoint_refusal(body, harness, path="/v1/responses") == (
        403,
        "provider_state_is_shared",
        param,
    )
    assert harness.receipts[0].model == "m"


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("key", ["Bearer tg-1", ""])
@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/responses", "/openai/v1/realtime"])
def test_a_websocket_is_refused_with_the_status_that_turns_clients_to_http(path, key, shared):
    harness = EndpointHarness(shared=shared)
    head = {"sec-websocket-key": "dGhl", "sec-websocket-version": "13", "authorization": key}
    answered = harness.ask(b"", path=path, method="GET", headers=head)

    assert (answered.status, refusal(answered)["code"]) == (426, "websocket_unsupported")
    assert refusal(answered)["message"].startswith(NO_REALTIME)
    assert (answered.headers["upgrade"], answered.headers["connection"]) == ("HTTP/1.1", "upgrade")
    assert answered.headers["x-should-retry"] == "false"
    assert harness.transport.sent == []


def test_tokens_of_the_provider_are_given_out_only_where_that_is_allowed():
    path = "/v1/realtime/client_secrets"

    assert endpoint_refusal(b"{}", path=path) == (403, "realtime_unsupported", None)
    assert EndpointHarness((GONE,), shared=True).ask(b"{}", path=path).status == 200


def forwarded(token: str, given: str) -> dict[str, str]:
    harness = EndpointHarness()
    headers = {"authorization": f"Bearer {token}", "idempotency-key": given}
    assert harness.ask(headers=headers).status == 200
    return dict(harness.transport.sent[0][1].headers)


def test_an_idempotency_key_is_one_within_its_team_and_another_elsewhere():
    one, same, other = (forwarded(t, "k")["idempotency-key"] for t in ("tg-1", "tg-2", "tg-3"))

    assert one == same
    assert len({one, other, forwarded("tg-1", "j")["idempotency-key"], "k"}) == 4


def test_another_endpoint_is_passed_through_with_what_its_body_tells():
    harness = EndpointHarness((Scripted([b"\x01"], headers={"content-type": "audio/mpeg"}),))
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
