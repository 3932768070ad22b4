"""Real vLLM without a draft model: what speculation is compared with, and a KV cache that is small.

Its tests run behind those of `test_vllm.py`, in the same process, once that engine has ended.
"""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx2
import pytest

from proxy.providers.sse import parse_events
from proxy.settings import Settings
from proxy.tools.simulator.server import serving
from tests.fakes.cutting_upstream import CUTTING_CATALOG, CuttingUpstream, text_of
from tests.fakes.figures import FIGURES
from tests.fakes.gateway_fixture import served_gateway
from tests.fakes.plain_http import PLAIN
from tests.fakes.served_vllm import PATIENCE_S, ServedEngine, attached_gateway, served_vllm
from tests.whole.test_vllm import bench, pytestmark  # noqa: F401 - skips as those do

#: Room for four of the letters below and 1,200 tokens of their answers.
CACHE_MIB = 9
LETTER_BYTES = 2_000
ANSWER_TOKENS = 500
FEW = ("--requests", "4")


@pytest.fixture(scope="module")
def plain_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedEngine]:
    folder = tmp_path_factory.mktemp("plain")
    with served_vllm(
        folder, draft_tokens=0, cache_mib=CACHE_MIB, before=attached_gateway
    ) as served:
        yield served


@pytest.mark.parametrize("path", ["direct", "through the gateway"])
def test_without_a_draft_model_it_has_a_speed_to_compare_with(plain_engine, path, record_property):
    key = f"authorization: Bearer {plain_engine.gateway.key}"
    cold, warm = (
        bench(plain_engine.url, *FEW)
        if path == "direct"
        else bench(plain_engine.gateway.url, "--header", key, *FEW)
    )
    miss, hit = cold["ttft_ms"]["p50"], warm["ttft_ms"]["p50"]
    figures = (
        f"TTFT of a new prompt {miss:.0f} ms, of a cached one {hit:.0f} ms ({miss / hit:.1f} times)"
    )
    speed = f"without a draft model {warm['output_tokens_per_s']:.0f} tokens/s"
    record_property(FIGURES, f"vLLM, {path}: {figures}; {speed}")

    assert cold["failed"] == warm["failed"] == 0
    assert warm["cached_share"] > 0.7
    assert cold["acceptance_rate"] is None
    assert warm["output_tokens_per_s"] > 0


def test_it_goes_on_with_a_stream_cut_midway_without_a_repeated_or_lost_word(
    plain_engine, tmp_path
):
    cutting, direct = CuttingUpstream(), f"{plain_engine.url}/v1"
    (tmp_path / "policies.toml").write_text('[[stream_continuation]]\nname = "all"\n')
    body = {"model": "tiny", "stream": True, "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    question = {"role": "user", "content": "Which plans are there?"}

    async def events_of(
        client: httpx2.AsyncClient, url: str, *messages: dict[str, str], **fields: Any
    ) -> list[bytes]:
        call = {**body, "messages": messages, **fields}
        answer = await client.post(f"{url}/chat/completions", json=call, timeout=PATIENCE_S)
        return [event.data for event in parse_events(answer.content)]

    async def cut_and_ask(client: httpx2.AsyncClient, url: str, left: int) -> tuple[str, ...]:
        """The beginning, what the gateway gives, and what the engine goes on with by itself."""
        beginning = text_of(cutting.events[:left])
        given = text_of(await cutting.cut_answer(left, partial(events_of, client, url, question)))
        last = {"role": "assistant", "content": beginning}
        goes_on = {"continue_final_message": True, "add_generation_prompt": False}
        return beginning, given, text_of(await events_of(client, direct, question, last, **goes_on))

    async def story() -> list[tuple[str, ...]]:
        async with (
            serving(cutting.app) as cutting_url,
            httpx2.AsyncClient(verify=PLAIN, trust_env=False) as client,
        ):
            catalog = tmp_path / "catalog.toml"
            catalog.write_text(CUTTING_CATALOG.format(cutting=cutting_url, engine=direct))
            settings = Settings(
                folder=tmp_path / "gateway", catalog=catalog, policies=tmp_path / "policies.toml"
            )
            cutting.events = await events_of(client, direct, question)
            async with served_gateway(settings) as gateway:
                client.headers["authorization"] = f"Bearer {gateway.key}"
                return [
                    await cut_and_ask(client, gateway.url, left)
                    for left in range(2, len(cutting.events) - 3)
                ]

    stories = asyncio.run(story())

    assert cutting.cut_count == len(stories) > 3  # several tokens may come in an event
    for beginning, given, rest in stories:
        continued = given.removeprefix(beginning)
        assert len(continued) < len(given)
        assert continued
        assert rest.startswith(continued)


def test_calls_that_outgrow_its_kv_cache_are_preempted_which_the_gateway_counts(plain_engine):
    gateway = plain_engine.gateway
    headers = {"authorization": f"Bearer {gateway.key}"}

    async def story() -> list[httpx2.Response]:
        async with httpx2.AsyncClient(timeout=PATIENCE_S, headers=headers) as client:
            bodies = (
                {
                    "model": "tiny",
                    "messages": [{"role": "user", "content": str(number) * LETTER_BYTES}],
                    "max_tokens": ANSWER_TOKENS,
                    "ignore_eos": True,
                }
                for number in range(4)
            )
            url = f"{gateway.url}/chat/completions"
            return await asyncio.gather(*(client.post(url, json=body) for body in bodies))

    answers = asyncio.run(story())
    preemptions = plain_engine.metric("vllm:num_preemptions_total")

    assert [answer.status_code for answer in answers] == [200] * 4
    assert [answer.json()["usage"]["completion_tokens"] for answer in answers] == [
        ANSWER_TOKENS
    ] * 4
    assert preemptions >= 1
    until = time.monotonic() + 30
    while (counted := counted_preemptions(plain_engine)) != preemptions:
        assert time.monotonic() < until, f"the gateway counts {counted}"
        time.sleep(0.2)


def counted_preemptions(engine: ServedEngine) -> float:
    """The gateway's own metric of them, as of when it last read the engine's page."""
    page = httpx2.get(f"{engine.gateway.url.removesuffix('/v1')}/metrics").text
    name = "thriftgate_engine_preemptions_total{"
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name))
