import asyncio

import pytest

from proxy.errors import ProxyError, Unready
from proxy.services.reports.background_reports import (
    KEEP_S,
    MAX_KEPT,
    MAX_KEPT_PER_OWNER,
    MAX_RUNNING,
    BackgroundReports,
    PendingReport,
    ReportOrder,
)
from tests.fakes.call_dependencies import LoopTasks

pytestmark = pytest.mark.instant_time


class Orders:
    """Orders for reports that take some seconds each, and how often each was begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.reports = BackgroundReports(LoopTasks())

    def order(
        self, name: str, owner: str = "acme", *, seconds: float = 0.0, fails: bool = False
    ) -> ReportOrder:
        async def make() -> bytes:
            self.begun.append(name)
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
            if fails:
                raise Unready("away", code="database_unavailable")
            return name.encode()

        return ReportOrder(key=(name, owner), owner=owner, make=make)

    async def take(
        self, name: str, owner: str = "acme", *, seconds: float = 0.0, wait_s: float = 3.0
    ) -> bytes | PendingReport:
        return await self.reports.take(self.order(name, owner, seconds=seconds), wait_s)


async def test_a_report_that_takes_long_goes_on_and_is_given_to_a_later_request() -> None:
    orders = Orders()
    assert await orders.take("a", seconds=70) == PendingReport(3.0)
    assert await orders.take("a", wait_s=7.0) == PendingReport(10.0)
    assert await orders.take("a", wait_s=600.0) == b"a"
    assert await orders.take("a") == b"a"
    assert orders.begun == ["a"]


async def test_a_request_that_is_cancelled_leaves_its_report_going_on() -> None:
    orders = Orders()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await orders.take("a", seconds=10, wait_s=60.0)
    assert await orders.take("a", wait_s=60.0) == b"a"
    assert orders.begun == ["a"]


async def test_few_reports_are_made_at_once_and_one_of_the_same_teams() -> None:
    orders = Orders()
    waits = PendingReport(0.0, is_waiting=True)
    await orders.take("a", "team 0", seconds=70)
    assert await orders.take("b", "team 0") == waits
    for n in range(1, MAX_RUNNING):
        assert await orders.take("a", f"team {n}", seconds=70) != waits
    assert await orders.take("a", "another") == waits
    await asyncio.sleep(70)
    assert await orders.take("b", "team 0") == b"b"
    assert await orders.take("a", "another") == b"a"


async def test_a_failure_is_told_once_and_then_the_report_is_made_anew() -> None:
    orders = Orders()
    for _ in range(2):
        with pytest.raises(ProxyError, match="away"):
            await orders.reports.take(orders.order("a", fails=True), 3.0)
    assert orders.begun == ["a", "a"]


async def test_a_report_is_kept_for_some_minutes() -> None:
    orders = Orders()
    await orders.take("a")
    await asyncio.sleep(KEEP_S - 1)
    assert ("a", "acme") in orders.reports
    await asyncio.sleep(2)
    assert ("a", "acme") not in orders.reports


async def test_the_oldest_reports_of_the_same_teams_go_first_and_then_those_of_all() -> None:
    orders = Orders()
    await orders.take("a", "other")
    for n in range(MAX_KEPT_PER_OWNER + 1):
        await orders.take(f"{n}")
    assert ("0", "acme") not in orders.reports
    assert ("1", "acme") in orders.reports
    assert ("a", "other") in orders.reports

    for n in range(MAX_KEPT):
        await orders.take("a", f"team {n}")
    remaining = [n for n in range(MAX_KEPT) if ("a", f"team {n}") in orders.reports]
    assert len(remaining) == MAX_KEPT
    assert ("a", "other") not in orders.reports


async def test_a_report_in_progress_is_cancelled_when_the_gateway_stops() -> None:
    orders = Orders()
    await orders.take("a", seconds=70)
    asyncio.get_running_loop().call_later(1.0, orders.reports.stop)
    with pytest.raises(ProxyError, match="not made to its end"):
        await orders.take("a", wait_s=60.0)
    assert orders.cancelled == ["a"]
