"""Teams that share a provider's account reach nothing of each other, and learn whom to ask."""

from dataclasses import replace
from typing import Any

import pytest

from proxy.api.isolation import NO_REALTIME
from proxy.catalog.families import Family, UnlistedModels
from proxy.catalog.model_aliases import ModelAliases
from proxy.records.receipt import Outcome
from tests.fakes.asgi import refusal
from tests.fakes.call_dependencies import route
from tests.fakes.endpoint_harness import GONE, EndpointHarness, endpoint_refusal
from tests.fakes.upstream import JSON, ScriptedAnswer


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
    answer = harness.ask(b"", path=f"/v1/{path}", method="GET", headers={"content-type": ""})

    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.headers["x-should-retry"] == "false"
    assert refusal(answer)["type"] == "invalid_request_error"
    assert refusal(answer)["message"] == f"/v1/{path} is not asked by GET; did you mean POST?"
    assert harness.receipts[0].status == 405
    assert harness.transport.sent == []


def test_stored_completions_are_listed_for_a_team_alone_or_where_that_is_allowed():
    def status_of_list(**harness: Any) -> int:
        front = EndpointHarness((GONE,), **harness)
        return front.ask(b"", method="GET", headers={"content-type": ""}).status

    assert status_of_list(teams=1) == 200
    assert status_of_list(teams=2, shared=True) == 200
    assert status_of_list(teams=2) == 405


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
    harness = EndpointHarness((ScriptedAnswer([shown], headers=JSON),), passing=FINE_TUNES)
    answered = harness.ask(b"", path="/v1/models/ft:m:acme::a", method="GET")

    assert (answered.status, answered.body) == (200, shown)
    ((name, prepared),) = harness.transport.sent
    assert (name, prepared.method, prepared.path) == ("two", "GET", "/models/ft:m:acme::a")


def test_an_upstream_says_that_it_has_no_such_model():
    gone = b'{"error":{"message":"No such model.","type":"invalid_request_error","code":"gone"}}'
    harness = EndpointHarness(
        (ScriptedAnswer([gone], status=404, headers=JSON),), passing=FINE_TUNES
    )
    answered = harness.ask(b"", path="/v1/models/ft:m:acme::a", method="GET")

    assert (answered.status, refusal(answered)["message"]) == (404, "No such model.")


@pytest.mark.parametrize("path", ["m", "m-2026-01-31", "n", "ft:other", ""])
def test_other_models_are_shown_or_refused_by_the_gateways_page(path):
    harness = EndpointHarness(passing=FINE_TUNES)

    assert harness.ask(b"", path=f"/v1/models/{path}", method="GET").body == b"pages"
    assert harness.transport.sent == []


def test_a_model_that_is_an_alias_of_the_team_is_shown_by_the_gateways_page():
    harness = EndpointHarness(passing=FINE_TUNES)
    deps = harness.front._deps
    aliases = {"acme": ModelAliases({"ft:*": "m"})}
    harness.front.update(replace(deps, catalog=replace(deps.catalog, team_aliases=aliases)))

    answer = harness.ask(b"", path="/v1/models/ft:m:acme::a", method="GET")
    assert answer.body == b"pages"
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


def forwarded_headers(token: str, idempotency_key: str) -> dict[str, str]:
    harness = EndpointHarness()
    headers = {"authorization": f"Bearer {token}", "idempotency-key": idempotency_key}
    assert harness.ask(headers=headers).status == 200
    return dict(harness.transport.sent[0][1].headers)


def test_an_idempotency_key_is_one_within_its_team_and_another_elsewhere():
    one, same, other = (
        forwarded_headers(t, "k")["idempotency-key"] for t in ("tg-1", "tg-2", "tg-3")
    )

    assert one == same
    assert len({one, other, forwarded_headers("tg-1", "j")["idempotency-key"], "k"}) == 4
