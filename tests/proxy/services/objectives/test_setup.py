"""Objectives as they stand in a running gateway, and what Prometheus reads of them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from proxy.app_context import AppContext
from proxy.services.objectives.objective_state import Miss
from proxy.services.objectives.router import ObjectiveRouter
from proxy.services.objectives.setup import ObjectiveMetrics, resolve_snapshots, running_objectives
from proxy.store.redis.local_objective_store import LocalCounters
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.objectives.objective import Enforce
from tests.fakes.call_dependencies import FakeEstimator, LoopTasks
from tests.fakes.chaos import two_model_catalog
from tests.fakes.objective_replicas import START, FakeStore, objective, tracks
from tests.fakes.redis_keys import SERVER

pytestmark = pytest.mark.instant_time


def surroundings(
    *objectives: Any, url: str = "", followed: list[Any] | None = None
) -> tuple[AppContext, list[Collector]]:
    published: list[Collector] = []
    followed = [] if followed is None else followed
    store: Any = FakeStore()
    store.secret = b"secret"
    around = AppContext(
        settings=cast(
            Any, SimpleNamespace(redis_url=url, policies="policies.toml" if objectives else None)
        ),
        policies=cast(Any, SimpleNamespace(objectives=objectives)),
        catalog=two_model_catalog(),
        opened=store,
        estimator=FakeEstimator(),
        tasks=LoopTasks(),
        now=lambda: START,
        publish=published.append,
        alert=lambda _: True,
        follow=followed.append,
    )
    return around, published


async def test_without_objectives_nothing_steers():
    around, published = surroundings()
    async with running_objectives(around) as router:
        assert router is None
        assert len(asyncio.all_tasks()) == 1
    assert published == []


async def test_calls_are_judged_every_second_until_the_gateway_ends(caplog):
    around, published = surroundings(objective())
    with caplog.at_level("INFO"):
        async with running_objectives(around) as router:
            assert isinstance(router, ObjectiveRouter)
            await asyncio.sleep(2.5)
            assert set(router.snapshots) == {"chat-ttft"}
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert [type(collector) for collector in published] == [ObjectiveMetrics]
    assert "1 objective, judged in this process alone" in caplog.text


async def test_a_fallback_level_that_is_no_model_of_the_catalog_is_logged_as_a_warning(caplog):
    around, _ = surroundings(objective(ladder=("elsewhere", "gone", "small", "shed")))
    async with running_objectives(around):
        pass
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["chat-ttft: skipped fallback level 'gone', which is no model of the catalog"]


@pytest.mark.parametrize(("url", "is_shared"), [("", False), (SERVER, True)])
def test_where_there_is_redis_all_processes_are_judged_together(url, is_shared, caplog):
    async def play() -> None:
        around, _ = surroundings(objective(), url=url)
        async with running_objectives(around) as router:
            assert router is not None

    with caplog.at_level("INFO"):
        asyncio.run(play())
    assert ("in Redis, with all other processes" in caplog.text) is is_shared
    assert LocalCounters.is_shared is False


def test_a_dated_snapshot_in_a_ladder_is_the_model_that_it_is_of():
    named = objective(ladder=("elsewhere", "small-2026-08-06", "nothing"))

    assert resolve_snapshots(named, two_model_catalog()).ladder == ("elsewhere", "small", "nothing")


def page(router: ObjectiveRouter) -> str:
    registry = CollectorRegistry()
    registry.register(ObjectiveMetrics(router))
    return generate_latest(registry).decode()


def test_every_objective_is_there_before_anything_happened():
    metrics_text = page(
        ObjectiveRouter(tracks(objective(), objective(name="other")), two_model_catalog())
    )

    for name in ("chat-ttft", "other"):
        assert f'thriftgate_objective_good_total{{objective="{name}"}} 0.0' in metrics_text
        assert f'thriftgate_objective_bad_total{{objective="{name}"}} 0.0' in metrics_text
        assert (
            f'thriftgate_objective_state{{objective="{name}",state="healthy"}} 1.0' in metrics_text
        )


def test_counts_levels_and_states_are_told():
    router = ObjectiveRouter(tracks(), two_model_catalog())
    router.totals["chat-ttft"] = (7, 3)
    router.snapshots = {
        "chat-ttft": ControllerSnapshot(state=ControllerState.DEGRADED, level=2, since=0.0)
    }
    router.rerouted["chat-ttft", "small"] = 4
    router.not_enforced["chat-ttft", "elsewhere"] = 5
    metrics_text = page(router)

    for line in (
        'thriftgate_objective_good_total{objective="chat-ttft"} 7.0',
        'thriftgate_objective_bad_total{objective="chat-ttft"} 3.0',
        'thriftgate_objective_level{objective="chat-ttft"} 2.0',
        'thriftgate_objective_state{objective="chat-ttft",state="degraded"} 1.0',
        'thriftgate_objective_state{objective="chat-ttft",state="healthy"} 0.0',
        'thriftgate_fallback_calls_total{level="small",objective="chat-ttft"} 4.0',
        'thriftgate_unenforced_fallback_calls_total{level="elsewhere",objective="chat-ttft"} 5.0',
    ):
        assert line in metrics_text


@pytest.mark.parametrize(("is_proven", "state"), [(True, "missed"), (False, "too_few_calls")])
def test_an_objective_that_is_missed_and_has_no_ladder_is_not_healthy_in_metrics(is_proven, state):
    bare = objective(ladder=(), enforce=Enforce.ALERT)
    router = ObjectiveRouter(tracks(bare), two_model_catalog())
    router.snapshots = {bare.name: ControllerSnapshot(since=0.0)}
    router.missed = {bare.name: Miss(0.0, "92 of 92 calls missed it", is_proven)}
    metrics_text = page(router)

    assert (
        f'thriftgate_objective_state{{objective="chat-ttft",state="{state}"}} 1.0' in metrics_text
    )
    assert 'thriftgate_objective_state{objective="chat-ttft",state="healthy"} 0.0' in metrics_text
