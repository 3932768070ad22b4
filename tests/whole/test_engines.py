"""Engines behind a whole gateway: each call goes to the replica that has its prefix."""

import asyncio
import re
import time
from pathlib import Path

from tests.fakes.engine_fleet import EngineFleet, engine_fleet

_PATIENCE_S = 30.0


async def replica_of(fleet: EngineFleet, conversation: int, turns: int = 1, url: str = "") -> str:
    """The replica that answers."""
    answer = await fleet.ask(conversation, turns, url=url)
    assert answer.status_code == 200, answer.text
    return str(answer.headers["x-thriftgate-replica"].partition(";")[0])


def test_a_conversation_stays_at_its_replica_and_reads_its_prefix_from_the_cache(tmp_path: Path):
    async def story() -> None:
        async with engine_fleet(tmp_path) as fleet:
            first = await replica_of(fleet, 1)
            second = await fleet.ask(1, 2)

            assert second.headers["x-thriftgate-replica"].startswith(f"{first}; warm: ")
            assert int(second.headers["x-thriftgate-cached-tokens"]) > 500
            assert second.headers["x-thriftgate-model"] == "house-llm"
            text = await fleet.metrics()
            assert 'thriftgate_engine_healthy{engine="house",replica="house:1"} 1.0' in text
            parts = dict(
                re.findall(
                    r'engine_prompt_tokens_total{model="house-llm",part="(\w+)"} (\S+)', text
                )
            )
            captured, delivered = float(parts["captured"]), float(parts["delivered"])
            assert captured > 500
            assert delivered > 0.8 * captured
            assert float(parts["available"]) == max(captured, delivered)

    asyncio.run(story())


def test_the_receipt_says_which_replica_was_chosen_and_for_which_reason(tmp_path: Path):
    async def story() -> None:
        async with engine_fleet(tmp_path) as fleet:
            answer = await fleet.ask(1)
            call = answer.headers["x-request-id"]
            receipts = await fleet.client.get(
                f"{fleet.url}/thriftgate/calls/{call}",
                headers={"authorization": f"Bearer {fleet.keys[fleet.url]}"},
            )

            assert f"replica {answer.headers['x-thriftgate-replica']}" in receipts.text

    asyncio.run(story())


def test_calls_go_elsewhere_at_once_when_a_replica_dies(tmp_path: Path):
    async def story() -> None:
        async with engine_fleet(tmp_path) as fleet:
            first = await replica_of(fleet, 1)
            await fleet.replicas[int(first[-1])].aclose()
            other = await replica_of(fleet, 1, 2)
            assert other != first
            until = time.monotonic() + _PATIENCE_S
            healthy = f'engine_healthy{{engine="house",replica="{first}"}} 0.0'
            while healthy not in await fleet.metrics():
                assert time.monotonic() < until
                await asyncio.sleep(0.02)
            assert await replica_of(fleet, 1, 3) == other

    asyncio.run(story())


def test_the_provider_answers_when_no_replica_does(tmp_path: Path):
    async def story() -> None:
        async with engine_fleet(tmp_path) as fleet:
            for replica in fleet.replicas:
                await replica.aclose()
            answer = await fleet.ask(1)

            assert answer.status_code == 200
            assert "x-thriftgate-replica" not in answer.headers

    asyncio.run(story())


def test_two_gateways_agree_on_the_replica_of_a_new_conversation(tmp_path: Path):
    async def story() -> None:
        async with engine_fleet(tmp_path, replicas=3, gateways=2) as fleet:
            for conversation in range(6):
                one, other = [await replica_of(fleet, conversation, url=url) for url in fleet.keys]
                assert one == other

    asyncio.run(story())


def test_a_replica_that_is_added_to_the_file_gets_calls_without_a_restart(tmp_path: Path):
    async def story() -> None:
        async with engine_fleet(tmp_path, replicas=2) as fleet:
            fleet.write_engines(fleet.urls[:1])
            until = time.monotonic() + _PATIENCE_S
            while 'replica="house:1"' in await fleet.metrics():
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            assert {await replica_of(fleet, n) for n in range(6)} == {"house:0"}
            fleet.write_engines(fleet.urls)
            while 'replica="house:1"' not in await fleet.metrics():
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            assert "house:1" in {await replica_of(fleet, n) for n in range(6, 24)}

    asyncio.run(story())


def test_a_call_that_is_bound_to_a_region_goes_to_no_other_and_is_refused_in_words(tmp_path: Path):
    (tmp_path / "policies.toml").write_text(
        '[[residency]]\nname = "health-at-home"\nfeature = "health"\nregions = ["eu"]\n'
    )

    async def story() -> None:
        async with engine_fleet(tmp_path, policies=tmp_path / "policies.toml") as fleet:
            abroad = await fleet.ask(1, headers={"x-thriftgate-region": "us"})
            assert "x-thriftgate-replica" not in abroad.headers
            assert abroad.status_code == 200
            refused = await fleet.ask(1, headers={"x-thriftgate-feature": "health"})
            assert refused.status_code == 403
            assert refused.json()["error"]["code"] == "residency_unsatisfied"
            assert "processed in eu only" in refused.json()["error"]["message"]

    asyncio.run(story())
