# ruff: noqa: S311, T201 - traffic needs luck, and a script prints its result
"""A model is three times as slow for ten minutes, behind a gateway: what callers saw of it.

Usage: python -m tests.bench.incident_http [--seeds 1] [--rate 10]

The hour of ``tests.bench.incident``, but over HTTP: callers, gateway and lab speak through real
sockets, ten calls a second of virtual time, all streams, in conversations that keep their level.
They share one loop in virtual time (``tests.fakes.virtual_clock``): delays are simulated, and what
the processor does takes no time. ``moves`` are the gateway's log lines.
"""

import argparse
import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from slo.alert import Alert
from tests.bench.incident import CALLS, PAUSE, SCATTER, SLOW, SLOWER
from tests.fakes.http_caller import HttpAnswer
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.virtual_gateway import VirtualGateway, question, virtual_gateway

PROMISE = """
[[objectives]]
name = "chat-ttft"
metric = "ttft"
p = 95
under = "500ms"
enforce = "degrade"
ladder = ["small"]
"""
LEVEL, PLACE = "chat-ttft: fallback level 1", "chat-ttft: in its place"
_MOVED = 'thriftgate_fallback_calls_total{level="small",objective="chat-ttft"}'


@dataclass(frozen=True, kw_only=True)
class IncidentPlan:
    """Times of an incident's events, in seconds.

    Attributes:
        seed: Of the traffic's luck.
        rate: Calls a second, about.
        begins: When the model becomes slow.
        ends: When it is as before.
        over: When the last conversation has begun.
        scatter: How delays do: the sigma of their logarithm.
        later_rate: Calls a second from a minute after the end on; None for as many as before.
    """

    seed: int = 1
    rate: float = 10.0
    begins: float = 900.0
    ends: float = 1500.0
    over: float = 3600.0
    scatter: float = SCATTER
    later_rate: float | None = None

    def rate_at(self, now: float) -> float:
        """Calls a second at this time."""
        is_later = now > self.ends + 60
        return self.later_rate if is_later and self.later_rate is not None else self.rate


@dataclass(frozen=True, kw_only=True)
class HttpIncidentResult:
    """Answers, moves and records of an incident.

    Attributes:
        heard: What callers heard.
        first: The same of the first calls of conversations.
        moves: When the objective moved, and what the log said.
        alerts: What was told.
        receipts: What the ledger says: why each call was moved, by its final receipt.
        counted: What the metric says was moved.
    """

    hour: IncidentPlan
    heard: list[HttpAnswer]
    first: list[HttpAnswer]
    moves: list[tuple[float, str]]
    alerts: list[Alert]
    receipts: dict[str, str]
    counted: float

    @property
    def reasons(self) -> Counter[str]:
        """Counts of the reasons that callers were told; "" where they got what they asked for."""
        return Counter(each.fallback_reason for each in self.heard)

    @property
    def slow(self) -> list[HttpAnswer]:
        """The calls whose first word took too long."""
        return [each for each in self.heard if each.first is None or each.first > SLOW]

    @property
    def first_move_s(self) -> float:
        """Seconds from the beginning until the first move."""
        return self.moves[0][0] - self.hour.begins

    @property
    def whole(self) -> float:
        """Seconds from the end until the last conversation that began on the lower level."""
        begun = [each.began for each in self.first if each.fallback_reason == LEVEL]
        return max(begun) - self.hour.ends

    @property
    def last_move_s(self) -> float:
        """Seconds from the end until the last move."""
        return self.moves[-1][0] - self.hour.ends


@dataclass
class _Traffic:
    """Conversations that begin one after the other, and go on as their answers come."""

    world: VirtualGateway
    hour: IncidentPlan
    heard: list[HttpAnswer] = field(default_factory=list)
    first: list[HttpAnswer] = field(default_factory=list)
    number: int = 0

    async def run(self) -> None:
        arrivals = Random(f"{self.hour.seed} arrivals")
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while loop.time() < self.hour.over:
                self.number += 1
                group.create_task(self._talk(self.number))
                rate = self.hour.rate_at(loop.time())
                await asyncio.sleep(arrivals.expovariate(rate / CALLS))

    async def _talk(self, number: int) -> None:
        luck = Random(f"{self.hour.seed} conversation {number}")
        messages: list[dict[str, str]] = []
        while True:
            slow = luck.lognormvariate(0.0, self.hour.scatter)
            body = question(number, messages, f"slow={slow:.3f}")
            headers = {"x-thriftgate-conversation": f"talk-{number}"}
            self.heard.append(await self.world.http_caller.ask(body, headers))
            if not messages:
                self.first.append(self.heard[-1])
            if luck.random() < 1 / CALLS:
                return
            messages = [*body["messages"], {"role": "assistant", "content": "So it is."}]
            await asyncio.sleep(luck.expovariate(1 / PAUSE))


def outcome(hour: IncidentPlan) -> HttpIncidentResult:
    """Let the hour pass."""
    with tempfile.TemporaryDirectory() as folder:
        return run_in_virtual_time(lambda: play(Path(folder), hour))


async def play(folder: Path, hour: IncidentPlan, more_policies: str = "") -> HttpIncidentResult:
    """The outcome of an hour whose gateway has these policies, too; runs in virtual time."""
    async with virtual_gateway(folder, PROMISE + more_policies) as world:
        loop = asyncio.get_running_loop()
        loop.call_at(hour.begins, world.lab.inject_fault, "big", f"slow={SLOWER:g}")
        loop.call_at(hour.ends, world.lab.inject_fault, "big", "")
        traffic = _Traffic(world, hour)
        await traffic.run()
        metrics = await world.metrics()
        await asyncio.sleep(5)
        return HttpIncidentResult(
            hour=hour,
            heard=traffic.heard,
            first=traffic.first,
            moves=world.moves(),
            alerts=world.alerts(),
            receipts=world.finals(),
            counted=metrics[_MOVED],
        )


def summary(came: HttpIncidentResult) -> str:
    """The outcome as lines to read."""
    reasons, calls = came.reasons, len(came.heard)
    slow = came.slow
    hour = came.hour
    meanwhile = sum(hour.begins <= each.began < hour.ends for each in slow)
    agree = {each.call: each.fallback_reason for each in came.heard} == came.receipts
    met = Counter(each.status for each in came.heard)
    when = (
        f"noticed after {came.first_move_s:.0f} s, all up again {came.whole:.0f} s after its end,"
        f" last move {came.last_move_s:.0f} s after it"
    )
    counted = f"the metric counted {came.counted:.0f} of {calls - reasons['']} moved calls"
    late = f"{reasons[PLACE] / calls:.2%} once it was late or left alone"
    lines = [
        f"{calls:,} calls in {hour.over / 60:.0f} minutes, seed {hour.seed}: {dict(met)}",
        f"moves: {len(came.moves)}, {when}",
        *(f"  {at:7.1f} s  {line}" for at, line in came.moves),
        f"slow calls: {len(slow) / calls:.2%} ({meanwhile / calls:.2%} in the incident)",
        f"moved: {reasons[LEVEL] / calls:.1%} by the level, {late}",
        f"headers and receipts agree: {agree}; {counted}",
        *(f"alert: {each.severity.value}: {each.title}; {each.action}" for each in came.alerts),
    ]
    return "\n".join(lines)


def main() -> None:
    """Print what came of it, for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--rate", type=float, default=10.0)
    options = parser.parse_args()
    for seed in options.seeds:
        print(summary(outcome(IncidentPlan(seed=seed, rate=options.rate))))


if __name__ == "__main__":
    main()
