"""The simulator's HTTP surface."""

from collections.abc import Mapping
from typing import Any

import pytest

from proxy.tools.simulator.rendering import Vocabulary
from tests.proxy.tools.simulator.scene import (
    CLAUDE_TOOL,
    FLAT_TOOL,
    TOOL,
    Json,
    SimulatorHarness,
    user,
)

BEARER = {"authorization": "Bearer sk"}
CLAUDE = {"x-api-key": "sk", "anthropic-version": "2023-06-01"}
CHAT: Json = {"model": "gpt-6.1-sol", "messages": [user("Hello")]}
MESSAGE: Json = {"model": "claude-haiku-4-5", "max_tokens": 20, "messages": [user("Hello")]}
STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "chat/completions", CHAT),
        ("POST", "chat/completions", CHAT | {"stream": True}),
        ("POST", "completions", {"model": "gpt-6.1-sol", "prompt": "a"}),
        ("POST", "completions", {"model": "gpt-6.1-sol", "prompt": "a", "stream": True}),
        ("POST", "responses", {"model": "gpt-6.1-sol", "input": "a"}),
        ("POST", "responses", {"model": "gpt-6.1-sol", "input": "a", "stream": True}),
        ("POST", "embeddings", {"model": "text-embedding-3-small", "input": "a"}),
        ("POST", "moderations", {"input": ["a", "b"]}),
        ("GET", "models", None),
        ("GET", "models/gpt-6.1-sol", None),
        ("GET", "files?limit=2", None),
    ],
)
def test_each_endpoint_answers_and_says_that_it_is_simulated(
    scene: SimulatorHarness, method: str, path: str, body: Json | None
) -> None:
    answer = scene.send(method, path, body, headers=BEARER)

    assert answer.status_code == 200
    assert answer.headers["x-simulator"] == "simulated"
    assert answer.headers["openai-version"] == "2020-10-01"
    assert answer.headers["x-request-id"].startswith("req_")
    assert int(answer.headers["openai-processing-ms"]) >= 0
    assert "x-ratelimit-remaining-tokens" in answer.headers
    streamed = bool(body and body.get("stream"))
    assert answer.headers["content-type"].startswith("text/event-stream") is streamed


@pytest.mark.parametrize("path", ["messages", "messages/count_tokens"])
def test_the_other_wire_answers_too(scene: SimulatorHarness, path: str) -> None:
    answer = scene.send("POST", path, MESSAGE, headers=CLAUDE)

    assert answer.status_code == 200
    assert answer.headers["request-id"].startswith("req_")
    assert "anthropic-ratelimit-input-tokens-reset" in answer.headers
    assert answer.headers["x-simulator"] == "simulated"


def test_models_are_listed_as_each_wire_lists_them(scene: SimulatorHarness) -> None:
    openai = scene.send("GET", "models", headers=BEARER).json()
    claude = scene.send("GET", "models", headers=CLAUDE).json()

    assert {model["owned_by"] for model in openai["data"]} == {"thriftgate-simulator"}
    assert "claude-haiku-4-5" not in {model["id"] for model in openai["data"]}
    assert [model["id"] for model in claude["data"]] == [claude["first_id"], claude["last_id"]]
    one = scene.send("GET", "models/claude-haiku-4-5", headers=CLAUDE).json()
    assert one["display_name"].endswith("(simulated)")


def test_a_lab_without_such_models_lists_none(vocabulary: Vocabulary) -> None:
    assert SimulatorHarness(vocabulary, {}).send("GET", "models", headers=CLAUDE).json() == {
        "data": [],
        "has_more": False,
    }


def test_the_header_cues_what_reads_no_body_too(scene: SimulatorHarness) -> None:
    scene.lab.queue_directives(["500"])

    assert scene.send("GET", "models", headers=BEARER).status_code == 200
    assert (
        scene.send("GET", "models", headers=BEARER | {"x-simulator-fault": "503"}).status_code
        == 503
    )
    assert (
        scene.send("GET", "models", headers=BEARER | {"x-simulator-fault": "no"}).status_code == 400
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "models/gpt-nope"),
        ("GET", "models/claude-haiku-4-5"),
        ("GET", "nowhere"),
        ("POST", "images/edits"),
        ("DELETE", "models/gpt-5.5"),
    ],
)
def test_an_unknown_path_is_not_found(scene: SimulatorHarness, method: str, path: str) -> None:
    answer = scene.send(method, path, headers=BEARER)

    assert answer.status_code == 404
    assert "error" in answer.json()


@pytest.mark.parametrize("headers", [BEARER, {"api-key": "sk"}, BEARER | {"api-key": "other"}])
def test_a_key_comes_in_either_header(scene: SimulatorHarness, headers: Mapping[str, str]) -> None:
    assert scene.send("POST", "chat/completions", CHAT, headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer "}, {"x-api-key": "sk"}])
def test_without_a_key_nothing_is_answered(
    scene: SimulatorHarness, headers: Mapping[str, str]
) -> None:
    answer = scene.send("POST", "chat/completions", CHAT, headers=headers)

    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"


def test_a_lab_with_a_key_takes_no_other(vocabulary: Vocabulary) -> None:
    scene = SimulatorHarness(vocabulary, key="right")

    def status(key: str) -> int:
        headers = {"authorization": f"Bearer {key}"}
        return scene.send("POST", "chat/completions", CHAT, headers=headers).status_code

    assert (status("right"), status("wrong")) == (200, 401)


def test_anthropic_wants_its_version_and_a_key(scene: SimulatorHarness) -> None:
    versionless = scene.send("POST", "messages", MESSAGE, headers={"x-api-key": "sk"})
    keyless = scene.send("POST", "messages", MESSAGE, headers={"anthropic-version": "2023-06-01"})
    bearer = scene.send(
        "POST", "messages", MESSAGE, headers=BEARER | {"anthropic-version": "2023-06-01"}
    )

    assert versionless.status_code == 400
    assert "anthropic-version" in versionless.json()["error"]["message"]
    assert keyless.json()["error"]["type"] == "authentication_error"
    assert bearer.status_code == 200


def test_requests_are_recorded_byte_for_byte(scene: SimulatorHarness) -> None:
    raw = b'{ "model":"gpt-6.1-sol",  "messages":[{"role":"user","content":"a"}], "x":1.0 }'
    headers = BEARER | {"X-Trace": "7"}
    answer = scene.send("POST", "chat/completions?beta=1", raw, headers=headers)
    exchange = scene.lab.exchanges[-1]

    assert exchange.body == raw
    assert exchange.path == "/v1/chat/completions?beta=1"
    assert exchange.headers["x-trace"] == "7"
    assert bytes(exchange.sent) == answer.content
    assert (exchange.method, exchange.status) == ("POST", 200)
    assert exchange.request_id == answer.headers["x-request-id"]
    assert exchange.complete
    assert not exchange.hung_up


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_can_be_cued_on_both_wires(scene: SimulatorHarness, status: int) -> None:
    openai = scene.openai("chat/completions", CHAT, cues=str(status))
    claude = scene.anthropic({"messages": [user("a")]}, cues=str(status))

    assert openai.status_code == claude.status_code == status
    assert set(openai.json()) == {"error"}
    assert claude.json()["request_id"] == claude.headers["request-id"]
    assert scene.lab.exchanges[-1].usage is None


def test_a_429_says_when_to_come_back_as_each_provider_does(scene: SimulatorHarness) -> None:
    openai = scene.openai("chat/completions", CHAT, cues="429=0.25")
    claude = scene.anthropic({"messages": [user("a")]}, cues="429=3")

    assert (openai.headers["retry-after"], openai.headers["retry-after-ms"]) == ("1", "250")
    assert claude.headers["retry-after"] == "3"
    assert "retry-after-ms" not in claude.headers


def test_a_spent_quota_is_not_to_be_retried(scene: SimulatorHarness) -> None:
    answer = scene.openai("chat/completions", CHAT, cues="quota")

    assert answer.status_code == 429
    assert answer.headers["x-should-retry"] == "false"
    assert "retry-after" not in answer.headers


def test_a_proxy_before_the_provider_answers_in_html(scene: SimulatorHarness) -> None:
    answer = scene.openai("chat/completions", CHAT, cues="html")

    assert (answer.status_code, answer.headers["content-type"]) == (502, "text/html")


def test_cues_come_from_the_text_the_model_and_the_script(scene: SimulatorHarness) -> None:
    assert scene.chat("Hello [[fault:503]]").status_code == 503
    assert scene.chat(model="gpt-6.1-sol+418").status_code == 418
    scene.lab.queue_directives(["429", "ok", "500"])
    assert [scene.chat().status_code for _ in range(4)] == [429, 200, 500, 200]


def test_a_call_with_cues_of_its_own_leaves_the_script_alone(scene: SimulatorHarness) -> None:
    scene.lab.queue_directives(["429"])

    assert [scene.chat(cues="ok").status_code, scene.chat().status_code] == [200, 429]


@pytest.mark.parametrize("fields", [{"cues": "dearth"}, {"text": "[[fault:dearth]]"}])
def test_an_unknown_cue_is_refused(scene: SimulatorHarness, fields: Any) -> None:
    answer = scene.chat(**fields)

    assert answer.status_code == 400
    assert "dearth" in answer.json()["error"]["message"]


def test_bad_json_is_refused(scene: SimulatorHarness) -> None:
    answer = scene.send("POST", "chat/completions", b"{", headers=BEARER)

    assert answer.status_code == 400


DIRECTED = '[[call:read_file {"path": "a.txt"}]] [[call:delete_file {}]]'


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("chat/completions", CHAT | {"messages": [user(DIRECTED)], "tools": [TOOL]}, BEARER),
        (
            "messages",
            MESSAGE | {"max_tokens": 200, "messages": [user(DIRECTED)], "tools": [CLAUDE_TOOL]},
            CLAUDE,
        ),
        ("responses", {"model": "gpt-6.1-sol", "input": DIRECTED, "tools": [FLAT_TOOL]}, BEARER),
    ],
)
def test_a_directed_tool_call_is_made_with_its_arguments(
    scene: SimulatorHarness, path: str, body: Json, headers: Mapping[str, str]
) -> None:
    answer = scene.send("POST", path, body, headers=headers).text

    assert "read_file" in answer
    assert "a.txt" in answer


def test_a_directed_tool_that_the_caller_does_not_offer_is_not_called(
    scene: SimulatorHarness,
) -> None:
    body = CHAT | {"messages": [user("[[call:delete_file {}]]")], "tools": [TOOL]}

    assert "tool_calls" not in scene.send("POST", "chat/completions", body, headers=BEARER).text
