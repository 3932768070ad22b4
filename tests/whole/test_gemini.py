"""OpenAI's and Anthropic's SDKs against a gateway before an upstream that speaks Google's API."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import openai
import orjson
import pytest
from starlette.types import Receive, Scope, Send

from proxy.app import gateway
from proxy.records.receipt import Outcome
from proxy.settings import Settings
from proxy.tools.simulator.server import serving
from tests.fakes.background_loop import running_in_thread
from tests.fakes.databases import migrated_sqlite
from tests.fakes.gateway_fixture import PRICE
from tests.fakes.gemini_answers import USAGE, answer, call, event_stream
from tests.fakes.plain_http import PLAIN

_CATALOG = """
default = "google"

[upstreams.google]
kind = "gemini"
base_url = "{url}"
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
        heard, more = b"", True
        while more:
            message = await receive()
            heard += message.get("body", b"")
            more = message.get("more_body", False)
        assert dict(scope["headers"])[b"x-goog-api-key"] == b"google-secret"
        body = orjson.loads(heard)
        self.heard.append((scope["path"], body))
        is_first = len(body["contents"]) == 1
        parts = [call(signature="c2ln", id="c0")] if is_first else [{"text": "Rain."}]
        pieces = answer({"text": "Hm", "thought": True}), answer(*parts, finish="STOP", usage=USAGE)
        streams = scope["query_string"] == b"alt=sse"
        kind = b"text/event-stream" if streams else b"application/json"
        content = event_stream(*pieces) if streams else orjson.dumps(pieces[1])
        head = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}
        await send(head)
        await send({"type": "http.response.body", "body": content, "more_body": False})


@dataclass(frozen=True)
class GoogleGateway:
    """A gateway before such an upstream."""

    url: str
    key: str
    upstream: GoogleUpstream
    receipts: Any


@asynccontextmanager
async def _running(folder: Path) -> AsyncIterator[GoogleGateway]:
    upstream = GoogleUpstream()
    async with serving(upstream) as there:
        catalog = folder / "catalog.toml"
        address = there.removesuffix("/v1") + "/v1beta"
        catalog.write_text(_CATALOG.format(url=address, price=PRICE))
        chosen = Settings(folder=folder / "gateway", catalog=catalog, retries=0)
        migrated_sqlite(chosen.folder / "thriftgate.db")
        async with gateway(chosen) as running, serving(running.app) as url:
            store = running.store
            team = store.teams.create("acme", now=1_790_000_000.0)
            _, key = store.teams.create_key(team.id, "first", now=1_790_000_000.0)

            def receipts(call_id: str) -> Any:
                return store.ledger.call_receipts(call_id, team.id)

            yield GoogleGateway(url, key, upstream, receipts)
            assert store.drain.flush(20)


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleGateway]:
    monkeypatch.setenv("GOOGLE_KEY", "google-secret")
    with running_in_thread(lambda: _running(tmp_path)) as running:
        yield running


def test_a_chat_with_a_call_goes_there_and_back_streamed(google: GoogleGateway) -> None:
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
    (path, _), (streamed, second) = google.upstream.heard

    assert path == "/v1beta/models/gemini-lab:generateContent"
    assert streamed == "/v1beta/models/gemini-lab:streamGenerateContent"
    assert second["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"
    assert second["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "low"
    assert "".join(delta.content or "" for delta in deltas) == "Rain."
    (receipt,) = google.receipts(raw.headers["x-request-id"])
    assert receipt.outcome is Outcome.ANSWERED
    assert (receipt.usage.input, receipt.usage.cache_read) == (40, 60)
    assert (receipt.usage.output, receipt.usage.reasoning) == (7, 2)


def test_a_message_with_a_call_goes_there_and_back_streamed(google: GoogleGateway) -> None:
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
    _, (_, second) = google.upstream.heard

    assert first.stop_reason == "tool_use"
    assert (first.usage.input_tokens, first.usage.cache_read_input_tokens) == (40, 60)
    assert second["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"
    assert last.content[-1].text == "Rain."
