"""Faults of a real llama.cpp server behind a gateway that leave its process running."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2

from proxy.services.engines.replica_monitor import DEADLINE_S
from tests.fakes.engine_fleet import EngineFleet, engine_fleet
from tests.fakes.real_replicas import RealReplicas
from tests.fakes.tiny_engine import needs_wheel

pytestmark = needs_wheel
#: Tokens of a slot's context; the tiny model has about one for three letters.
CONTEXT = 4_096


class MetricsRelay:
    """Relays connections to a server, but for calls of its metrics, which get no answer.

    Attributes:
        is_hung: Set once there was one.
    """

    def __init__(self, base_url: str) -> None:
        self._target = urlsplit(base_url)
        self.is_hung = asyncio.Event()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """The relay's base URL."""
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target.hostname, self._target.port
        onward, upstream_reader = await asyncio.open_connection(host, port)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._copy(reader, upstream_reader))
                tasks.create_task(self._copy(onward, writer))
        finally:
            writer.close()
            upstream_reader.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while some := await reader.read(65_536):
            if some.startswith(b"GET /metrics"):
                self.is_hung.set()
                continue
            writer.write(some)
            await writer.drain()
        writer.close()


def play(
    tmp_path: Path,
    story: Callable[[EngineFleet, list[MetricsRelay]], Awaitable[None]],
) -> RealReplicas:
    """Play a story with one gateway before real servers whose metrics hang."""
    replicas, relays = RealReplicas(), list[MetricsRelay]()

    @asynccontextmanager
    async def start() -> AsyncIterator[str]:
        async with replicas.start() as url:
            relays.append(MetricsRelay(url))
            async with relays[-1].serve() as relayed:
                yield relayed

    async def run() -> None:
        async with engine_fleet(tmp_path, start=start) as fleet:
            await story(fleet, relays)
            assert all(process.poll() is None for process in replicas.processes)

    asyncio.run(run())
    return replicas


async def post(fleet: EngineFleet, content: str, **fields: Any) -> httpx2.Response:
    body = {"model": "house-llm", "messages": [{"role": "user", "content": content}], **fields}
    headers = {"authorization": f"Bearer {fleet.keys[fleet.url]}"}
    return await fleet.client.post(f"{fleet.url}/chat/completions", json=body, headers=headers)


def test_calls_are_answered_while_the_metrics_of_their_engines_hang(tmp_path: Path) -> None:
    async def story(fleet: EngineFleet, relays: list[MetricsRelay]) -> None:
        first = await post(fleet, "Tell me a story.", max_tokens=8)
        async with asyncio.timeout(30):
            await asyncio.gather(*(relay.is_hung.wait() for relay in relays))
        await asyncio.sleep(2 * DEADLINE_S)
        second = await post(fleet, "Tell me a story.", max_tokens=8)
        text = await fleet.metrics()

        assert (first.status_code, second.status_code) == (200, 200)
        assert int(second.headers["x-thriftgate-cached-tokens"]) > 0
        assert text.count("thriftgate_engine_healthy{") == len(relays)
        assert 'thriftgate_engine_healthy{engine="house",replica="house:0"} 1.0' in text
        assert "thriftgate_engine_running{" not in text

    play(tmp_path, story)


def test_a_prompt_that_no_kv_memory_has_room_for_goes_to_the_provider_and_the_engine_goes_on(
    tmp_path: Path,
) -> None:
    async def story(fleet: EngineFleet, _: list[MetricsRelay]) -> None:
        long = await post(fleet, "word " * 3 * CONTEXT, max_tokens=8)
        short = await post(fleet, "Tell me a story.", max_tokens=8)

        assert long.status_code == 200, long.text
        assert long.json()["model"] == "spare"
        assert short.status_code == 200
        assert short.json()["model"] != "spare"

    play(tmp_path, story)


class CallerAnswer(NamedTuple):
    """A caller's answer: its status and its text, and the attempts of its call."""

    status: int
    text: str
    attempts: list[dict[str, Any]]


async def ask(fleet: EngineFleet, content: str, *, stream: bool) -> CallerAnswer:
    """The whole answer to a call for many tokens."""
    answer = await post(fleet, content, stream=stream, max_tokens=1_400, ignore_eos=True)
    call = f"{fleet.url}/thriftgate/calls/{answer.headers['x-request-id']}"
    headers = {"authorization": f"Bearer {fleet.keys[fleet.url]}"}
    for _ in range(600):
        call_answer = await fleet.client.get(call, headers=headers)
        if call_answer.status_code == 200:
            return CallerAnswer(answer.status_code, answer.text, call_answer.json()["attempts"])
        await asyncio.sleep(0.1)
    raise AssertionError(call)


def has_failed(answers: list[CallerAnswer]) -> bool:
    """True if the engine failed one of these calls."""
    return any(answer.attempts[0]["outcome"] in {"failed", "broken"} for answer in answers)


def test_kv_memory_that_calls_at_once_exhaust_fails_over_or_ends_begun_streams_with_an_error(
    tmp_path: Path,
) -> None:
    """One memory for all slots has room for one of these calls, and four come at once."""

    async def story() -> tuple[list[CallerAnswer], httpx2.Response]:
        replicas = RealReplicas("--kv-unified", "--ctx-size", "2048", "--cache-ram", "0")
        async with engine_fleet(tmp_path, replicas=1, start=replicas.start) as fleet:
            answers: list[CallerAnswer] = []
            for _ in range(10):  # beside other work they may come one after the other
                calls = (ask(fleet, f"{n} word " * 150, stream=bool(n % 2)) for n in range(4))
                answers = await asyncio.gather(*calls)
                if has_failed(answers):
                    break
            assert replicas.processes[0].poll() is None
            return answers, await post(fleet, "Tell me a story.", max_tokens=8)

    answers, after = asyncio.run(story())
    plain, streams = answers[::2], answers[1::2]

    assert [answer.status for answer in answers] == [200] * 4
    assert has_failed(answers)
    for answer in plain:
        assert '"error"' not in answer.text
        assert answer.attempts[-1]["outcome"] == "answered"
    for answer in streams:
        is_broken = answer.attempts[-1]["outcome"] == "broken"
        assert is_broken == ('"error"' in answer.text)
        assert is_broken or answer.text.rstrip().endswith("data: [DONE]")
        assert answer.attempts[-1]["usage"]["output"] > 0
    assert after.status_code == 200
    assert after.json()["model"] != "spare"


def test_an_answer_that_fills_the_kv_memory_ends_there_and_the_engine_goes_on(
    tmp_path: Path,
) -> None:
    async def story(fleet: EngineFleet, _: list[MetricsRelay]) -> None:
        full = await post(fleet, "word " * 1_100, max_tokens=2 * CONTEXT, ignore_eos=True)
        short = await post(fleet, "Tell me a story.", max_tokens=8)
        usage = full.json()["usage"]

        assert full.status_code == 200, full.text
        assert full.json()["choices"][0]["finish_reason"] == "length"
        assert CONTEXT - 8 <= usage["prompt_tokens"] + usage["completion_tokens"] <= CONTEXT + 8
        assert short.status_code == 200

    play(tmp_path, story)
