"""Calls with a deadline follow an outage that moves from one route to the other."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from statistics import quantiles

import msgspec
import pytest

from proxy.calls.route_choice import RouteChoice, RoutingDecision
from proxy.catalog.entries import Upstream
from proxy.providers.port import PreparedRequest
from proxy.records.timeline import Timeline
from tests.fakes.answers import STREAM, stream
from tests.fakes.call_dependencies import fake_dependencies, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.hedged_calls import FixedDecision
from tests.fakes.upstream import SILENCE, After, FakeExchange, FakeTransport
from tests.proxy.api.served_calls import ONE, TWO, streaming_call
from tests.proxy.calls.test_hedging_deadlines import PATIENCE

DEADLINE = 0.3
RATE = 6.0
PHASE_S = 10.0
#: Seconds to the first content of each route, least and most, by phase.
Phases = Sequence[tuple[tuple[float, float], tuple[float, float]]]
QUICK, NEARLY_LATE, SLOW, DEAD = (0.05, 0.1), (0.26, 0.32), (0.5, 0.6), (inf, inf)


class MovingOutage(FakeTransport):
    """Answers in the time that its route takes in the phase that a call falls in."""

    def __init__(self, phases: Phases) -> None:
        super().__init__([])
        self._phases = phases
        self.began = ticks()

    async def open(self, upstream: Upstream, prepared: PreparedRequest) -> FakeExchange:
        passed = ticks() - self.began
        phase = self._phases[min(int(passed / PHASE_S), len(self._phases) - 1)]
        least, longest = phase[upstream.name != ONE.upstream.name]
        luck = random.Random(f"{passed:.3f} {upstream.name}")  # noqa: S311 - repeatable, not secret
        seconds = least if least == longest else luck.uniform(least, longest)
        self._scripts = [SILENCE] if seconds == inf else [stream(After(seconds, STREAM))]
        return await super().open(upstream, prepared)


class EveryEighthIsATrial(FixedDecision):
    """Sends an eighth of the calls to show how what was asked for does, the most there are."""

    def __init__(self, decision: RoutingDecision) -> None:
        super().__init__(decision)
        self._calls = 0

    def decide(self, call: object, requested: object) -> RoutingDecision:
        self._calls += 1
        decided = super().decide(call, requested)
        return msgspec.structs.replace(decided, is_trial=self._calls % 8 == 0)


def last_phase(
    phases: Phases,
    decision: RoutingDecision | None = None,
    router: type[FixedDecision] = FixedDecision,
) -> list[float]:
    """Seconds that each call of the last phase took, at a steady rate, many under way at once."""
    choices = tuple(RouteChoice(candidate, "m") for candidate in (ONE, TWO))
    decided = decision or RoutingDecision(choices=choices, deadline=DEADLINE)

    async def work() -> list[float]:
        transport = MovingOutage(phases)
        table, _ = fake_dependencies(transport, ONE, TWO, patience=PATIENCE)
        table = replace(table, router=router(decided))
        health = table.route_health
        for _ in range(100):
            health.record_call(1_000_000, ticks())
        took: list[float] = []

        async def one() -> None:
            began = ticks()
            await serve_call(streaming_call(), FakeCaller(), table, Timeline(ticks))
            health.record_call(1_000_000, ticks())
            if began - transport.began >= PHASE_S * (len(phases) - 1):
                took.append(ticks() - began)

        async with asyncio.TaskGroup() as group:
            for _ in range(int(PHASE_S * RATE * len(phases))):
                group.create_task(one())
                await asyncio.sleep(1 / RATE)
        return took

    return run_in_instant_time(work())


@pytest.mark.parametrize(
    ("outage", "p50", "p95"),
    [
        ((DEAD, SLOW), 0.6, 1.9),
        ((SLOW, NEARLY_LATE), 0.32, 0.6),
    ],
    ids=["dead, other slow", "slow, other nearly late"],
)
def test_calls_go_back_to_the_first_route_within_seconds_once_the_outage_moves(outage, p50, p95):
    took = last_phase([(QUICK, QUICK), outage, (outage[1], outage[0])])

    cuts = quantiles(took, n=20, method="inclusive")
    assert (cuts[9] <= p50, cuts[18] <= p95) == (True, True), cuts


def test_calls_on_a_fallback_route_that_falls_silent_go_back_once_it_is_overdue():
    left = RouteChoice(ONE, "m", is_suspect=True)
    decision = RoutingDecision(choices=(RouteChoice(TWO, "m"), left), deadline=DEADLINE, level=1)
    took = last_phase([(DEAD, QUICK), (QUICK, DEAD)], decision)

    assert max(took) <= 3 * DEADLINE + max(QUICK)
    assert sorted(took)[len(took) * 8 // 10] <= max(QUICK)


def test_calls_wait_for_no_probe_of_a_silent_route():
    took = last_phase([(QUICK, QUICK), (DEAD, QUICK), (DEAD, QUICK)])

    assert max(took) <= max(QUICK)


def test_trials_wait_for_no_silent_route_and_find_it_recovered():
    silent = [(QUICK, QUICK), (DEAD, SLOW)]
    meanwhile = last_phase([*silent, (DEAD, SLOW)], router=EveryEighthIsATrial)
    afterwards = last_phase([*silent, (QUICK, SLOW)], router=EveryEighthIsATrial)

    assert max(meanwhile) <= max(SLOW)
    assert quantiles(afterwards, n=20)[9] <= max(QUICK)
