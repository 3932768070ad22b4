"""OpenAI's and Anthropic's SDKs against a gateway before an upstream that speaks Google's API."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import orjson
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from proxy.records.receipt import Outcome
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import ServedGateway, gateway_before
from tests.fakes.gemini_answers import USAGE, answer, call, event_stream
from tests.fakes.plain_http import PLAIN

_CATALOG = """
default = "google"

[upstreams.google]
kind = "gemini"
base_url = "{url}beta"
key_env = "GOOGLE_KEY"
provider = "google"

[[models]]
id = "gemini-lab"
upstream = "google"
price = {price}
"""
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
USER = {"role": "user", "content": "Weather?"}


class GoogleUpstream:
    """Answers each first turn with a call and each later one with words, as Google does.

    Attributes:
        heard: The path and body of each request.
    """

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert dict(scope["headers"])[b"x-goog-api-key"] == b"google-secret"
        body = orjson.loads(await Request(scope, receive).body())
        self.heard.append((scope["path"], body))
        is_first = len(body["contents"]) == 1
        parts = [call(signature="c2ln", id="c0")] if is_first else [{"text": "Rain."}]
        pieces = answer({"text": "Hm", "thought": True}), answer(*parts, finish="STOP", usage=USAGE)
        streams = scope["query_string"] == b"alt=sse"
        kind = "text/event-stream" if streams else "application/json"
        content = event_stream(*pieces) if streams else orjson.dumps(pieces[1])
        await Response(content, media_type=kind)(scope, receive, send)


@pytest.fixture
def upstream() -> GoogleUpstream:
    return GoogleUpstream()


@pytest.fixture
def google(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upstream: GoogleUpstream
) -> Iterator[ServedGateway]:
    monkeypatch.setenv("GOOGLE_KEY", "google-secret")
    with running_in_thread(lambda: gateway_before(upstream, tmp_path, _CATALOG)) as running:
        yield running


def test_a_chat_with_a_call_goes_there_and_back_streamed(
    google: ServedGateway, upstream: GoogleUpstream
) -> None:
    http = openai.DefaultHttpxClient(verify=PLAIN)
    client: Any = openai.OpenAI(base_url=google.url, api_key=google.key, http_client=http)
    raw = client.chat.completions.with_raw_response.create(
        model="gemini-lab", messages=[USER], tools=[WEATHER]
    )
    used = raw.parse().choices[0].message
    turns = [USER, used.to_dict(), {"role": "tool", "tool_call_id": "c0", "content": "rain"}]
    stream = client.chat.completions.create(
        model="gemini-lab", messages=turns, tools=[WEATHER], stream=True, reasoning_effort="low"
    )
    deltas = [piece.choices[0].delta for piece in stream if piece.choices]
    client.close()
    (path, _), (streamed, second) = upstream.heard

    assert path == "/v1beta/models/gemini-lab:generateContent"
    assert streamed == "/v1beta/models/gemini-lab:streamGenerateContent"
    assert second["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"
    assert second["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "low"
    assert "".join(delta.content or "" for delta in deltas) == "Rain."
    (receipt,) = google.receipts(raw.headers["x-request-id"])
    assert receipt.outcome is Outcome.ANSWERED
    assert receipt.usage is not None
    assert (receipt.usage.input, receipt.usage.cache_read) == (40, 60)
    assert (receipt.usage.output, receipt.usage.reasoning) == (7, 2)


def test_a_message_with_a_call_goes_there_and_back_streamed(
    google: ServedGateway, upstream: GoogleUpstream
) -> None:
    http = anthropic.DefaultHttpxClient(verify=PLAIN)
    client: Any = anthropic.Anthropic(
        base_url=google.url.removesuffix("/v1"), api_key=google.key, http_client=http
    )
    body: dict[str, Any] = {
        "model": "gemini-lab",
        "max_tokens": 99,
        "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
        "thinking": {"type": "adaptive"},
    }
    with client.messages.stream(**body, messages=[USER]) as stream:
        first = stream.get_final_message()
    used = first.content[-1]
    result = {"type": "tool_result", "tool_use_id": used.id, "content": "rain"}
    turns = [USER, {"role": "assistant", "content": first.content},
             {"role": "user", "content": [result]}]  # fmt: skip
    with client.messages.stream(**body, messages=turns) as stream:
        last = stream.get_final_message()
    client.close()
    _, (_, second) = upstream.heard

    assert first.stop_reason == "tool_use"
    assert (first.usage.input_tokens, first.usage.cache_read_input_tokens) == (40, 60)
    assert second["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"
    assert last.content[-1].text == "Rain."
