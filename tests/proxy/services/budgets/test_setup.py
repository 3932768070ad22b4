import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from proxy.configuration import Snapshot, read_policies
from proxy.errors import OperatorError
from proxy.services.budgets.reconciliation import Reconciler
from proxy.services.budgets.setup import (
    _ForgottenCounters,
    _keep_comparing,
    _Limits,
    running_budgets,
)
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.redis.local_budget_store import LocalBudgetStore
from proxy.store.sql.ledger.last_answers import MAX_RECEIPTS, Answers, PastAnswer
from proxy.store.store import Store
from slo.budgets.counter import CounterClaim
from slo.budgets.reservations import Reservations
from tests.fakes.admission_harness import NOW
from tests.fakes.app_context import AppContextCalls, fake_app_context
from tests.fakes.call_dependencies import catalog
from tests.fakes.clock import ticks
from tests.fakes.databases import migrated_sqlite
from tests.fakes.offline import offline_store
from tests.fakes.redis_keys import SERVER, prefix

ONE = """
[[budgets]]
name = "day"
scope = "team"
unit = "usd"
window = "day"
limit = "5"
"""


def settings_with(folder: Path, text: str = ONE, **fields: Any) -> Settings:
    (folder / "policies.toml").write_text(text)
    return Settings(folder=folder, policies=folder / "policies.toml", **fields)


def stood(folder: Path, *settings: Settings) -> tuple[list[Any], list[Collector]]:
    """Return what stands after each of these gateways began on one database."""
    heard = AppContextCalls()

    async def run() -> list[Any]:
        async with AsyncExitStack() as stack:
            started = []
            for number, setting in enumerate(settings):
                url = migrated_sqlite(folder / "thriftgate.db")
                opened = Store.open(url, folder / f"{number}")
                stack.callback(opened.close, 5)
                here = fake_app_context(setting, opened, heard)
                started.append(await stack.enter_async_context(running_budgets(here)))
            return started

    return asyncio.run(run()), heard.published


def test_without_policies_nothing_stands(tmp_path):
    assert stood(tmp_path, Settings(folder=tmp_path)) == ([None], [])
    (entry,), published = stood(tmp_path, settings_with(tmp_path, ""))
    assert entry is not None  # the file may get budgets while the gateway runs
    assert published == []


def test_with_budgets_it_says_where_they_are_counted(tmp_path, caplog):
    caplog.set_level(logging.INFO, "thriftgate.budgets")
    (admission,), published = stood(tmp_path, settings_with(tmp_path))

    assert admission is not None
    assert admission.budgets.counters.is_shared is False
    assert [type(collector) for collector in published] == [Reconciler, _ForgottenCounters]
    assert "1 budget, counted in this process alone" in caplog.text


def test_counters_that_are_forgotten_for_want_of_room_are_a_metric():
    store = LocalBudgetStore()
    store._reservations = Reservations(capacity=1)
    registry = CollectorRegistry()
    registry.register(_ForgottenCounters(store))
    for name in ("ana", "ben"):
        claim = CounterClaim(counter=name, amount=1, limit=2, hard=True, ends=NOW + 60)
        asyncio.run(store.reserve(name, [claim], NOW, NOW + 10))

    page = generate_latest(registry).decode()
    assert "thriftgate_budget_counters_forgotten_total 1.0" in page


def test_a_second_gateway_that_counts_for_itself_is_refused(tmp_path):
    settings = settings_with(tmp_path)

    with pytest.raises(OperatorError, match="THRIFTGATE_PRIVATE_BUDGETS"):
        stood(tmp_path, settings, settings)


def test_a_second_gateway_may_count_for_itself_where_that_is_meant(tmp_path):
    budgets, _ = stood(
        tmp_path, settings_with(tmp_path), settings_with(tmp_path, private_budgets=True)
    )

    assert all(budget is not None for budget in budgets)


def test_ceilings_stand_also_without_budgets(tmp_path):
    text = '[[ceilings]]\nname = "small"\nlimit = "0.01"\n'
    (entry,), published = stood(tmp_path, settings_with(tmp_path, text))

    assert entry is not None
    assert len(published) == 1


async def test_the_clock_is_compared_with_redis_before_calls_are_taken(tmp_path):
    try:
        with prefix():
            pass
    except RedisError as error:
        pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS: {error}")
    compared: list[float] = []

    opened = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    settings = settings_with(tmp_path, redis_url=SERVER)
    here = fake_app_context(settings, opened, AppContextCalls(), compare_clock=compared.append)
    try:
        async with running_budgets(here):
            assert len(compared) == 1
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)
    finally:
        opened.close(5)
    assert compared[0] > NOW


@pytest.mark.instant_time
async def test_the_clock_is_compared_again_every_ten_seconds(tmp_path):
    class SharedTime:
        async def time(self) -> float:
            return NOW

    compared: list[float] = []
    store: Any = SharedTime()
    opened = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    here = fake_app_context(
        settings_with(tmp_path), opened, AppContextCalls(), compare_clock=compared.append
    )
    with suppress(TimeoutError):
        await asyncio.wait_for(_keep_comparing(store, here), 35.0)
    opened.close(5)
    assert compared == [NOW] * 3


async def test_without_redis_there_is_no_clock_to_compare_with(tmp_path):
    compared: list[float] = []
    opened = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    here = fake_app_context(
        settings_with(tmp_path), opened, AppContextCalls(), compare_clock=compared.append
    )

    async with running_budgets(here):
        assert compared == []
    opened.close(5)


def snapshot(text: str, folder: Path) -> Snapshot:
    return Snapshot(catalog(), read_policies(settings_with(folder, text)))


async def test_budgets_that_come_with_a_reload_are_counted_from_then_on(tmp_path):
    heard = AppContextCalls()

    opened = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    here = fake_app_context(settings_with(tmp_path, ""), opened, heard)
    async with running_budgets(here) as entry:
        (prepare,) = heard.followed
        assert entry is not None
        before = len(heard.published)
        (await prepare(snapshot(ONE, tmp_path)))()
        (await prepare(snapshot(ONE, tmp_path)))()
        counts = [before, len(heard.published)]
    await asyncio.sleep(0)
    opened.close(5)

    assert counts == [0, 2]  # the reconciler and the count of forgotten counters


async def test_a_reload_that_brings_budgets_is_refused_where_another_gateway_counts(tmp_path):
    first, second = AppContextCalls(), AppContextCalls()

    async with AsyncExitStack() as stack:
        for number, (heard, text) in enumerate(((first, ONE), (second, ""))):
            url = migrated_sqlite(tmp_path / "thriftgate.db")
            opened = Store.open(url, tmp_path / f"{number}")
            stack.callback(opened.close, 5)
            here = fake_app_context(settings_with(tmp_path, text), opened, heard)
            await stack.enter_async_context(running_budgets(here))
        with pytest.raises(OperatorError, match="THRIFTGATE_PRIVATE_BUDGETS"):
            await second.followed[0](snapshot(ONE, tmp_path))


def test_budgets_in_redis_stand_without_the_database_and_take_their_lock_once_it_is_there(
    tmp_path,
):
    try:
        with prefix():
            pass
    except RedisError as error:
        pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS: {error}")
    opened, _ = offline_store(tmp_path)
    other = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "other")

    def is_alone() -> bool:
        with other.singleton_lock() as alone:
            return alone

    async def run() -> None:
        here = fake_app_context(
            settings_with(tmp_path, redis_url=SERVER), opened, AppContextCalls()
        )
        async with asyncio.timeout(60), running_budgets(here) as entry:
            assert entry is not None
            assert is_alone()
            opened.go_online()
            for _ in range(1_000):
                if not is_alone():
                    break
                await asyncio.sleep(0.05)
            assert not is_alone()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)

    asyncio.run(run())
    opened.close(5)
    other.close(5)


def test_budgets_that_the_process_counts_do_not_stand_without_the_database(tmp_path):
    opened, _ = offline_store(tmp_path)

    async def run() -> None:
        async with running_budgets(
            fake_app_context(settings_with(tmp_path), opened, AppContextCalls())
        ):
            pass

    with pytest.raises(OperatorError, match="the amount spent is unknown"):
        asyncio.run(run())
    opened.close(0)


def test_a_reload_without_the_database_brings_no_budgets_that_the_process_counts(tmp_path):
    opened, _ = offline_store(tmp_path)
    heard = AppContextCalls()

    async def run() -> None:
        async with running_budgets(fake_app_context(settings_with(tmp_path, ""), opened, heard)):
            (prepare,) = heard.followed
            with pytest.raises(OperatorError, match="the amount spent is unknown"):
                await prepare(snapshot(ONE, tmp_path))
            opened.go_online()
            (await prepare(snapshot(ONE, tmp_path)))()
        await asyncio.sleep(0)

    asyncio.run(run())
    opened.close(5)


def test_output_lengths_in_the_ledger_are_learned_once_the_database_is_there(tmp_path):
    opened, _ = offline_store(tmp_path)
    answers_read = asyncio.Event()

    class RecordingAnswers(Answers):
        """Notes that it was asked."""

        def last(self, most: int = MAX_RECEIPTS) -> list[PastAnswer]:
            answers = super().last(most)
            loop.call_soon_threadsafe(answers_read.set)
            return answers

    opened.answers = RecordingAnswers(opened._engine)

    async def run() -> None:
        text = '[[ceilings]]\nname = "small"\nlimit = "0.01"\n'
        async with running_budgets(
            fake_app_context(settings_with(tmp_path, text), opened, AppContextCalls())
        ):
            assert not answers_read.is_set()
            opened.go_online()
            async with asyncio.timeout(60):
                await answers_read.wait()

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        runner.run(run())
    opened.close(5)


@pytest.mark.instant_time
async def test_the_lock_of_who_counts_is_asked_for_every_five_seconds():
    asked_at: list[float] = []

    async def ask(*_: object) -> None:
        asked_at.append(ticks())
        if len(asked_at) < 3:
            raise StoreError("away")
        limits._is_alone = True

    async def do_nothing(*_: object) -> None:
        """Be online at once, and begin with no lengths."""

    opened = SimpleNamespace(
        wait_until_online=do_nothing, ask=ask, answers=SimpleNamespace(last=do_nothing)
    )
    limits: Any = SimpleNamespace(
        _around=SimpleNamespace(opened=opened),
        _store=SimpleNamespace(is_shared=True),
        _is_alone=False,
        _check_alone=do_nothing,
        _predictor=SimpleNamespace(lengths=SimpleNamespace(begin=do_nothing)),
    )
    await _Limits._apply_deferred(limits)

    assert [at - asked_at[0] for at in asked_at] == [0.0, 5.0, 10.0]
