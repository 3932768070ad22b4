"""Budgets while the machine's clock leaps, by minutes to days, forward and back."""

import asyncio

import pytest

from proxy.calls.metering.settlement import AttemptInfo
from slo import window
from slo.budgets.budget import Budget
from slo.budgets.counter import CounterLevel
from slo.steady_clock import BELIEVED_AFTER_S, SteadyClock
from slo.window import Window
from tests.fakes.admission_harness import NOW, WORST, AdmissionHarness, budget
from tests.fakes.admission_scenarios import ANSWERED, wait_until_settled
from tests.fakes.clock import ticks
from tests.fakes.refusals import refusing

pytestmark = pytest.mark.instant_time


DAY = 86_400.0
LEAPS = [-5 * DAY, -DAY, -3600.0, -180.0, 180.0, 3600.0, DAY, 5 * DAY]


class ClockJumpHarness(AdmissionHarness):
    """A harness whose wall clock leaps; its budgets go by the steady clock over it."""

    def __init__(self, *budgets: Budget) -> None:
        self.leapt = 0.0
        began = ticks()
        self.steady = SteadyClock(lambda: NOW + self.leapt + ticks() - began, ticks)
        super().__init__(*budgets)

    def now(self) -> float:
        return self.steady()

    async def spend(self, number: int) -> AttemptInfo:
        """A call that uses all that it held."""
        attempt = self.attempt(number, arrived=self.now())
        await self.admit(attempt)
        self.end(attempt, ANSWERED)
        await wait_until_settled(self)
        return attempt

    async def level_of_window(self, kind: Window) -> CounterLevel:
        return await self.level(f"b/team/usd/{window.window_name(kind, self.now())}/acme")


def full() -> Budget:
    """A budget that one call fills."""
    return budget(limit=WORST)


@pytest.mark.parametrize("leap", LEAPS)
async def test_a_budget_that_is_used_up_stays_so_when_the_clock_leaps_and_comes_back(leap):
    harness = ClockJumpHarness(full())
    await harness.spend(1)
    before = await harness.level_of_window(Window.DAY)
    assert before.spent > 0

    for number in range(5):
        harness.leapt = leap if number % 2 == 0 else 0.0
        with refusing(429):
            await harness.spend(10 + number)
        assert await harness.level_of_window(Window.DAY) == before


@pytest.mark.parametrize("leap", [DAY, 5 * DAY])
async def test_a_window_that_a_lasting_leap_opened_is_not_emptied_by_the_leap_back(leap):
    harness = ClockJumpHarness(full())
    await harness.spend(1)
    harness.leapt = leap
    await asyncio.sleep(1)
    harness.now()
    await asyncio.sleep(BELIEVED_AFTER_S + 1)
    await harness.spend(2)
    spent = await harness.level_of_window(Window.DAY)

    harness.leapt = 0.0
    for number in range(3):
        with refusing(429):
            await harness.spend(10 + number)
    assert await harness.level_of_window(Window.DAY) == spent


async def test_budgets_a_minute_go_on_while_the_clock_is_far_behind():
    harness = ClockJumpHarness(budget(limit=WORST, window=Window.MINUTE))
    harness.leapt = -DAY
    for number in range(5):
        await harness.spend(number)
        with refusing(429):
            await harness.spend(100 + number)
        await asyncio.sleep(70.0)
