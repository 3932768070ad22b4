"""Accounts of cache marks are shared by the processes of an installation."""

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from proxy.prefix.breakpoints.account import PromptPlace
from proxy.prefix.planned import Planned, PlanningTarget
from proxy.prefix.prediction.prefix_chains import expected_usage
from proxy.services.planning.mark_accounts import MarkAccountExchange
from proxy.store.errors import StoreError
from proxy.store.store import Store
from slo.price import TokenRates
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.clock import run_in_instant_time, ticks
from tests.proxy.prefix.planning_requests import (
    NOW,
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    planning_request,
)
from tests.proxy.services.planning.planning_fixtures import UnreachableStore, open_store

CLAUDE = TARGETS["anthropic-breakpoint"]
#: Dollars of a million tokens at which a feature loses some cents with one call.
DEAR_DOLLARS = 20.0
DEAR = msgspec.structs.replace(CLAUDE, rates=TokenRates(input=20_000_000_000))


class SharingProcess:
    """A process that plans, and shares its accounts."""

    def __init__(self, store: Store, target: PlanningTarget = CLAUDE) -> None:
        self.planning = PlanningProcess(target)
        self.now = NOW
        memory = self.planning.planner.memory
        self.exchange = MarkAccountExchange(memory, threading.Lock(), store, lambda: self.now)

    def share(self) -> None:
        """Exchange accounts once."""
        asyncio.run(self.exchange.exchange())

    def ask_alone(self, question: str, feature: str = "desk") -> Planned:
        """A call that no other begins like, as it was sent; answered as its provider charges it."""
        rules = chat_message("system", f"Case {question}. {RULES * 3}")
        call = planning_request(body(rules, chat_message("user", question)), feature=feature)
        planned = self.planning.plan(call)
        sent = planned.evidence.sent
        usage = expected_usage(sent, planned.evidence.expected, sent.estimate)
        self.planning.planner.settle_call(planned, usage)
        return planned

    def lose(self, features: Iterable[int]) -> float:
        """Dollars that a call of each of these features loses, of which no other begins like it."""
        lost = 0.0
        for number in features:
            sent = self.ask_alone(f"{number}", f"feature {number}").evidence.sent
            lost += 0.25 * sent.estimate * DEAR_DOLLARS / 1e6 if sent.marks else 0.0
        return lost

    def is_marked(self, question: str) -> bool:
        return bool(self.ask_alone(question).evidence.sent.marks)


def test_a_stake_that_one_process_lost_is_not_paid_again_by_another(store):
    first, second = SharingProcess(store), SharingProcess(store)
    assert first.is_marked("a")
    first.share()
    second.share()

    assert not second.is_marked("b")


def test_a_stake_that_was_lost_before_a_restart_is_not_paid_again(store):
    before = SharingProcess(store)
    assert before.is_marked("a")
    asyncio.run(before.exchange.stop())
    after = SharingProcess(store)
    after.share()

    assert not after.is_marked("b")


def test_processes_that_count_at_once_come_to_the_same_account(store):
    processes = [SharingProcess(store) for _ in range(2)]
    for index in range(4):
        processes[index % 2].ask_alone(str(index))
    for process in (*processes, *processes):
        process.share()
    (stored,) = store.mark_accounts.updated_since(0.0, 10)

    assert stored.calls == 4
    assert stored.balance == -stored.staked < 0
    assert stored.places[PromptPlace.STABLE] < 0
    for process in processes:
        assert not process.planning.planner.memory.account_news()


def test_counts_made_while_the_store_is_away_are_stored_later(store, tmp_path):
    process = SharingProcess(store)
    process.ask_alone("a")
    memory = process.planning.planner.memory
    away = open_store(tmp_path, UnreachableStore)
    exchange = MarkAccountExchange(memory, threading.Lock(), away, lambda: NOW)
    with pytest.raises(StoreError):
        asyncio.run(exchange.exchange())
    away.close(0.0)

    assert [news.calls for news in memory.account_news().values()] == [1]
    process.share()
    assert not memory.account_news()


def test_the_dollar_of_a_team_is_one_for_all_processes_and_through_restarts(store):
    processes = [SharingProcess(store, DEAR) for _ in range(2)]
    lost = 0.0
    for start in range(0, 120, 2):
        lost += processes[start // 2 % 2].lose(range(start, start + 2))
        processes[start // 2 % 2].share()
        if start % 20 == 0:
            asyncio.run(processes[0].exchange.stop())
            processes[0] = SharingProcess(store, DEAR)
            processes[0].share()

    assert 0.8 < lost <= 1.0
    assert SharingProcess(store, DEAR).planning.planner.memory.team_loans() == []


def test_a_process_that_never_reaches_the_store_loses_ten_cents_of_a_team(store):
    lost = SharingProcess(store, DEAR).lose(range(30))

    assert 0.0 < lost <= 0.1


def test_while_the_store_is_away_a_process_loses_no_more_of_a_team_than_it_borrowed(store):
    process = SharingProcess(store, DEAR)
    lost = process.lose(range(1))
    process.share()
    lost += process.lose(range(1, 30))

    assert 0.0 < lost <= 0.1 + 0.05


def test_a_process_that_stops_gives_back_what_a_team_did_not_lose(store):
    process = SharingProcess(store, DEAR)
    lost = process.lose(range(1))
    process.share()
    asyncio.run(process.exchange.stop())
    (lent,) = store.mark_accounts.lent_since(0.0, int(NOW // 86_400.0)).values()

    assert lent / 1e9 == pytest.approx(lost, rel=0.01)


def test_a_clock_that_jumps_a_year_ahead_deletes_no_account(store):
    process = SharingProcess(store)
    process.share()
    process.ask_alone("a")
    process.share()
    for ahead in (365 * 86_400.0, 0.0):
        process.now = NOW + ahead
        process.share()

    assert len(store.mark_accounts.updated_since(0.0, 10)) == 1


class Recorder:
    """In place of accounts here and in a store: notes what is asked of it; knows nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.mark_accounts = self

    def __getattr__(self, name: str) -> Any:
        def record(*args: Any, **fields: Any) -> Any:
            self.calls.append((name, *args))
            return {} if name in {"account_news", "lent_since"} else []

        return record

    async def ask(self, question: Any, *args: Any) -> Any:
        return question(*args)

    def arguments_of(self, name: str) -> list[list[Any]]:
        return [args for called, *args in self.calls if called == name]


async def exchange_for(recorder: Any, duration_s: float) -> float:
    """Exchange accounts for so long, then stop; returns the seconds that stopping takes."""
    exchange = MarkAccountExchange(recorder, threading.Lock(), recorder, lambda: NOW)
    async with exchange.running(LoopTasks()):
        await asyncio.sleep(duration_s)
        stopped_at = ticks()
    return ticks() - stopped_at


def test_accounts_are_exchanged_every_two_seconds_and_kept_for_thirty_days():
    recorder, month = Recorder(), 30 * 86_400.0
    run_in_instant_time(exchange_for(recorder, 5.0))

    assert recorder.arguments_of("account_news") == [[1_000]] * 4, "the last when it stops"
    assert recorder.arguments_of("updated_since") == [
        [NOW - month, 10_000],
        [NOW - 10.0, 10_000],
        [NOW - 10.0, 10_000],
    ]
    assert recorder.arguments_of("delete_unused") == [[NOW - month]], (
        "not where the clock was just set"
    )


def test_stopping_waits_two_seconds_for_the_store():
    class SlowRecorder(Recorder):
        async def ask(self, question: Any, *args: Any) -> Any:
            await asyncio.sleep(3_600)

    assert run_in_instant_time(exchange_for(SlowRecorder(), 1.0)) == pytest.approx(2.0)
