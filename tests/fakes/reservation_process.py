"""A process that reserves from shared counters, for tests with several of them."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from proxy.store.redis.budget_store import RedisBudgetStore
from slo.budgets.counter import CounterClaim
from slo.budgets.reservations import ReservationGranted
from tests.fakes.redis_keys import SERVER

ORGANIZATION = "acme"
CENTS_10 = 100_000_000
DOLLARS_5 = 5_000_000_000
CLAIM = CounterClaim("team:payments:2026-11", CENTS_10, DOLLARS_5, hard=True, ends=0.0)


@contextmanager
def reservation_process(prefix: str, name: str, times: int) -> Iterator["subprocess.Popen[str]"]:
    """A process that is ready to reserve so many times at once, and does when it reads a line.

    It answers with how many were granted, and waits for another line before it ends.
    """
    command = [sys.executable, "-m", "tests.fakes.reservation_process", prefix, name, str(times)]
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert read_line(process) == "ready"
            yield process
        finally:
            process.kill()


def read_line(process: "subprocess.Popen[str]") -> str:
    """The next line from the process."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def send_go(process: "subprocess.Popen[str]") -> None:
    """Let the process go on."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def open_budget_store(prefix: str, *, trusts_callers: bool = False) -> RedisBudgetStore:
    """The counters that the processes reserve from."""
    return RedisBudgetStore(
        SERVER, ORGANIZATION, prefix=prefix, deadline=30.0, trusts_callers=trusts_callers
    )


async def _reserve(prefix: str, name: str, times: int) -> None:
    store = open_budget_store(prefix, trusts_callers=True)
    await store.levels([CLAIM.counter], 1000.0)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    answers = await asyncio.gather(
        *(store.reserve(f"{name}-{index}", [CLAIM], 1000.0, 1030.0) for index in range(times))
    )
    sys.stdout.write(f"{sum(isinstance(answer, ReservationGranted) for answer in answers)}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(_reserve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
