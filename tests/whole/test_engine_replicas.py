"""Two gateways before two real engines, which share nothing: they agree on homes of prefixes."""

import asyncio
import json
import os
import signal
import subprocess
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx2

from tests.fakes.engine_fleet import EngineFleet, engine_fleet
from tests.fakes.real_replicas import RealReplicas
from tests.fakes.tiny_engine import needs_wheel

pytestmark = needs_wheel
_PATIENCE_S = 60.0
_TEXT = "The clerk wrote down what was agreed, and read it aloud once more. " * 8


async def talk(fleet: EngineFleet, urls: list[str], conversations: int, turns: int) -> list[int]:
    """Hold conversations in turn, each call at the next of these addresses; tokens.

    Returns:
        Prompt tokens, those that one large cache would have had, and those that were cached.
    """
    totals, next_url = [0, 0, 0], cycle(urls)
    texts: list[list[dict[str, str]]] = [
        [{"role": "system", "content": f"Case {n}. {_TEXT}"}] for n in range(conversations)
    ]
    before = [0] * conversations
    for turn in range(turns):
        for n, messages in enumerate(texts):
            messages.append({"role": "user", "content": f"{turn}: {_TEXT}"})
            usage = (await post(fleet, next(next_url), messages)).json()["usage"]
            messages.append({"role": "assistant", "content": f"Noted, {turn}."})
            prompt = usage["prompt_tokens"]
            totals[0] += prompt
            totals[1] += before[n]
            totals[2] += usage["prompt_tokens_details"]["cached_tokens"]
            before[n] = prompt
    return totals


async def post(
    fleet: EngineFleet, url: str, messages: list[dict[str, str]], **fields: Any
) -> httpx2.Response:
    """The answer of a gateway or an engine."""
    body = {"model": "house-llm", "messages": messages, "max_tokens": 4, **fields}
    headers = {"authorization": f"Bearer {fleet.keys.get(url, 'none')}"}
    answer = await fleet.client.post(f"{url}/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def test_two_gateways_reuse_prefixes_as_one_large_cache_would_and_round_robin_does_not(
    tmp_path: Path,
) -> None:
    async def story() -> tuple[float, float]:
        replicas = RealReplicas()
        async with engine_fleet(tmp_path, gateways=2, start=replicas.start) as fleet:
            # An odd number, so that each conversation changes its address from turn to turn.
            _, possible, routed = await talk(fleet, list(fleet.keys), 5, 4)
            routed_share = routed / possible
        replicas = RealReplicas()
        async with engine_fleet(tmp_path / "b", start=replicas.start) as fleet:
            _, possible, turned = await talk(fleet, fleet.urls, 5, 4)
            return routed_share, turned / possible

    (tmp_path / "b").mkdir()
    routed, in_turn = asyncio.run(story())

    assert routed > 0.9
    assert in_turn < routed - 0.15


def test_a_replica_killed_in_a_stream_ends_it_with_an_error_and_the_next_calls_go_elsewhere(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        replicas = RealReplicas()
        async with engine_fleet(tmp_path, start=replicas.start) as fleet:
            messages = [{"role": "user", "content": _TEXT}]
            first = await post(fleet, fleet.url, messages)
            name = first.headers["x-thriftgate-replica"].partition(";")[0]
            text, call = await _kill_in_stream(fleet, replicas.processes[int(name[-1])], messages)
            assert '"error"' in text
            assert "[DONE]" not in text

            after = await post(fleet, fleet.url, messages)
            assert after.headers["x-thriftgate-replica"].partition(";")[0] != name
            assert await _receipt(fleet, call) == ("broken", True)

    asyncio.run(story())


def test_a_replica_killed_while_it_reads_a_prompt_costs_its_caller_time_and_no_answer(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        # Small batches, for an engine tells its load between two of them.
        replicas = RealReplicas("--batch-size", "128")
        async with engine_fleet(tmp_path, start=replicas.start) as fleet:
            messages = [{"role": "user", "content": _TEXT * 15}]
            async with asyncio.TaskGroup() as tasks:
                call = tasks.create_task(post(fleet, fleet.url, messages))
                number = await _busy_replica(fleet)
                assert not call.done()
                os.kill(replicas.processes[number].pid, signal.SIGKILL)
            answer = call.result()

            assert answer.headers["x-thriftgate-replica"].startswith(f"house:{1 - number};")
            attempts = await _attempts(fleet, answer.headers["x-request-id"])
            assert [attempt["outcome"] for attempt in attempts] == ["failed", "answered"]
            assert attempts[0]["upstream"] == f"house:{number}"

    asyncio.run(story())


async def _busy_replica(fleet: EngineFleet) -> int:
    """The number of the replica that works on a call, once one does."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            for number, url in enumerate(fleet.urls):
                page = await fleet.client.get(f"{url.removesuffix('/v1')}/metrics")
                if "llamacpp:requests_processing 1" in page.text:
                    return number
            await asyncio.sleep(0.01)


async def _kill_in_stream(
    fleet: EngineFleet, process: subprocess.Popen[bytes], messages: list[dict[str, str]]
) -> tuple[str, str]:
    """A stream whose engine is killed at the first words, and the id of its call."""
    body = {"model": "house-llm", "messages": messages, "max_tokens": 3_000, "stream": True}
    body["ignore_eos"] = True
    headers = {"authorization": f"Bearer {fleet.keys[fleet.url]}"}
    pieces = []
    async with asyncio.TaskGroup() as tasks:
        slices = tasks.create_task(_run_in_slices(process))
        async with fleet.client.stream(
            "POST", f"{fleet.url}/chat/completions", json=body, headers=headers
        ) as answer:
            async for piece in answer.aiter_text():
                pieces.append(piece)
                if '"content":"' in piece:
                    slices.cancel()
                    process.kill()
    return "".join(pieces), answer.headers["x-request-id"]


async def _run_in_slices(process: subprocess.Popen[bytes]) -> None:
    """Let an engine run for moments: it would end its answer before a busy machine reads it."""
    while True:
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(0.1)
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.01)


async def _receipt(fleet: EngineFleet, call: str) -> tuple[str, bool]:
    """The outcome of a call, and whether it has a cost for generated tokens."""
    last = (await _attempts(fleet, call))[-1]
    return last["outcome"], last["usage"]["output"] > 0 and float(last["cost_usd"]) > 0


async def _attempts(fleet: EngineFleet, call: str) -> list[dict[str, Any]]:
    """The attempts of a call, once they are in the ledger."""
    until = time.monotonic() + _PATIENCE_S
    headers = {"authorization": f"Bearer {fleet.keys[fleet.url]}"}
    while time.monotonic() < until:
        answer = await fleet.client.get(f"{fleet.url}/thriftgate/calls/{call}", headers=headers)
        if answer.status_code == 200:
            attempts: list[dict[str, Any]] = json.loads(answer.text)["attempts"]
            return attempts
        await asyncio.sleep(0.05)
    raise AssertionError(call)
