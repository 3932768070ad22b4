"""Streams of engines that break or come in odd pieces, over HTTP, by a whole gateway."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx2
import pytest

from proxy.app import gateway
from proxy.settings import Settings
from proxy.tools.simulator.server import serving as serving_app
from slo.breaker import CONSECUTIVE_FAILURES
from tests.fakes.databases import migrated_sqlite
from tests.fakes.server import Server, Step, chunked_body, head, serving

T = TypeVar("T")
_NOW = 1_790_000_000.0
_HEAD = head(200, "content-type: text/event-stream", "transfer-encoding: chunked")
#: As vLLM words it, when its worker was killed.
_ERROR = {"error": {"message": "EngineCore encountered an issue", "type": "x", "code": 500}}
_USAGE = {"prompt_tokens": 8, "completion_tokens": 3, "total_tokens": 11}
WORDS = ["Good", " day", " to you"]


def event(**fields: Any) -> bytes:
    return b"data: %s\n\n" % json.dumps(fields).encode()


def token(text: str, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None, **fields}
    return event(id="chatcmpl-1", object="chat.completion.chunk", choices=[choice])


ERROR = event(**_ERROR) + b"data: [DONE]\n\n"
END = (
    token("", finish_reason="stop")
    + event(id="chatcmpl-1", choices=[], usage=_USAGE)
    + b"data: [DONE]\n\n"
)
WHOLE = b"".join(map(token, WORDS)) + END


def in_pieces(text: bytes, size: int) -> list[Step]:
    """An answer whose bytes come in TCP pieces of so many bytes, each in a chunk of its own."""
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return [_HEAD, *(chunked_body(piece, ends=False) for piece in pieces), b"0\r\n\r\n"]


class Stream(NamedTuple):
    """A stream as its caller got it, and its attempts."""

    text: str
    attempts: list[dict[str, Any]]

    @property
    def said(self) -> str:
        """The words of all its chunks."""
        lines = [line[6:] for line in self.text.splitlines() if line.startswith("data: {")]
        chunks = [json.loads(line) for line in lines]
        choices = [choice for chunk in chunks for choice in chunk.get("choices", ())]
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each attempt."""
        return [attempt["outcome"] for attempt in self.attempts]


class GatewayBeforeEngines:
    """A gateway before engines that answer with raw bytes."""

    def __init__(self, client: httpx2.AsyncClient, url: str, key: str) -> None:
        self._client, self._url = client, url
        self._headers = {"authorization": f"Bearer {key}"}

    async def stream(self, question: object = "Hello") -> Stream:
        """A stream's text, and its attempts as the ledger has them."""
        messages = [{"role": "user", "content": f"{question}"}]
        body = {"model": "house-llm", "messages": messages, "stream": True}
        answer = await self._client.post(
            f"{self._url}/chat/completions", json=body, headers=self._headers
        )
        assert answer.status_code == 200, answer.text
        call = f"{self._url}/thriftgate/calls/{answer.headers['x-request-id']}"
        for _ in range(200):
            receipt_answer = await self._client.get(call, headers=self._headers)
            if receipt_answer.status_code == 200:
                return Stream(answer.text, receipt_answer.json()["attempts"])
            await asyncio.sleep(0.05)
        raise AssertionError(call)

    async def open_routes(self) -> list[str]:
        """Routes whose breakers are open."""
        page = (await self._client.get(f"{self._url.removesuffix('/v1')}/metrics")).text
        lines = [line for line in page.splitlines() if line.startswith("thriftgate_route_open{")]
        return [line.split('"')[1] for line in lines if line.endswith(" 1.0")]


@asynccontextmanager
async def house(folder: Path, *servers: Server) -> AsyncIterator[GatewayBeforeEngines]:
    urls = ", ".join(f'"{server.base_url}"' for server in servers)
    engines = folder / "engines.toml"
    engines.write_text(
        f'[engines.house]\nengine = "vllm"\nserved_name = "house-llm"\nreplicas = [{urls}]\n'
    )
    settings = Settings(folder=folder / "gateway", engines=engines)
    migrated_sqlite(settings.folder / "thriftgate.db")
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=30))
        running = await stack.enter_async_context(gateway(settings))
        team = running.store.teams.create("acme", now=_NOW)
        _, key = running.store.teams.create_key(team.id, "first", now=_NOW)
        url = await stack.enter_async_context(serving_app(running.app))
        yield GatewayBeforeEngines(client, url, key)


def play(
    folder: Path, story: Callable[[GatewayBeforeEngines], Awaitable[T]], *answers: Sequence[Step]
) -> T:
    """Play a story before one engine for each answer."""

    async def whole() -> T:
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(serving(answer)) for answer in answers]
            return await story(await stack.enter_async_context(house(folder, *servers)))

    return asyncio.run(whole())


def test_an_error_before_any_content_goes_to_another_engine_and_opens_the_breaker(tmp_path: Path):
    async def story(house: GatewayBeforeEngines) -> tuple[list[Stream], list[str]]:
        streams = [await house.stream(number) for number in range(30)]
        return streams, await house.open_routes()

    streams, opened = play(
        tmp_path, story, [_HEAD, chunked_body(ERROR)], [_HEAD, chunked_body(WHOLE)]
    )

    assert {stream.said for stream in streams} == {"Good day to you"}
    failed = [stream for stream in streams if stream.outcomes == ["failed", "answered"]]
    assert len(failed) == CONSECUTIVE_FAILURES
    assert opened == ["house:0/house-llm"]


def test_an_engine_that_breaks_each_answer_it_begins_gets_no_more_calls(tmp_path: Path):
    async def story(house: GatewayBeforeEngines) -> tuple[list[Stream], list[str]]:
        streams = [await house.stream(number) for number in range(30)]
        return streams, await house.open_routes()

    broken = [_HEAD, chunked_body(token("Good") + ERROR)]
    streams, opened = play(tmp_path, story, broken, [_HEAD, chunked_body(WHOLE)])

    lost = [stream for stream in streams if stream.outcomes == ["broken"]]
    assert len(lost) == CONSECUTIVE_FAILURES
    assert all(stream.said == "Good" and "error" in stream.text for stream in lost)
    assert all(stream.attempts[0]["usage"]["output"] > 0 for stream in lost)
    assert {stream.said for stream in streams if stream not in lost} == {"Good day to you"}
    assert opened == ["house:0/house-llm"]


PIECES: dict[str, Sequence[Step]] = {
    "one byte each": in_pieces(WHOLE, 1),
    "three bytes each": in_pieces(WHOLE, 3),
    "all at once": [_HEAD + chunked_body(WHOLE)],
    "line by line": [
        _HEAD,
        *(chunked_body(b"%s\n" % line, ends=False) for line in WHOLE.split(b"\n")[:-1]),
        b"0\r\n\r\n",
    ],
    "lines that end in CR LF": in_pieces(WHOLE.replace(b"\n", b"\r\n"), 7),
}


@pytest.mark.parametrize("pieces", PIECES)
def test_a_stream_is_whole_and_exactly_counted_however_it_is_cut_into_pieces(
    tmp_path: Path, pieces: str
):
    stream = play(tmp_path, lambda house: house.stream(), PIECES[pieces])

    assert stream.said == "Good day to you"
    assert stream.text.rstrip().endswith("data: [DONE]")
    ((only),) = stream.attempts
    assert only["outcome"] == "answered"
    assert (only["usage"]["input"], only["usage"]["output"]) == (8, 3)
    assert not only.get("estimated")
