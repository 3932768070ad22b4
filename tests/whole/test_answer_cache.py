"""Answers given again, and shared while they are under way, over HTTP in all APIs."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from proxy.records.receipt import Outcome, Receipt
from proxy.store.sql.database import open_database
from proxy.store.sql.settings.fast_path_switches import FastPathSwitches
from slo.policies.fast_path_switches import SwitchedPart
from tests.fakes.gateway_fixture import GatewayFixture, running_gateway
from tests.fakes.http_caller import HttpAnswer, HttpCaller
from tests.fakes.plain_http import PLAIN
from tests.fakes.redis_server import ABSENT, PROGRAM, OwnRedis

POLICIES = """
[[answer_cache]]
name = "everything"
ttl = "1h"
reusable = true
ignore_fields = ["metadata.request_id"]
"""
HELLO = [{"role": "user", "content": "Hello."}]
EQUAL_CALLS = 1_000
ANTHROPIC = {"anthropic-version": "2023-06-01"}
#: A call of each API.
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("chat/completions", {"model": "gpt-lab", "messages": HELLO}),
    "completions": ("completions", {"model": "gpt-lab", "prompt": "Hello.", "max_tokens": 400}),
    "responses": ("responses", {"model": "gpt-lab", "input": "Hello."}),
    "messages": ("messages", {"model": "claude-lab", "max_tokens": 400, "messages": HELLO}),
    "translated": ("messages", {"model": "gpt-lab", "max_tokens": 400, "messages": HELLO}),
}
FORMS: tuple[dict[str, bool], ...] = ({}, {"stream": True})


@pytest.fixture(scope="module")
def cached_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFixture]:
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "policies.toml").write_text(POLICIES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMULATOR_KEY", "simulator-key")
        with running_gateway(folder, policies=folder / "policies.toml") as gateway:
            yield gateway


def post(
    gateway: GatewayFixture, path: str, body: Any, feature: str, **headers: str
) -> httpx.Response:
    answer = httpx.post(
        f"{gateway.url}/{path}",
        json=body,
        headers={
            "authorization": f"Bearer {gateway.key}",
            "x-thriftgate-feature": feature,
            **ANTHROPIC,
            **headers,
        },
        timeout=30,
        trust_env=False,
        verify=PLAIN,
    )
    assert answer.status_code == 200, answer.text
    return answer


def sent_calls(receipts: list[Receipt]) -> list[Receipt]:
    return [receipt for receipt in receipts if receipt.upstream]


@pytest.mark.parametrize("form", FORMS, ids=["whole", "stream"])
@pytest.mark.parametrize("api", CALLS)
def test_an_equal_call_of_each_api_gets_the_same_bytes_at_no_cost(
    cached_gateway: GatewayFixture, feature: str, api: str, form: dict[str, bool]
) -> None:
    path, fields = CALLS[api]
    first, again = (
        post(cached_gateway, path, {**fields, **form, "metadata": {"request_id": number}}, feature)
        for number in ("1", "2")
    )

    assert first.content == again.content
    assert first.headers["content-type"] == again.headers["content-type"]
    assert first.headers["x-request-id"] != again.headers["x-request-id"]
    assert first.headers["x-thriftgate-cache"].startswith("miss; key=")
    assert again.headers["x-thriftgate-cache"].startswith("hit; age=")
    receipts = cached_gateway.of_feature(feature, 2)
    assert [receipt.served_by for receipt in receipts] == ["", "cache"]
    assert [receipt.outcome for receipt in receipts] == [Outcome.ANSWERED] * 2
    assert receipts[1].cost_nanos == 0
    assert receipts[1].fast_path_nanos == receipts[0].cost_nanos


def test_a_switch_that_another_gateway_set_holds_within_seconds_and_answers_stay_kept(
    cached_gateway: GatewayFixture, feature: str
) -> None:
    body = CALLS["chat"][1]
    switches = FastPathSwitches(
        open_database(f"sqlite:///{cached_gateway.folder}/gateway/thriftgate.db")
    )
    place, part = (cached_gateway.team, feature), SwitchedPart.ANSWER_CACHE

    def result() -> str:
        answer = post(cached_gateway, "chat/completions", body, feature)
        return str(answer.headers.get("x-thriftgate-cache", "")).partition(";")[0]

    def until(expected: str) -> None:
        deadline = time.monotonic() + 20
        while (last := result()) != expected:
            assert time.monotonic() < deadline, last
            time.sleep(0.2)

    assert [result(), result()] == ["miss", "hit"]
    switches.turn_off(place, part, "ann", 0.0)
    until("")
    switches.turn_on(place, part, "ann", 0.0)
    until("hit")


def test_embeddings_are_given_again(cached_gateway: GatewayFixture, feature: str) -> None:
    body = {"model": "embed-lab", "input": "Hello."}
    first, again = (post(cached_gateway, "embeddings", body, feature) for _ in range(2))

    assert first.content == again.content
    assert again.headers["x-thriftgate-cache"].startswith("hit; age=")


def test_a_trailer_tells_each_call_its_own_cost(
    cached_gateway: GatewayFixture, feature: str
) -> None:
    path, fields = CALLS["chat"]
    wish = {"x-thriftgate-trailer": "1"}
    first, again = (
        post(cached_gateway, path, {**fields, "stream": True}, feature, **wish) for _ in range(2)
    )
    accounts = [
        json.loads(line.removeprefix(": thriftgate "))
        for answer in (first, again)
        for line in answer.text.splitlines()
        if line.startswith(": thriftgate ")
    ]

    assert float(accounts[0]["x-thriftgate-cost-usd"]) > 0
    assert float(accounts[1]["x-thriftgate-cost-usd"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=["whole", "stream"])
def test_a_thousand_equal_calls_at_once_are_one_call_upstream(
    cached_gateway: GatewayFixture, feature: str, form: dict[str, bool]
) -> None:
    body = json.dumps({**CALLS["chat"][1], **form}).encode()

    async def call_at_once() -> list[HttpAnswer]:
        caller = HttpCaller(cached_gateway.url, cached_gateway.key)
        headers = {"x-thriftgate-feature": feature}
        answers = await asyncio.gather(
            *(caller.post("/chat/completions", body, headers) for _ in range(EQUAL_CALLS))
        )
        await caller.close()
        return answers

    answers = asyncio.run(call_at_once())
    receipts = cached_gateway.of_feature(feature, EQUAL_CALLS)

    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert len({answer.call for answer in answers}) == EQUAL_CALLS
    assert len(receipts) == len({receipt.call_id for receipt in receipts}) == EQUAL_CALLS
    (sent,) = sent_calls(receipts)
    assert sum(receipt.cost_nanos or 0 for receipt in receipts) == sent.cost_nanos
    saved = sum(receipt.fast_path_nanos or 0 for receipt in receipts)
    assert saved == (EQUAL_CALLS - 1) * (sent.cost_nanos or 0)


def test_two_teams_never_share_an_answer(cached_gateway: GatewayFixture, feature: str) -> None:
    path, fields = CALLS["chat"]
    teams = cached_gateway.gateway.store.teams
    other = teams.create("other", now=1_790_000_000.0)
    _, key = teams.create_key(other.id, "k", now=1_790_000_000.0)
    post(cached_gateway, path, fields, feature)
    foreign = post(cached_gateway, path, fields, feature, authorization=f"Bearer {key}")
    own = post(cached_gateway, path, fields, feature, authorization=f"Bearer {key}")

    assert foreign.headers["x-thriftgate-cache"].startswith("miss")
    assert own.headers["x-thriftgate-cache"].startswith("hit")


@pytest.mark.parametrize("purged", ["tag=kb/7", "key=KEY", "feature=FEATURE"])
def test_a_purged_answer_is_not_given_again(
    cached_gateway: GatewayFixture, feature: str, purged: str
) -> None:
    path, fields = CALLS["chat"]
    headers = {"x-thriftgate-cache-tags": "prices, kb/7"}
    first = post(cached_gateway, path, fields, feature, **headers)
    key = first.headers["x-thriftgate-cache"].removeprefix("miss; key=")
    query = purged.replace("KEY", key).replace("FEATURE", feature)
    answer = httpx.delete(
        f"{cached_gateway.url}/thriftgate/answers?{query}",
        headers={"authorization": f"Bearer {cached_gateway.key}"},
        trust_env=False,
        verify=PLAIN,
    )
    again = post(cached_gateway, path, fields, feature)

    assert (answer.status_code, answer.json()["purged_here"]) == (200, 1)
    assert again.headers["x-thriftgate-cache"].startswith("miss")


@pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
def test_answers_go_to_redis_and_calls_lose_nothing_when_it_dies(
    start_gateway: Any, tmp_path: Path, feature: str
) -> None:
    server = OwnRedis(tmp_path)
    server.start()
    (tmp_path / "policies.toml").write_text(POLICIES)
    gateway = start_gateway(policies=tmp_path / "policies.toml", redis_url=server.url)
    path, fields = CALLS["chat"]
    first = post(gateway, path, fields, feature)
    until = time.monotonic() + 10
    while not (keys := redis_keys(server.url)) and time.monotonic() < until:
        time.sleep(0.02)
    server.kill()
    hit = post(gateway, path, fields, feature)
    anew = post(gateway, path, {**fields, "seed": 1}, feature)
    receipts = gateway.of_feature(feature, 3)

    assert len(keys) == 1
    assert first.content == hit.content
    assert hit.headers["x-thriftgate-cache"].startswith("hit")
    assert anew.headers["x-thriftgate-cache"].startswith("miss")
    assert [receipt.served_by for receipt in receipts] == ["", "cache", ""]


def redis_keys(url: str) -> list[bytes]:
    """The keys of answers in a Redis."""
    with Redis.from_url(url) as server:
        return list(server.scan_iter(match="*answers:value:*"))


def test_without_a_policies_file_no_answer_is_kept(
    start_gateway: Any, feature: str, tmp_path: Path
) -> None:
    gateway = start_gateway()
    path, fields = CALLS["chat"]
    answers = [post(gateway, path, {**fields, "temperature": 0}, feature) for _ in range(2)]

    assert all("x-thriftgate-cache" not in answer.headers for answer in answers)
    assert len(sent_calls(gateway.of_feature(feature, 2))) == 2
