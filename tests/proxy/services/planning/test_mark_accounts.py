"""Accounts of cache marks are shared by the processes of an installation."""

import asyncio
import threading

import pytest
from sqlalchemy.exc import OperationalError

from proxy.prefix.breakpoints.account import PromptPlace
from proxy.prefix.planned import Planned
from proxy.prefix.prediction.prefix_chains import expected_usage
from proxy.services.planning.mark_accounts import MarkAccountExchange
from proxy.store.store import Store
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


class SharingProcess:
    """A process that plans, and shares its accounts."""

    def __init__(self, store: Store) -> None:
        self.planning = PlanningProcess(CLAUDE)
        lock = threading.Lock()
        self.exchange = MarkAccountExchange(self.planning.planner.memory, lock, store, lambda: NOW)

    def share(self) -> None:
        """Exchange accounts once."""
        asyncio.run(self.exchange.exchange())

    def ask_alone(self, question: str) -> Planned:
        """A call that no other begins like, as it was sent; answered as its provider charges it."""
        rules = chat_message("system", f"Case {question}. {RULES * 3}")
        call = planning_request(body(rules, chat_message("user", question)))
        planned = self.planning.plan(call)
        sent = planned.evidence.sent
        usage = expected_usage(sent, planned.evidence.expected, sent.estimate)
        self.planning.planner.settle_call(planned, usage)
        return planned

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
    for at in range(4):
        processes[at % 2].ask_alone(str(at))
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
    with pytest.raises(OperationalError):
        asyncio.run(exchange.exchange())
    away.close(0.0)

    assert [news.calls for news in memory.account_news().values()] == [1]
    process.share()
    assert not memory.account_news()
