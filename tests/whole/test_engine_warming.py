"""Warming of a real engine: what its cache holds when the call comes, and what that saves."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from proxy.tools.engine_demo.measure import long_system
from tests.fakes.engine_fleet import EngineFleet, engine_fleet
from tests.fakes.real_replicas import RealReplicas
from tests.fakes.tiny_engine import needs_wheel

T = TypeVar("T")

pytestmark = needs_wheel
_PATIENCE_S = 60.0
_METRIC = "thriftgate_engine_warming"
#: As templates of reasoning models do it: an answer is opened with empty reasoning, which earlier
#: answers are written without. So the engine's own cache of its answer does not fit the next turn.
_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think></think>{% endif %}"
)


class StreamReport(NamedTuple):
    """An engine's report of a call: its text, the tokens of its prompt, and its reading of it."""

    text: str
    prompt: int
    cached: int
    prefill_ms: float
    ttft_ms: float


async def ask(
    fleet: EngineFleet, messages: list[dict[str, str]], max_tokens: int = 2
) -> StreamReport:
    """Timings and usage that the engine reports of a stream."""
    body = {
        "model": "house-llm",
        "messages": messages,
        "max_tokens": max_tokens,
        "stream": True,
        "temperature": 0,
        "ignore_eos": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"authorization": f"Bearer {fleet.keys[fleet.url]}"}
    text, last, first_at = "", dict[str, Any](), 0.0
    began = time.monotonic()
    url = f"{fleet.url}/chat/completions"
    async with fleet.client.stream("POST", url, json=body, headers=headers) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line[6:])
                text += "".join(c["delta"].get("content") or "" for c in chunk["choices"])
                first_at = first_at or (time.monotonic() if text else 0.0)
                last |= chunk
    usage, timings = last["usage"], last["timings"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    ttft_ms = round((first_at - began) * 1_000, 1)
    return StreamReport(text, usage["prompt_tokens"], cached, timings["prompt_ms"], ttft_ms)


async def warmed_prompts(fleet: EngineFleet, kind: str, result: str = "warmed") -> float:
    """Prompts of this kind so far."""
    return await figure(fleet, f'{_METRIC}_prompts_total{{engine="house",kind="{kind}"', result)


async def gained_figure(fleet: EngineFleet, figure_name: str, kind: str) -> float:
    """A figure of what calls found warmed."""
    return await figure(fleet, f'{_METRIC}_{figure_name}_total{{engine="house"', kind)


async def figure(fleet: EngineFleet, start: str, label: str) -> float:
    for line in (await fleet.metrics()).splitlines():
        if line.startswith(start) and f'"{label}"' in line:
            return float(line.rpartition(" ")[2])
    return 0.0


async def wait_for(condition: Callable[[], Awaitable[bool]]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not await condition():
        assert time.monotonic() < until
        await asyncio.sleep(0.05)


def with_fleet(
    folder: Path, story: Callable[[EngineFleet, RealReplicas], Awaitable[T]], table: str
) -> T:
    folder.mkdir()

    async def whole() -> T:
        replicas = RealReplicas("--chat-template", _TEMPLATE)
        async with engine_fleet(folder, replicas=1, start=replicas.start, table=table) as fleet:
            await wait_for(lambda: _is_read(fleet))
            return await story(fleet, replicas)

    return asyncio.run(whole())


async def _is_read(fleet: EngineFleet) -> bool:
    """True once the gateway has read the engine's page."""
    return "thriftgate_engine_running{" in await fleet.metrics()


def test_the_next_turn_of_a_conversation_is_warm_when_it_comes(
    tmp_path: Path, record_property: Callable[[str, object], None]
):
    def talk(table: str) -> StreamReport:
        async def story(fleet: EngineFleet, _: RealReplicas) -> StreamReport:
            messages = [{"role": "user", "content": "Which plans are there?"}]
            answer = (await ask(fleet, messages, max_tokens=900)).text
            if table:
                await wait_for(lambda: _is_above(warmed_prompts(fleet, "next_turn"), 0))
            messages.append({"role": "assistant", "content": answer})
            reply = await ask(fleet, [*messages, {"role": "user", "content": "And now?"}])
            if table:
                await wait_for(
                    lambda: _is_above(gained_figure(fleet, "used_tokens", "next_turn"), 600)
                )
                assert await gained_figure(fleet, "used_calls", "next_turn") == 1.0
            return reply

        return with_fleet(tmp_path / (table.partition(" ")[0] or "cold"), story, table)

    cold, warm = talk(""), talk("warming = true")

    record_property("cold, warmed", (cold[1:], warm[1:]))
    assert cold.prompt == warm.prompt > 800
    assert cold.cached < 0.2 * cold.prompt
    assert warm.cached > 0.9 * warm.prompt
    assert warm.prefill_ms < cold.prefill_ms / 2


async def _is_healthy(fleet: EngineFleet) -> bool:
    start = 'thriftgate_engine_healthy{engine="house"'
    return await figure(fleet, start, "house:0") == 1.0


async def _is_above(value: Awaitable[float], least: float) -> bool:
    return await value > least


def test_system_prompts_are_warm_again_after_an_engine_was_restarted(
    tmp_path: Path, record_property: Callable[[str, object], None]
):
    def again(table: str) -> tuple[StreamReport, list[str]]:
        async def story(
            fleet: EngineFleet, replicas: RealReplicas
        ) -> tuple[StreamReport, list[str]]:
            system = {"role": "system", "content": long_system("of this test")}
            for number in range(3):
                await ask(fleet, [system, {"role": "user", "content": f"Question {number}"}])
            await asyncio.sleep(1.1)  # the page of the engine is read each second
            await replicas.restart(0)
            await asyncio.sleep(1.1)
            await wait_for(lambda: _is_healthy(fleet))
            if table:
                await wait_for(lambda: _is_above(warmed_prompts(fleet, "system_prompt"), 0))
            answer = await ask(fleet, [system, {"role": "user", "content": "Once more"}])
            return answer, (await fleet.metrics()).splitlines()

        return with_fleet(tmp_path / (table.partition(" ")[0] or "cold"), story, table)

    cold, page = again("")
    assert not any(line.startswith(f"{_METRIC}_prompts_total") for line in page)
    warm, page = again("warming = { next_turn = false }")

    record_property("cold, warmed", (cold[1:], warm[1:]))
    assert cold.prompt == warm.prompt > 1_000
    assert cold.cached < 0.1 * cold.prompt
    assert warm.cached > 0.9 * warm.prompt
    assert warm.prefill_ms < cold.prefill_ms / 2
    (cost,) = (line for line in page if line.startswith(f"{_METRIC}_cost_usd_total"))
    assert float(cost.rpartition(" ")[2]) > 0


def test_a_prompt_that_was_typed_before_it_was_sent_gained_its_tokens_and_has_a_cost(
    tmp_path: Path, record_property: Callable[[str, object], None]
):
    async def story(fleet: EngineFleet, _: RealReplicas) -> dict[str, float]:
        typed = long_system("of a question that is being typed")
        await ask(fleet, [{"role": "user", "content": long_system("to measure prefill by")}])
        await asyncio.sleep(1.1)  # the page of the engine is read each second
        body = {"model": "house-llm", "messages": [{"role": "user", "content": typed}]}
        headers = {"authorization": f"Bearer {fleet.keys[fleet.url]}"}
        url = f"{fleet.url}/thriftgate/prefill"
        assert (await fleet.client.post(url, json=body, headers=headers)).status_code == 200
        assert await gained_figure(fleet, "used_calls", "typed") == 0.0
        await ask(fleet, [{"role": "user", "content": f"{typed} Which plans are there?"}])
        await wait_for(lambda: _is_above(gained_figure(fleet, "used_calls", "typed"), 0))
        names = ("prompts", "tokens", "cost_usd", "used_calls", "used_tokens", "saved_seconds")
        return {name: await gained_figure(fleet, name, "typed") for name in names}

    reports = with_fleet(tmp_path / "typed", story, "")

    record_property("gain of typed prompts", reports)
    assert (reports["prompts"], reports["used_calls"]) == (1.0, 1.0)
    assert reports["tokens"] >= reports["used_tokens"] > 1_000
    assert reports["cost_usd"] > 0
    assert reports["saved_seconds"] > 0


def test_a_call_that_comes_while_a_prompt_is_warmed_does_not_wait_for_it(tmp_path: Path):
    async def story(fleet: EngineFleet, _: RealReplicas) -> tuple[float, float]:
        long: list[dict[str, Any]] = [{"role": "user", "content": long_system("a") * 2}]
        await ask(fleet, long)
        for _number in range(400):
            if (await warmed_prompts(fleet, "next_turn", "cancelled")) > 0:
                break
            await ask(fleet, [{"role": "user", "content": "Hello"}], max_tokens=1)
            await asyncio.sleep(0.06)
        return (await warmed_prompts(fleet, "next_turn", "cancelled")), await warmed_prompts(
            fleet, "next_turn", "failed"
        )

    cancelled, failed = with_fleet(tmp_path / "busy", story, "warming = true")

    assert cancelled > 0
    assert failed == 0


class ApiTurn(NamedTuple):
    """A call of an API: its answer as its caller sends it back, and the engine's tokens."""

    answer: list[Any]
    prompt: int
    cached: int


async def ask_by_api(
    fleet: EngineFleet, endpoint: str, turns: list[Any], system: str, max_tokens: int = 2
) -> ApiTurn:
    """Ask for the answer to a conversation, by Responses or Messages."""
    shape = {"temperature": 0, "model": "house-llm", "ignore_eos": True}
    if endpoint == "responses":
        body = shape | {"instructions": system, "input": turns, "max_output_tokens": max_tokens}
    else:
        body = shape | {"system": system, "messages": turns, "max_tokens": max_tokens}
    headers = {"authorization": f"Bearer {fleet.keys[fleet.url]}"}
    url = f"{fleet.url}/{endpoint}"
    answer = await fleet.client.post(url, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    message = answer.json()
    usage = message["usage"]
    if endpoint == "responses":
        cached = usage["input_tokens_details"]["cached_tokens"]
        return ApiTurn(message["output"], usage["input_tokens"], cached)
    cached = usage["cache_read_input_tokens"]
    reply = [{"role": "assistant", "content": message["content"]}]
    return ApiTurn(reply, usage["input_tokens"] + cached, cached)


@pytest.mark.parametrize("endpoint", ["responses", "messages"])
def test_the_next_turn_of_a_conversation_by_another_api_is_warm_when_it_comes(
    tmp_path: Path, endpoint: str
):
    def talk(table: str) -> ApiTurn:
        async def story(fleet: EngineFleet, _: RealReplicas) -> ApiTurn:
            turns: list[Any] = [{"role": "user", "content": "Which plans are there?"}]
            answer = (await ask_by_api(fleet, endpoint, turns, "Be kind.", 600)).answer
            if table:
                await wait_for(lambda: _is_above(warmed_prompts(fleet, "next_turn"), 0))
            turns += [*answer, {"role": "user", "content": "And now?"}]
            return await ask_by_api(fleet, endpoint, turns, "Be kind.")

        return with_fleet(tmp_path / (table.partition(" ")[0] or "cold"), story, table)

    cold, warm = talk(""), talk("warming = true")

    # Messages has no field to go on after the model's end, so its answer is short.
    assert cold.prompt == warm.prompt > (500 if endpoint == "responses" else 80)
    unread_cold, unread_warm = cold.prompt - cold.cached, warm.prompt - warm.cached
    assert unread_warm < 0.7 * unread_cold, (cold, warm)


@pytest.mark.parametrize("endpoint", ["responses", "messages"])
def test_system_prompts_of_other_apis_are_warm_again_after_an_engine_was_restarted(
    tmp_path: Path, endpoint: str
):
    async def story(fleet: EngineFleet, replicas: RealReplicas) -> ApiTurn:
        system = long_system("of this test")
        for number in range(3):
            await ask_by_api(fleet, endpoint, [_question(number)], system)
        await asyncio.sleep(1.1)  # the page of the engine is read each second
        await replicas.restart(0)
        await asyncio.sleep(1.1)
        await wait_for(lambda: _is_healthy(fleet))
        await wait_for(lambda: _is_above(warmed_prompts(fleet, "system_prompt"), 0))
        return await ask_by_api(fleet, endpoint, [_question(9)], system)

    again = with_fleet(tmp_path / "warm", story, "warming = { next_turn = false }")

    assert again.prompt > 1_000
    assert again.cached > 0.9 * again.prompt


def _question(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"Question {number}"}
