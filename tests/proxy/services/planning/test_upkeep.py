"""Tests of what a running gateway does now and then."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proxy.records.feature_mode import LayoutScope
from proxy.services.planning.upkeep import (
    apply_retention,
    keep_known_keys,
    measure_and_suspend,
    merge_pending_sums,
    suspend_harmful_features,
)
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.sql.access.known_keys import FILE_NAME, remove_known_keys
from proxy.store.sql.settings.layouts import Suspension
from proxy.store.store import Store
from tests.fakes.alerts import AlertRecorder
from tests.fakes.clock import run_in_instant_time
from tests.fakes.databases import migrated_sqlite

NOW = 1_790_000_000.0
nobody = partial(suspend_harmful_features, say=lambda _: True)

DAY = 86_400.0
HOUR = 3_600.0
Answer = Callable[..., Any]


class RecordingStore(Store):
    """Notes what is asked of it, and when; answers as it is told."""

    answer: Answer = staticmethod(lambda *_args: None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.asked: list[tuple[float, Any, tuple[Any, ...]]] = []

    async def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked.append((asyncio.get_running_loop().time(), question, args))
        return self.answer(len(self.asked), question)


def store(folder: Path, answer: Answer) -> RecordingStore:
    recording_store = RecordingStore.open(
        migrated_sqlite(folder / "thriftgate.db"), folder / "journal"
    )
    recording_store.answer = answer
    return recording_store


def run_for(opened: RecordingStore, work: Callable[..., Awaitable[None]], hours: float) -> None:
    """Let the work go on for so long; time passes at once."""

    async def run() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(work(opened, lambda: NOW), hours * HOUR)

    try:
        run_in_instant_time(run())
    finally:
        opened.close(5)


async def retention(opened: Store, now: Callable[[], float]) -> None:
    """Drop what is older than thirty days."""
    await apply_retention(opened, 30, now)


def away(number: int, *_: object) -> list[Suspension]:
    if number == 1:
        raise StoreError("away")
    return []


def test_receipts_and_plans_that_are_old_are_dropped_every_hour(tmp_path):
    opened = store(tmp_path, lambda *_: 0)
    run_for(opened, retention, 2.5)
    first = opened.asked[0][0]

    assert [(at - first, question) for at, question, _ in opened.asked] == [
        (hour * HOUR, question)
        for hour in range(3)
        for question in (
            opened.ledger.retain,
            opened.plans.retain,
            opened.pending_sums.delete_histograms,
            opened.replica_time.delete_runs,
        )
    ]
    since = [args[0] for _, _, args in opened.asked[:4]]
    assert since == [NOW - days * DAY for days in (30, 14, 30, 30)]
    assert [args[1:] for _, _, args in opened.asked[:4]] == [(30.0,), (30.0,), (30.0,), ()]


def test_retention_goes_on_after_a_round_that_failed(tmp_path, caplog):
    opened = store(tmp_path, away)
    run_for(opened, retention, 1.5)

    assert [question for _, question, _ in opened.asked] == [
        opened.ledger.retain,
        opened.ledger.retain,
        opened.plans.retain,
        opened.pending_sums.delete_histograms,
        opened.replica_time.delete_runs,
    ]
    assert "next round" in caplog.text


def test_pending_sums_are_moved_every_ten_seconds_whatever_fails(tmp_path, caplog):
    opened = store(tmp_path, away)
    run_for(opened, lambda opened, *_: merge_pending_sums(opened), 25 / HOUR)

    moves = [(question, args) for _, question, args in opened.asked]
    assert moves == [(opened.pending_sums.merge, (5.0,))] * 3
    assert "not moved" in caplog.text


def test_planning_savings_are_checked_every_quarter_of_an_hour(tmp_path, caplog):
    opened = store(tmp_path, lambda *_: [])
    run_for(opened, nobody, 1.3)
    times = [at for at, _, _ in opened.asked]

    assert [at - times[0] for at in times] == [900.0 * n for n in range(5)]
    assert opened.asked[0][1] is measure_and_suspend
    assert caplog.records == []


def test_the_guard_goes_on_after_a_look_that_failed(tmp_path, caplog):
    opened = store(tmp_path, away)
    run_for(opened, nobody, 0.6)

    assert len(opened.asked) == 2
    assert "could not be measured" in caplog.text


def test_a_feature_that_is_suspended_is_reported(tmp_path, caplog):
    suspension = Suspension(LayoutScope("team_1", "chat"), "it cost 12 % more")
    opened = store(tmp_path, lambda *_: [suspension])
    alerts = AlertRecorder()
    run_for(opened, partial(suspend_harmful_features, say=alerts), 0.3)

    (record,) = caplog.records
    (alert,) = alerts
    assert alert.subject == "feature chat of team team_1"
    assert alert.facts == (("found", "it cost 12 % more"),)
    assert "once a person resumes it" in alert.fix
    assert record.levelname == "ERROR"
    assert "'chat' of team team_1" in record.getMessage()
    assert "it cost 12 % more" in record.getMessage()


def test_the_guard_stores_what_it_measured_and_takes_what_another_process_did(tmp_path):
    opened = store(tmp_path, away)
    measure_and_suspend(opened, lambda: NOW)
    first = opened.arms.latest()
    measure_and_suspend(opened, lambda: NOW + 890)
    same = opened.arms.latest()
    measure_and_suspend(opened, lambda: NOW + 910)
    newer = opened.arms.latest()
    opened.close(5)

    assert first == same
    assert (first and first.at, newer and newer.at) == (NOW, NOW + 910)


@pytest.mark.parametrize("work", [retention, nobody])
def test_a_mistake_of_ours_is_not_hidden(tmp_path, work):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_for(store(tmp_path, fail), work, 1)


def kept_keys(opened: RecordingStore, **fields: Any) -> None:
    """Write down known keys for ten seconds, which pass at once."""
    settings = Settings(**fields)
    run_for(opened, lambda *_: keep_known_keys(opened, settings, lambda: NOW), 10 / HOUR)


def test_known_keys_are_written_down_beside_the_journal_every_second(tmp_path):
    opened = store(tmp_path, lambda *_: None)
    url = "postgresql://db/ledger"
    kept_keys(opened, folder=tmp_path, database_url=url, serve_known_keys="24h")
    first = opened.asked[0][0]

    assert [at - first for at, _, _ in opened.asked] == [float(n) for n in range(10)]
    assert {args for _, _, args in opened.asked} == {(opened.keyring, NOW)}


@pytest.mark.parametrize("fields", [{}, {"serve_known_keys": "24h"}])
def test_where_known_keys_are_never_served_none_are_left_on_disk(tmp_path, fields):
    opened = store(tmp_path, lambda *_: None)
    kept_keys(opened, folder=tmp_path, **fields)

    assert [question[1:] for question in opened.asked] == [
        (remove_known_keys, (tmp_path / FILE_NAME,))
    ]
