import asyncio
from dataclasses import dataclass, field

import pytest

from proxy.api.connections.arrival_deadlines import ArrivalDeadlines, ArrivalPhase, ArrivalTimeouts
from tests.fakes.clock import run_in_instant_time

_TIMEOUTS = ArrivalTimeouts(headers=10, body_window=10, body_min_rate=100, unread=60)


@dataclass
class FakeConnection:
    """Notes when it is cut off, and why."""

    is_held: bool = False
    unsent_bytes: int = 0
    cut: list[tuple[float, ArrivalPhase]] = field(default_factory=list)
    begun: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def cut_off(self, phase: ArrivalPhase) -> None:
        self.cut.append((round(asyncio.get_running_loop().time() - self.begun, 3), phase))


def deadlines_and_connection() -> tuple[ArrivalDeadlines, FakeConnection]:
    connection = FakeConnection()
    loop = asyncio.get_running_loop()
    return ArrivalDeadlines(connection, loop, _TIMEOUTS, 30), connection


def test_a_silent_connection_is_cut_off_after_the_headers_timeout():
    async def work() -> None:
        deadlines, connection = deadlines_and_connection()
        await asyncio.sleep(5)
        deadlines.expect_headers()
        await asyncio.sleep(500)

        assert connection.cut == [(10, ArrivalPhase.HEADERS)]

    run_in_instant_time(work())


def test_a_later_request_has_the_headers_timeout_from_its_first_byte():
    async def work() -> None:
        deadlines, connection = deadlines_and_connection()
        deadlines.expect_answer_taken()
        deadlines.expect_next_request()
        await asyncio.sleep(25)
        deadlines.expect_headers()
        deadlines.arm()
        await asyncio.sleep(500)

        assert connection.cut == [(35, ArrivalPhase.HEADERS)]

    run_in_instant_time(work())


def test_an_idle_connection_is_cut_off_after_the_keep_alive_timeout():
    async def work() -> None:
        deadlines, connection = deadlines_and_connection()
        deadlines.expect_answer_taken()
        await asyncio.sleep(100)
        deadlines.expect_next_request()
        await asyncio.sleep(500)

        assert connection.cut == [(130, ArrivalPhase.IDLE)]

    run_in_instant_time(work())


@pytest.mark.parametrize(("size", "cut"), [(999, [(10, ArrivalPhase.BODY)]), (1000, [])])
def test_a_body_is_cut_off_below_its_rate_and_not_at_it(size, cut):
    async def work() -> None:
        deadlines, connection = deadlines_and_connection()
        deadlines.expect_body()
        deadlines.arm()
        for _ in range(5):
            deadlines.count_bytes(size)
            await asyncio.sleep(10)

        assert connection.cut == cut

    run_in_instant_time(work())


def test_a_body_that_came_fast_and_stops_is_cut_off_in_the_next_window():
    async def work() -> None:
        deadlines, connection = deadlines_and_connection()
        deadlines.expect_body()
        deadlines.arm()
        deadlines.count_bytes(10**7)
        await asyncio.sleep(500)

        assert connection.cut == [(20, ArrivalPhase.BODY)]

    run_in_instant_time(work())


def test_time_in_which_the_gateway_holds_the_caller_back_does_not_count():
    async def work() -> None:
        deadlines, connection = deadlines_and_connection()
        deadlines.expect_body()
        deadlines.arm()
        connection.is_held = True
        await asyncio.sleep(95)
        connection.is_held = False
        await asyncio.sleep(500)

        assert connection.cut == [(100, ArrivalPhase.BODY)]

    run_in_instant_time(work())


def test_a_call_that_is_answered_has_no_deadline_of_arrival():
    async def work() -> None:
        deadlines, connection = deadlines_and_connection()
        deadlines.expect_answer_taken()
        await asyncio.sleep(3600)

        assert connection.cut == []

    run_in_instant_time(work())


@pytest.mark.parametrize("takes", [True, False])
def test_an_answer_of_which_nothing_is_taken_is_cut_off(takes):
    async def work() -> None:
        deadlines, connection = deadlines_and_connection()
        deadlines.expect_answer_taken()
        for left in range(1000, 600, -1):
            connection.unsent_bytes = left if takes else 1000
            await asyncio.sleep(1)

        assert bool(connection.cut) is not takes
        assert connection.cut[:1] in (
            [],
            [(70 + 60, ArrivalPhase.ANSWER)],
            [(70, ArrivalPhase.ANSWER)],
        )

    run_in_instant_time(work())


def test_a_stopped_watch_cuts_nothing_off():
    async def work() -> None:
        deadlines, connection = deadlines_and_connection()
        deadlines.stop()
        await asyncio.sleep(500)

        assert connection.cut == []

    run_in_instant_time(work())
