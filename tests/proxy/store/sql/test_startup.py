import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from proxy.store.errors import StoreError
from proxy.store.sql.startup import RetryDelays, is_available, open_when_available

_QUICK = RetryDelays(first=0.001, longest=0.002, silence=30.0)
_SILENT = RetryDelays(silence=0.01)


@dataclass
class Attempts:
    """Opens a store after so many failures."""

    failures: list[StoreError]
    made: int = 0
    waits: list[int] = field(default_factory=list)

    def open(self) -> str:
        self.made += 1
        if self.made <= len(self.failures):
            raise self.failures[self.made - 1]
        return "the store"

    def wait(self) -> None:
        self.waits.append(self.made)


def _open(attempts: Attempts, delays: RetryDelays = _QUICK) -> str:
    return asyncio.run(open_when_available(attempts.open, attempts.wait, delays))


def test_a_store_that_opens_at_once_makes_nobody_wait(caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts([])

    assert _open(attempts) == "the store"
    assert (attempts.waits, caplog.messages) == ([], [])


def test_an_outage_is_retried_and_logged_once_when_it_begins_and_once_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    attempts = Attempts([StoreError(f"refused {n}", is_outage=True) for n in range(4)])

    assert _open(attempts) == "the store"
    assert (attempts.made, attempts.waits) == (5, [1])
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith(
        "The database is not available yet: refused 0. Calls get 503"
    )
    assert caplog.messages[1].startswith("The database is available after")


def test_an_error_that_waiting_does_not_heal_is_raised_at_once() -> None:
    attempts = Attempts([StoreError("permission denied")])

    with pytest.raises(StoreError, match="denied"):
        _open(attempts)
    assert attempts.waits == []


def test_an_error_that_waiting_does_not_heal_ends_the_wait() -> None:
    away, denied = StoreError("away", is_outage=True), StoreError("denied")
    attempts = Attempts([away, denied])

    with pytest.raises(StoreError, match="denied"):
        _open(attempts)
    assert (attempts.made, attempts.waits) == (2, [1])


def test_a_database_that_does_not_answer_makes_the_gateway_wait_before_the_attempt_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answered = threading.Event()
    delays = RetryDelays(first=0.001, longest=0.002, silence=0.01)
    work: Callable[[], bool] = lambda: answered.wait(30)  # noqa: E731 - the attempt
    opened = asyncio.run(open_when_available(work, answered.set, delays))

    assert opened
    assert "its tables are being made or migrated" in caplog.messages[0]


def test_the_end_of_the_process_does_not_wait_for_an_attempt() -> None:
    never = threading.Event()

    async def told_to_stop() -> None:
        waits = asyncio.Event()
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            work = open_when_available(lambda: never.wait(60), waits.set, _SILENT)
            opening = tasks.create_task(work)
            await waits.wait()
            opening.cancel()

    asyncio.run(told_to_stop())
    (attempt,) = [thread for thread in threading.enumerate() if thread.name == "blocking work"]
    assert attempt.daemon
    never.set()
    attempt.join(30)


def _is_available(attempts: Attempts) -> bool:
    return asyncio.run(is_available(attempts.open))


def test_a_database_that_can_be_used_is_available_and_one_that_is_away_is_not() -> None:
    away = Attempts([StoreError("refused", is_outage=True)])

    assert _is_available(Attempts([]))
    assert not _is_available(away)
    assert away.made == 1


def test_a_database_that_does_not_answer_is_not_available() -> None:
    answered = threading.Event()
    work: Callable[[], bool] = lambda: answered.wait(30)  # noqa: E731 - the attempt
    available = asyncio.run(is_available(work, 0.01))
    answered.set()

    assert not available


def test_an_error_that_waiting_does_not_heal_is_not_taken_for_an_outage() -> None:
    with pytest.raises(StoreError, match="denied"):
        _is_available(Attempts([StoreError("permission denied")]))


def test_the_log_says_what_becomes_of_calls_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts([StoreError("refused", is_outage=True)])
    work = open_when_available(attempts.open, attempts.wait, _QUICK, meanwhile="Some get 200")
    asyncio.run(work)

    assert caplog.messages[0] == (
        "The database is not available yet: refused. Some get 200 until it is"
    )
