"""Answers that several gateways share, before a store that may be away or slow."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from proxy.services.fast_path.shared_store import SharedAnswerStore
from proxy.store.errors import StoreError
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.clock import run_in_instant_time, ticks
from tests.proxy.fast_path.answer_cache.test_cached_answer import ANSWER

T = TypeVar("T")


class FakeAnswerBytes:
    """Keeps bytes by key; takes its time, and may be away."""

    def __init__(self, *, takes: float = 0.01) -> None:
        self.kept: dict[str, bytes] = {}
        self.is_away = False
        self.questions = 0
        self._takes = takes

    async def get(self, key: str) -> bytes | None:
        self.questions += 1
        await self._answer()
        return self.kept.get(key)

    async def put(self, key: str, value: bytes, ttl_s: float) -> int:
        await self._answer()
        self.kept[key] = value
        return len(value)

    async def _answer(self) -> None:
        await asyncio.sleep(self._takes)
        if self.is_away:
            raise StoreError("away")


def run(
    work: Callable[[SharedAnswerStore, FakeAnswerBytes], Coroutine[Any, Any, T]], **fake: Any
) -> T:
    async def run_with_store() -> T:
        store = FakeAnswerBytes(**fake)
        return await work(SharedAnswerStore(store, LoopTasks(), ticks), store)

    return run_in_instant_time(run_with_store())


def test_an_answer_is_stored_soon_and_found_by_all_who_ask_at_once_with_one_question():
    async def ask(shared: SharedAnswerStore, store: FakeAnswerBytes) -> None:
        shared.put(ANSWER, 60.0)
        await asyncio.sleep(1.0)
        found = await asyncio.gather(*(shared.get("k") for _ in range(10)))

        assert found == [ANSWER] * 10
        assert store.questions == 1
        assert await shared.get("other") is None

    run(ask)


def test_a_store_that_is_away_is_asked_once_a_second():
    async def ask(shared: SharedAnswerStore, store: FakeAnswerBytes) -> list[int]:
        store.is_away = True
        counts = []
        for pause in (0.0, 0.5, 1.0):
            await asyncio.sleep(pause)
            assert await shared.get("k") is None
            counts.append(store.questions)
        return counts

    assert run(ask) == [1, 1, 2]


def test_more_questions_than_the_bound_are_misses():
    async def ask(shared: SharedAnswerStore, store: FakeAnswerBytes) -> int:
        await asyncio.gather(*(shared.get(str(number)) for number in range(200)))
        return store.questions

    assert run(ask) == 64


def test_more_answers_than_the_bound_are_not_stored():
    async def write(shared: SharedAnswerStore, store: FakeAnswerBytes) -> int:
        for _ in range(200):
            shared.put(ANSWER, 60.0)
        writes = shared._writes
        await asyncio.sleep(1.0)
        assert shared._writes == 0
        return writes

    assert run(write) == 64


def test_a_caller_that_leaves_while_it_asks_leaves_others_a_miss():
    async def ask(shared: SharedAnswerStore, store: FakeAnswerBytes) -> object:
        first = asyncio.get_running_loop().create_task(shared.get("k"))
        await asyncio.sleep(1.0)
        second = asyncio.get_running_loop().create_task(shared.get("k"))
        await asyncio.sleep(1.0)
        first.cancel()
        return await second

    assert run(ask, takes=100.0) is None


def test_bytes_that_are_no_answer_are_a_miss():
    async def ask(shared: SharedAnswerStore, store: FakeAnswerBytes) -> object:
        store.kept["k"] = b"\xff"
        return await shared.get("k")

    assert run(ask) is None
