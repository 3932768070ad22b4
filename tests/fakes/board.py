"""A board with a row of each kind, for tests of the pages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dashboards.board import (
    BudgetCounter,
    CeilingStatus,
    MissedTime,
    ObjectiveStatus,
    OpenAlert,
    Pin,
    Reroute,
    ReroutedCall,
    StateTimeline,
)
from slo.alert import Severity
from slo.budgets.budget import BudgetUnit
from slo.budgets.pace import BudgetPace

NOW = 1_790_000_000.0


@dataclass(frozen=True, kw_only=True)
class Overview:
    """All that a board tells of; a part is None where it is not known just now."""

    objectives: Sequence[ObjectiveStatus] | None
    reroutes: Sequence[Reroute] | None
    rerouted_calls: Sequence[ReroutedCall] | None
    counters: Sequence[BudgetCounter] | None
    open_alerts: Sequence[OpenAlert] | None
    ceilings: Sequence[CeilingStatus] = ()
    timelines: Sequence[StateTimeline] | None = None
    missed_times: Sequence[MissedTime] | None = ()


CALL = f"call_{32 * 'a'}"


def an_objective(**fields: Any) -> ObjectiveStatus:
    values: dict[str, Any] = {
        "name": "chat-ttft",
        "team": "*",
        "feature": "chat",
        "what": "p95 of ttft within 500ms",
        "enforce": "degrade",
        "acts": True,
        "ladder": ("elsewhere", "small"),
        "verdict": "missed",
        "fact": "31 of 1,060 calls had no first token within 500 ms in the last 10 min; 5 % may",
        "state": "degraded",
        "level": 2,
        "since": NOW - 90,
        "why": "31 of 60 calls were slow",
        "burn": 6.25,
        "missed": 31,
        "counted": 1060,
    }
    return ObjectiveStatus(**(values | fields))


def a_pin(**fields: Any) -> Pin:
    values: dict[str, Any] = {"who": "ann", "why": "a test", "until": NOW + 3600}
    return Pin(**(values | fields))


def a_reroute(**fields: Any) -> Reroute:
    values: dict[str, Any] = {
        "objective": "chat-ttft",
        "source": "",
        "level": "small",
        "state": "degraded",
        "why": "31 of 60 calls were slow",
        "began": NOW - 600,
        "ended": NOW - 360,
    }
    return Reroute(**(values | fields))


def a_rerouted_call(**fields: Any) -> ReroutedCall:
    values: dict[str, Any] = {
        "call_id": CALL,
        "at": NOW - 30,
        "team": "acme",
        "feature": "chat",
        "model": "big",
        "route": "lab/small",
        "outcome": "answered",
        "error": "",
        "why": "chat-ttft: fallback level 2",
        "cost_nanos": 1_234_567,
    }
    return ReroutedCall(**(values | fields))


def a_counter(**fields: Any) -> BudgetCounter:
    values: dict[str, Any] = {
        "budget": "teams-month",
        "scope": "team",
        "whose": "acme",
        "window": "2026-09",
        "unit": BudgetUnit.USD,
        "limit": 500 * 10**9,
        "is_hard": True,
        "spent": 125 * 10**9,
        "held": 25 * 10**7,
        "pace": BudgetPace(
            end=610 * 10**9, is_over=False, over_at=NOW, over="24 Sep", basis="last 7 days"
        ),
    }
    return BudgetCounter(**(values | fields))


def a_ceiling(**fields: Any) -> CeilingStatus:
    values: dict[str, Any] = {
        "name": "cent",
        "team": "*",
        "feature": "chat",
        "limit_nanos": 10_000_000,
        "steps": (),
        "decisions": (("fits", 9), ("clamped", 0), ("cheaper", 0), ("refused", 0), ("exceeds", 4)),
    }
    return CeilingStatus(**(values | fields))


def an_open_alert(**fields: Any) -> OpenAlert:
    values: dict[str, Any] = {
        "severity": Severity.PAGE,
        "began": NOW - 60,
        "title": "chat-ttft burns its error budget",
        "facts": (("burn", "7.2 over 30 min"),),
        "done": "Its ladder moves calls.",
        "fix": "Pin it",
    }
    return OpenAlert(**(values | fields))


def overview(**fields: Any) -> Overview:
    """A page with a row of each kind."""
    values: dict[str, Any] = {
        "objectives": [an_objective()],
        "reroutes": [a_reroute()],
        "rerouted_calls": [a_rerouted_call()],
        "counters": [a_counter()],
        "open_alerts": [an_open_alert()],
    }
    return Overview(**(values | fields))


@dataclass
class FakeBoard:
    """Tells of one page."""

    page: Overview = field(default_factory=overview)

    async def objectives(self) -> Sequence[ObjectiveStatus] | None:
        return self.page.objectives

    async def ceilings(self) -> Sequence[CeilingStatus]:
        return self.page.ceilings

    async def reroutes(self) -> Sequence[Reroute] | None:
        return self.page.reroutes

    async def missed_times(self) -> Sequence[MissedTime] | None:
        return self.page.missed_times

    async def rerouted_calls(self) -> Sequence[ReroutedCall] | None:
        return self.page.rerouted_calls

    async def counters(self) -> Sequence[BudgetCounter] | None:
        return self.page.counters

    async def open_alerts(self) -> Sequence[OpenAlert] | None:
        return self.page.open_alerts
