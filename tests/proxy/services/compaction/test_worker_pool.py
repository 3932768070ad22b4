"""Tests of who waits for whom, where a prompt takes long."""

import asyncio
import threading
from contextlib import suppress

import pytest

from compaction.memory import CompactionMemory
from compaction.reading.message import CannotCompactError
from proxy.services.compaction.worker_pool import WorkerPool

_MAX_JOBS_PER_TEAM = 8
_WORKERS = 2

WITHIN = 0.1


def quick(_memory):
    return threading.current_thread().name


def start(work):
    return asyncio.get_running_loop().create_task(work)


def run_work(work):
    """Result of work with threads, and with something that is slow until it is let go."""

    async def all_of_it():
        threads, free = WorkerPool(WITHIN), threading.Event()

        def slow(_memory):
            free.wait(10)
            return "slow"

        try:
            return await work(threads, slow, free)
        finally:
            free.set()
            threads.close()

    return asyncio.run(all_of_it())


async def stuck(threads, slow, team="hog"):
    with suppress(TimeoutError):
        await threads.run(team, slow, is_quick=False)
    await asyncio.sleep(WITHIN / 2)


def test_quick_work_runs_at_once_and_other_work_on_a_thread():
    async def work(threads, _slow, _free):
        here = await threads.run("a", quick, is_quick=True)
        there = await threads.run("a", quick, is_quick=False)
        return here, there, await threads.run("a", lambda memory: memory, is_quick=True)

    here, there, memory = run_work(work)

    assert here == "MainThread"
    assert there.startswith("compaction")
    assert isinstance(memory, CompactionMemory)


def test_quick_work_goes_to_the_thread_while_its_worker_is_busy():
    async def work(threads, slow, free):
        hog = start(threads.run("a", slow, is_quick=False))
        await asyncio.sleep(WITHIN / 4)
        short = start(threads.run("a", quick, is_quick=True))
        await asyncio.sleep(0)
        free.set()
        return await hog, await short

    hog, short = run_work(work)

    assert hog == "slow"
    assert short.startswith("compaction")


def test_a_team_that_holds_up_its_thread_is_busy_and_others_are_served():
    async def work(threads, slow, free):
        await stuck(threads, slow)
        with pytest.raises(CannotCompactError, match="busy"):
            await threads.run("hog", quick, is_quick=False)
        names = [await threads.run(f"team_{n}", quick, is_quick=False) for n in range(9)]
        free.set()
        await asyncio.sleep(WITHIN)
        return names, await threads.run("hog", quick, is_quick=False)

    names, after = run_work(work)

    assert all(name.startswith("compaction") for name in [*names, after])


def test_where_all_threads_are_held_up_calls_are_late():
    async def work(threads, slow, _free):
        for n in range(_WORKERS):
            await stuck(threads, slow, f"hog_{n}")
        with pytest.raises(TimeoutError):
            await threads.run("other", quick, is_quick=False)

    run_work(work)


def test_a_team_may_have_so_many_waiting_and_no_more():
    async def work(threads, slow, free):
        hogs = [start(threads.run("a", slow, is_quick=False)) for _ in range(_MAX_JOBS_PER_TEAM)]
        await asyncio.sleep(0)
        with pytest.raises(CannotCompactError, match="busy"):
            await threads.run("a", quick, is_quick=False)
        free.set()
        results = await asyncio.gather(*hogs)
        await asyncio.sleep(WITHIN / 4)
        return results, threads._held

    results, waiting = run_work(work)

    assert results == ["slow"] * _MAX_JOBS_PER_TEAM
    assert not waiting


def test_waiting_work_is_dropped_with_its_caller():
    async def work(threads, slow, free):
        hog = start(threads.run("a", slow, is_quick=False))
        waits = start(threads.run("a", quick, is_quick=False))
        await asyncio.sleep(0.01)
        waits.cancel()
        with suppress(asyncio.CancelledError):
            await waits
        free.set()
        await hog
        await asyncio.sleep(WITHIN / 4)
        return threads._held

    assert not run_work(work)


def test_an_error_on_a_worker_reaches_the_caller():
    async def work(threads, _slow, _free):
        with pytest.raises(ZeroDivisionError):
            await threads.run("a", lambda _: 1 // 0, is_quick=False)
        threads.close()
        with pytest.raises(RuntimeError):
            await threads.run("a", quick, is_quick=False)
        return threads._held

    assert not run_work(work)
