"""Faults of an upstream and of a clock, played over HTTP in virtual time.

Two calls a second, all streams; the fault is there for a part of the time.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proxy.records.receipt import Receipt
from slo.alert import Alert
from tests.fakes.http_caller import HttpAnswer
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.virtual_gateway import VirtualGateway, question, virtual_gateway

TTFT = """
[[objectives]]
name = "chat-ttft"
metric = "ttft"
p = 95
under = "500ms"
"""
ERRORS = """
[[objectives]]
name = "chat-errors"
metric = "errors"
at_most = "2%"
"""
LADDER = 'enforce = "degrade"\nladder = ["small"]\n'
#: What the objective enforces: an alert alone, or a move to another model.
POLICIES = {
    "alert": TTFT + ERRORS,
    "degrade": TTFT + LADDER + ERRORS + LADDER,
}
#: Fault directives of ``big``.
CUES = {
    "hang before headers": "hang",
    "slow first byte": "slow=20",
    "keep-alives only": "keepalives",
    "429 storm": "429=20",
}
#: By how many seconds the clock is wrong from the middle of the fault on; ``big`` is slow then.
JUMPS = {"clock jumps ahead 1 h": 3600.0, "clock jumps back 1 h": -3600.0}
_SLOWER = "slow=5"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, and what the objective enforces while it lasts.

    Attributes:
        begins: When, in seconds.
        ends: The same.
        over: When the last call is made.
        rate: Calls a second.
    """

    name: str
    enforce: str = "degrade"
    begins: float = 60.0
    ends: float = 180.0
    over: float = 600.0
    rate: float = 2.0

    @property
    def cue(self) -> str:
        """Fault directives of ``big``."""
        return CUES.get(self.name, _SLOWER)


@dataclass(frozen=True, kw_only=True)
class FaultResult:
    """The results of a fault.

    Attributes:
        heard: What callers heard.
        receipts: All that the ledger holds.
        charged: Nano-dollars that the simulator charged.
        moves: When objectives moved, and what the log said.
        breaker: What the breaker of ``big`` was when the fault ended, and in the end.
        alerts: What was told.
        errors: What the log said that is worse than a warning.
    """

    fault: Fault
    heard: Sequence[HttpAnswer]
    receipts: Sequence[Receipt]
    charged: int
    moves: Sequence[tuple[float, str]]
    breaker: tuple[str, str]
    alerts: Sequence[Alert]
    errors: Sequence[str]

    @property
    def meanwhile(self) -> list[HttpAnswer]:
        """The calls that were made while it lasted."""
        return [
            answer for answer in self.heard if self.fault.begins <= answer.began < self.fault.ends
        ]

    @property
    def got(self) -> Counter[str]:
        """Answers of the callers of that time, in a few words, and how often each came."""
        return Counter(map(got, self.meanwhile))

    @property
    def exact(self) -> int:
        """Nano-dollars of what upstreams told."""
        return sum(receipt.cost_nanos or 0 for receipt in self.receipts if not receipt.estimated)

    @property
    def finals(self) -> dict[str, Receipt]:
        """The receipt that each call ended with; there is exactly one."""
        by_call = {receipt.call_id: receipt for receipt in self.receipts if receipt.final}
        assert len(by_call) == sum(receipt.final for receipt in self.receipts)
        return by_call


def got(heard: HttpAnswer) -> str:
    """Return what a caller got, in a few words."""
    if heard.status == 200:
        content = "answer" if heard.is_whole and b"[DONE]" in heard.body else "part of an answer"
        return (
            f"{content}, moved ({heard.fallback_reason.partition(': ')[2]})"
            if heard.fallback_reason
            else content
        )
    after = heard.headers.get("retry-after", "")
    return f"{heard.status} {heard.error['code']}" + (f", retry-after {after}" if after else "")


def meet(fault: Fault) -> FaultResult:
    """Let it happen."""
    with tempfile.TemporaryDirectory() as folder:
        return run_in_virtual_time(lambda: _met(Path(folder), fault))


async def _met(folder: Path, fault: Fault) -> FaultResult:
    async with virtual_gateway(folder, POLICIES[fault.enforce]) as world:
        loop = asyncio.get_running_loop()
        breakers: list[str] = []
        loop.call_at(fault.begins, world.lab.inject_fault, "big", fault.cue)
        loop.call_at(fault.ends - 0.1, lambda: breakers.append(world.breaker("big")))
        loop.call_at(fault.ends, world.lab.inject_fault, "big", "")
        if fault.name in JUMPS:
            midway = (fault.begins + fault.ends) / 2
            loop.call_at(midway, setattr, world.clock, "ahead", JUMPS[fault.name])
        heard = await _make_calls(world, fault)
        breakers.append(world.breaker("big"))
        await asyncio.sleep(5)
        return FaultResult(
            fault=fault,
            heard=heard,
            receipts=world.receipts(),
            charged=world.charged_nanos(),
            moves=world.moves(),
            breaker=(breakers[0], breakers[1]),
            alerts=world.alerts(),
            errors=world.said.worse,
        )


async def _make_calls(world: VirtualGateway, fault: Fault) -> list[HttpAnswer]:
    calls: list[asyncio.Task[HttpAnswer]] = []
    async with asyncio.TaskGroup() as group:
        for number in range(round(fault.over * fault.rate)):
            calls.append(group.create_task(world.http_caller.ask(question(number))))
            await asyncio.sleep(1 / fault.rate)
    return [call.result() for call in calls]
