"""A loop in virtual time."""

import asyncio
import threading

from tests.fakes.virtual_clock import VirtualTimeLoop, run_in_virtual_time

_REAL_S = 0.05


def test_no_virtual_time_passes_while_a_thread_is_at_work():
    ended_at: list[float] = []

    async def story() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        worker = threading.Timer(_REAL_S, lambda: ended_at.append(loop.time()))
        loop.wait_for_worker(worker.is_alive)
        worker.start()
        await asyncio.sleep(3_600)
        return loop.time()

    assert run_in_virtual_time(story) >= 3_600
    assert ended_at == [0.0]
