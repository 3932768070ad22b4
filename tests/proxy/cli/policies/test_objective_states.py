"""Tests of what ``thriftgate objectives`` says of where each stands."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec
import pytest
import redis

from proxy.cli.policies.objectives import objectives
from proxy.services.objectives.objective_state import Miss, PublishedState
from proxy.services.objectives.setup import open_objective_counters
from proxy.settings import Settings
from proxy.store.redis.objective_store import RedisCounters
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.policies.file import Policies
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.objectives import objective
from tests.fakes.redis_keys import SERVER

SHARED = Settings(redis_url=SERVER)
DEGRADED = ControllerSnapshot(
    state=ControllerState.DEGRADED, level=2, since=NOW - 60, reason="31 of 80 were bad"
)


def group(terminal, settings=SHARED):
    promised = Policies(objectives=(objective(name="chat"), objective(name="mail")))
    return objectives(terminal, lambda: settings, lambda _: promised)


@pytest.fixture
def runner(tmp_path) -> Iterator[CommandRunner]:
    command_runner = CommandRunner(tmp_path, NOW)
    yield command_runner
    store = command_runner.open()
    shared = open_objective_counters(SHARED, store, float)
    store.close(5)
    assert isinstance(shared, RedisCounters)
    with suppress(redis.RedisError), redis.Redis.from_url(SERVER) as server:
        server.delete(f"{shared._keys}told", f"{shared._keys}lease")


def tell(runner: CommandRunner, documents: Mapping[str, bytes]) -> None:
    """Say so, as a gateway that leads does."""

    async def work() -> None:
        shared = open_objective_counters(SHARED, store, lambda: NOW)
        await shared.publish(1, documents)
        await shared.aclose()

    try:
        redis.Redis.from_url(SERVER, socket_connect_timeout=3, socket_timeout=3).ping()
    except redis.RedisError as error:
        pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({SERVER}): {error}")
    store = runner.open()
    asyncio.run(work())
    store.close(5)


def published_state(now: float = NOW, snapshot: ControllerSnapshot = DEGRADED) -> bytes:
    return msgspec.json.encode(PublishedState(now, snapshot))


def test_without_redis_objectives_name_the_metrics_that_have_their_state(runner):
    output = runner.said(lambda terminal: group(terminal, Settings()))

    assert "its /metrics has thriftgate_objective_state" in output
    assert "reason" not in output.splitlines()[0]
    document = json.loads(runner.said(lambda terminal: group(terminal, Settings()), "--json"))
    assert [objective["status"] for objective in document["objectives"]] == [None, None]


def test_objective_states_of_gateways_are_shown(runner):
    tell(
        runner,
        {"chat": published_state(), "mail": b"of another version", "gone": published_state()},
    )
    head, chat, mail = runner.said(group).splitlines()

    assert head.split()[-6:] == ["state", "level", "since", "reason", "late", "stage"]
    assert chat.endswith("31 of 80 were bad")
    assert "degraded" in chat
    assert mail.split()[-3:] == ["?", "?", "?"]
    documents = json.loads(runner.said(group, "--json"))["objectives"]
    assert [objective["status"] for objective in documents] == [
        {
            "state": "degraded",
            "level": 2,
            "since": NOW - 60,
            "reason": "31 of 80 were bad",
            "stage": "",
            "at": NOW,
        },
        None,
    ]


def test_an_old_objective_state_is_reported_as_old(runner):
    tell(runner, {"chat": published_state(NOW - 31)})

    assert "No gateway has reported since" in runner.said(group)


def test_before_anybody_said_anything_nothing_is_known(runner):
    tell(runner, {})

    assert "No gateway has reported their state yet." in runner.said(group)


def test_a_redis_that_is_away_hides_no_promise(runner):
    output = runner.said(
        lambda terminal: group(terminal, Settings(redis_url="redis://127.0.0.1:1/0"))
    )

    assert "Where each stands is not known: Redis cannot be asked" in output
    assert "chat" in output


def test_a_missed_objective_that_has_no_ladder_is_shown_as_missed(runner):
    healthy = ControllerSnapshot(since=NOW - 900)
    miss = Miss(NOW - 60, "burn 20.0 over 10 min: 92 of 92 calls missed it")
    tell(runner, {"chat": msgspec.json.encode(PublishedState(NOW, healthy, miss=miss))})

    assert "missed" in runner.said(group)
    snapshot = json.loads(runner.said(group, "--json"))["objectives"][0]["status"]
    assert (snapshot["state"], snapshot["since"]) == ("missed", NOW - 60)
    assert snapshot["reason"] == miss.reason
