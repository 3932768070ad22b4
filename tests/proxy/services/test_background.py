import asyncio

import pytest

from proxy.services.background import BackgroundTasks
from tests.fakes.clock import run_in_instant_time


async def test_a_background_task_that_fails_is_logged_and_harms_no_other(caplog):
    done = []

    async def fails() -> None:
        raise ValueError("on purpose")

    async def works() -> None:
        await asyncio.sleep(0)
        done.append(True)

    async with asyncio.TaskGroup() as group:
        tasks = BackgroundTasks(group)
        tasks.start(fails)
        tasks.start(works)
    assert done == [True]
    (record,) = caplog.records
    assert record.message == "A background task failed"
    assert record.exc_info is not None
    assert "on purpose" in str(record.exc_info[1])


def test_a_task_that_is_to_go_on_begins_again_where_it_fails(caplog):
    tries = []

    async def fails() -> None:
        tries.append(True)
        if len(tries) < 4:
            raise ValueError(f"on purpose, {len(tries)}")
        async with asyncio.TaskGroup() as group:
            group.create_task(fails_otherwise())

    async def fails_otherwise() -> None:
        if len(tries) < 7:
            raise KeyError("another mistake")

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            BackgroundTasks(group).keep(fails)

    run_in_instant_time(work())
    assert len(tries) == 7
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "on purpose, 1",
        "unhandled errors in a TaskGroup (1 sub-exception)",
    ]


@pytest.mark.instant_time
async def test_a_task_that_is_to_go_on_ends_when_it_is_told_to():
    async def fails() -> None:
        raise ValueError("on purpose")

    async with asyncio.TaskGroup() as group:
        tasks = BackgroundTasks(group)
        running = tasks.keep(fails)
        await asyncio.sleep(3)
        assert not running.done()
        tasks.end(running)
