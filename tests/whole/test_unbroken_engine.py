"""A real engine goes on with its own answers, cut at every piece: the same text, by the gateway."""

from functools import partial
from pathlib import Path

import httpx2
import orjson
import pytest

from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.supervision.supervisor import EngineSupervisor
from proxy.providers.sse import parse_events
from proxy.settings import Settings
from proxy.tools.simulator.server import serving
from tests.fakes.cutting_upstream import CUTTING_CATALOG, CuttingUpstream, text_of
from tests.fakes.engines import until
from tests.fakes.gateway_fixture import served_gateway
from tests.fakes.plain_http import PLAIN
from tests.fakes.tiny_engine import needs_wheel, supervise_engine, tiny_profile

pytestmark = [needs_wheel, pytest.mark.xdist_group("self_hosted_engine")]
QUESTIONS = ("Which plans are there?", "How do I get a refund?")


def body(question: str) -> dict[str, object]:
    messages = [{"role": "user", "content": question}]
    return {"model": "tiny", "messages": messages, "stream": True, "temperature": 0}


async def ask(
    client: httpx2.AsyncClient, url: str, question: str, key: str = "none"
) -> list[bytes]:
    """The data of a stream's events."""
    headers = {"authorization": f"Bearer {key}"}
    answer = await client.post(
        f"{url}/chat/completions", json=body(question), headers=headers, timeout=60
    )
    return [event.data for event in parse_events(answer.content)]


def test_a_real_engine_goes_on_with_its_own_answer_wherever_it_was_cut(tmp_path: Path):
    profile, cutting = tiny_profile(), CuttingUpstream()
    engine = LLAMACPP.urls(profile).base_url
    (tmp_path / "policies.toml").write_text('[[stream_continuation]]\nname = "all"\n')

    async def story(supervisor: EngineSupervisor) -> list[tuple[str, str]]:
        await until(lambda: supervisor.ready_urls)
        async with (
            serving(cutting.app) as url,
            httpx2.AsyncClient(verify=PLAIN, trust_env=False) as client,
        ):
            catalog = tmp_path / "catalog.toml"
            catalog.write_text(CUTTING_CATALOG.format(cutting=url, engine=engine))
            settings = Settings(
                folder=tmp_path / "gateway",
                catalog=catalog,
                policies=tmp_path / "policies.toml",
            )
            async with served_gateway(settings) as gateway:
                return [
                    pair
                    for question in QUESTIONS
                    for pair in await cut_everywhere(client, gateway.url, gateway.key, question)
                ]

    async def cut_everywhere(
        client: httpx2.AsyncClient, url: str, key: str, question: str
    ) -> list[tuple[str, str]]:
        cutting.events = await ask(client, engine, question)
        whole, pairs = text_of(cutting.events), []
        for left in range(1, len(cutting.events), 3):
            if not text_of(cutting.events[:left]).strip():
                continue
            if orjson.loads(cutting.events[left - 1])["choices"][0]["finish_reason"]:
                break
            events = await cutting.cut_answer(left, partial(ask, client, url, question, key))
            pairs.append((text_of(events), whole))
        return pairs

    _, pairs = supervise_engine(profile, tmp_path / "engine", story)

    assert cutting.cut_count == len(pairs) >= 20
    assert [text for text, _ in pairs] == [whole for _, whole in pairs]
