import json

from starlette.types import Receive, Scope, Send

from proxy.api.connections.starting import STARTING, SwitchableApp, starting_app
from tests.fakes.asgi import answer_of_app, scope
from tests.fakes.clock import run_in_instant_time

_APP = starting_app(lambda: "call_1")


def test_a_gateway_that_starts_is_alive_and_not_ready():
    alive = run_in_instant_time(answer_of_app(_APP, scope("/healthz", "GET")))
    ready = run_in_instant_time(answer_of_app(_APP, scope("/readyz", "GET")))

    assert (alive.status, json.loads(alive.body)) == (200, {"status": "ok"})
    assert ready.status == 503
    assert json.loads(ready.body) == {"status": "not ready", "troubles": [STARTING]}


def test_a_gateway_that_starts_refuses_calls_and_pages_in_the_error_envelope():
    for path in ("/v1/chat/completions", "/v1/models", "/admin", "/metrics"):
        answer = run_in_instant_time(answer_of_app(_APP, scope(path, "POST")))

        assert answer.status == 503
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["x-request-id"] == "call_1"
        assert json.loads(answer.body)["error"]["code"] == "database_unavailable"


def test_a_switchable_app_answers_by_the_app_it_has_been_given_last():
    async def ready(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    switch = SwitchableApp(_APP)
    before = run_in_instant_time(answer_of_app(switch, scope("/v1/models", "GET"))).status
    switch.app = ready

    assert (
        before,
        run_in_instant_time(answer_of_app(switch, scope("/v1/models", "GET"))).status,
    ) == (503, 204)
