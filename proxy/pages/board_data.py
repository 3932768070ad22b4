"""Data for the pages: implements the port ``dashboards.board`` in a running gateway.

Pages must not slow calls down. Their questions to the database share one of a kind and two in all
at a time, for all viewers together. One that takes longer than ``PART_TIMEOUT_S`` is shown as
unknown; it keeps its thread, and none of its kind is asked until it ends.

Of a budget with a counter for each team, key or user, only those with most spending in the ledger
are shown.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, Final

import msgspec

from dashboards.board import (
    BudgetCounter,
    BurnStatus,
    CeilingStatus,
    MissedTime,
    ObjectiveStatus,
    OpenAlert,
    Pin,
    Reroute,
    ReroutedCall,
)
from proxy.pages.store_questions import PART_TIMEOUT_S, StoreQuestions
from proxy.pages.viewing import view_of
from proxy.records.receipt import Receipt
from proxy.services.budgets.accounts import LedgerAccounts
from proxy.services.budgets.ceilings import CeilingCounts
from proxy.services.budgets.counter_report import (
    CounterRow,
    counter_rows,
    ledger_rows,
    most_spent,
    unknown_rows,
)
from proxy.services.objectives.objective_state import BurnWindow, TrackedObjective, shown_state
from proxy.services.objectives.router import ObjectiveRouter
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore
from proxy.store.sql.alert_records import AlertResponse, acknowledged_by, current_snooze
from proxy.store.sql.settings.pins import PinRow
from proxy.store.store import Store
from slo import window
from slo.alert import Alert, format_amount, format_rough_duration, problem_key, urgency_key
from slo.budgets.budget import Budget, BudgetUnit
from slo.budgets.pace import budget_pace
from slo.budgets.tally import GoodBadCounts
from slo.controller.state import ControllerState
from slo.objectives import burn
from slo.objectives.objective import Metric, Objective, request_kind_text
from slo.objectives.openslo import objective_text
from slo.objectives.verdict import allowance_text, fact_text, objective_verdict
from slo.usage import Usage

#: The share of them that the ledger has before the counters are asked without it.
_LEDGER_SHARE: Final = 2 / 3
#: Rows of each part.
_MAX_OBJECTIVES: Final = 200
_MAX_REROUTES: Final = 300
_MAX_REROUTED_CALLS: Final = 50
_MAX_ALERTS: Final = 1_000
_MAX_BUDGETS: Final = 50
#: Counters of one budget, those of which most is spent.
_MAX_COUNTERS: Final = 10
#: Counters of one budget that are asked, those of which the ledger knows most to be spent.
_MAX_ASKED_COUNTERS: Final = 20
#: Seconds that a process's own counts go back.
_RECENT_WINDOW_S: Final = 600.0
_MINUTE_S: Final = 60.0
#: Fields of a receipt that no page shows: the prompt, and what its title says already.
_HIDDEN_FIELDS: Final = frozenset({"prompt", "call_id", "attempt"})
#: Fields that are shown even with their default.
_ALWAYS_SHOWN_FIELDS: Final = frozenset({"final", "streamed"})


class LiveBoard:
    """The board's data from one running gateway.

    Args:
        router: Knows the state of objectives; None where there are none.
        counters: Store of the budgets' counters; None where they cannot be asked.
        timeout_s: Seconds that a part of a page has.
    """

    def __init__(
        self,
        store: Store,
        budgets: Iterable[Budget],
        *,
        router: ObjectiveRouter | None,
        counters: BudgetStore | None,
        now: Callable[[], float],
        timeout_s: float = PART_TIMEOUT_S,
    ) -> None:
        self._store = store
        self.update(budgets)
        self._router = router
        self._counters = counters
        self._ceilings: Callable[[], Sequence[CeilingCounts]] = tuple
        self._now = now
        self._timeout_s = timeout_s
        self._ask = StoreQuestions(store, timeout_s)
        self._accounts = LedgerAccounts(store.spendings)

    def update(self, budgets: Iterable[Budget]) -> None:
        """Show these budgets from now on."""
        self._budgets = tuple(budgets)[:_MAX_BUDGETS]

    def show_ceilings(self, counts: Callable[[], Sequence[CeilingCounts]]) -> None:
        """Show ceilings, as this function returns them with how often each was decided."""
        self._ceilings = counts

    async def objectives(self) -> Sequence[ObjectiveStatus] | None:
        """See ``AdminBoard.objectives``."""
        router, now = self._router, self._now()
        if router is None:
            return []
        pins = await self._ask("pins", lambda: self._store.pins.current_pins(now))
        tracks = list(router.tracks.values())[:_MAX_OBJECTIVES]
        return [_objective_status(track, router, pins, now) for track in tracks]

    async def ceilings(self) -> Sequence[CeilingStatus]:
        """See ``AdminBoard.ceilings``."""
        return [
            view_of(
                CeilingStatus,
                ceiling,
                limit_nanos=ceiling.limit,
                steps=[step.value for step in ceiling.on_exceed],
                decisions=decisions,
            )
            for ceiling, decisions in self._ceilings()[:_MAX_OBJECTIVES]
        ]

    async def reroutes(self) -> Sequence[Reroute] | None:
        """See ``AdminBoard.reroutes``."""
        return await self._ask("reroutes", lambda: self._store.fallbacks.reroutes(_MAX_REROUTES))

    async def missed_times(self) -> Sequence[MissedTime] | None:
        """See ``AdminBoard.missed_times``."""
        return await self._ask("misses", lambda: self._store.fallbacks.missed_times(_MAX_REROUTES))

    async def rerouted_calls(self) -> Sequence[ReroutedCall] | None:
        """See ``AdminBoard.rerouted_calls``."""
        return await self._ask("calls", lambda: self._store.fallbacks.calls(_MAX_REROUTED_CALLS))

    async def open_alerts(self) -> Sequence[OpenAlert] | None:
        """See ``AdminBoard.open_alerts``."""
        store = self._store
        read = await self._ask(
            "alerts",
            lambda: (store.outbox.open_alerts(_MAX_ALERTS), store.alert_records.open_responses()),
        )
        return None if read is None else _open_problems(*read, self._now())

    async def counters(self) -> Sequence[BudgetCounter] | None:
        """See ``AdminBoard.counters``; counters that are away leave the ledger's word.

        Where the ledger is away they are asked for budgets that name whose they are.
        """
        now, budgets = self._now(), self._budgets
        if not budgets:
            return []
        ledgers, days = await self._ask(
            "budgets",
            lambda: (self._ledger_rows(budgets, now), self._ledger_days(budgets, now)),
            _LEDGER_SHARE,
        ) or (None, None)
        rows = await self._counter_rows(
            budgets, ledgers or [unknown_rows(budget) for budget in budgets], now
        )
        if ledgers is None and not any(row.spent is not None for some in rows for row in some):
            return None
        return [
            _budget_counter(budget, row, days_by_name.get(row.whose, ()), now)
            for budget, counted, days_by_name in zip(
                budgets, rows, days or repeat({}), strict=False
            )
            for row in most_spent(counted, _MAX_COUNTERS)
        ]

    def _ledger_rows(self, budgets: Sequence[Budget], now: float) -> list[list[CounterRow]]:
        """The ledger's rows of each budget, those most spent first; blocks."""
        return [ledger_rows(self._accounts, budget, now, _MAX_ASKED_COUNTERS) for budget in budgets]

    def _ledger_days(
        self, budgets: Sequence[Budget], now: float
    ) -> list[Mapping[str, Sequence[int]]]:
        """Amounts of the last whole days of each budget by whose they are; blocks."""
        return [self._accounts.last_days(budget, now) for budget in budgets]

    async def _counter_rows(
        self, budgets: Sequence[Budget], ledgers: list[list[CounterRow]], now: float
    ) -> list[list[CounterRow]]:
        """The rows as the counters have them; as they are where these cannot be asked."""
        store, rows = self._counters, []
        if store is None:
            return ledgers
        try:
            async with asyncio.timeout(self._timeout_s * (1 - _LEDGER_SHARE)):
                for budget, ledger in zip(budgets, ledgers, strict=True):
                    rows.append(await counter_rows(store, budget, ledger, now))
                    await asyncio.sleep(0)  # counters of this process answer without a pause
        except (StoreError, TimeoutError):
            return ledgers
        return rows


def _open_problems(
    alerts: Iterable[Alert], responses: Iterable[AlertResponse], now: float
) -> list[OpenAlert]:
    """One alert for each problem, the most urgent and newest of its stages."""
    problems, responded = defaultdict[object, list[Alert]](list), defaultdict[str, list[Any]](list)
    for alert in alerts:
        problems[problem_key(alert)].append(alert)
    for response in responses:
        responded[response.alert].append(response)
    shown = []
    for stages in problems.values():
        highest = min(stages, key=lambda stage: urgency_key(stage.severity, stage.began))
        own = responded[highest.id]
        snooze = current_snooze(own, now)
        shown.append(
            view_of(
                OpenAlert,
                highest,
                done=highest.action,
                acknowledged_by=acknowledged_by(own),
                snoozed_until=None if snooze is None else snooze.until,
                snoozed_by="" if snooze is None else snooze.who,
                stages=len(stages),
            )
        )
    return shown


def _objective_status(
    track: TrackedObjective, router: ObjectiveRouter, pins: Mapping[str, PinRow] | None, now: float
) -> ObjectiveStatus:
    objective = track.objective
    snapshot, miss = router.snapshots.get(track.name), router.missed.get(track.name)
    shown = shown_state(snapshot, miss)
    windows = router.burns.get(track.name, ())
    pin = (pins or {}).get(track.name)
    counts = _recent_counts(track, router, now)
    is_pinned = shown.name == ControllerState.PINNED
    fact, fact_seconds = _objective_fact(objective, windows, counts)
    return ObjectiveStatus(
        name=track.name,
        team=objective.team,
        feature=objective.feature,
        what=objective_text(objective),
        only=request_kind_text(objective.calls),
        enforce=objective.enforce.value,
        acts=track.acts,
        ladder=objective.ladder,
        verdict=objective_verdict(
            objective,
            [counts, *(GoodBadCounts(one.counted - one.missed, one.missed) for one in windows)],
            is_missed=miss is not None and miss.is_proven,
            is_doubtful=miss is not None,
            has_fallen_back=track.acts and shown.level > 0 and not is_pinned,
        ),
        fact=fact,
        fact_seconds=fact_seconds,
        state=shown.name,
        level=shown.level,
        since=shown.since,
        # The reason of a pin is shown beside who set it.
        why="" if is_pinned else shown.reason,
        burn=_burn_rate(track, counts),
        burns=[view_of(BurnStatus, burn) for burn in windows],
        missed=counts.bad,
        counted=counts.n,
        pin=None if pin is None else Pin(who=pin.who, why=pin.why, until=pin.until),
        knows_pin=pins is not None,
        floor=objective.target if objective.metric is Metric.CACHE else None,
        fell_back=_fell_back(track, router),
    )


def _objective_fact(
    objective: Objective, windows: Iterable[BurnWindow], recent: GoodBadCounts
) -> tuple[str, float]:
    """The counts of the shortest window with calls and what is allowed, and the window's seconds.

    Without such a window they are those of late.
    """
    counts, seconds = recent, _RECENT_WINDOW_S
    for one in windows:
        if one.counted:
            counts, seconds = GoodBadCounts(one.counted - one.missed, one.missed), one.known
            break
    seconds = (
        max(seconds, 1.0) if seconds < 2 * _MINUTE_S else round(seconds / _MINUTE_S) * _MINUTE_S
    )
    fact = fact_text(objective, counts, format_rough_duration(seconds))
    return f"{fact}; {allowance_text(objective)}", seconds


def _fell_back(track: TrackedObjective, router: ObjectiveRouter) -> list[tuple[str, int]]:
    """The calls of this process that fell back or would have, by level, in the ladder's order."""
    counts = router.rerouted if track.acts else router.not_enforced
    entries = dict.fromkeys(track.objective.ladder)
    counted = [(entry, counts.get((track.name, entry), 0)) for entry in entries]
    return [(entry, count) for entry, count in counted if count]


def _recent_counts(track: TrackedObjective, router: ObjectiveRouter, now: float) -> GoodBadCounts:
    """Recent good and bad calls of this process, at all fallback levels."""
    arms = track.arms
    counts = [router.tally.counts(arm, now, _RECENT_WINDOW_S) for arm in arms]
    return GoodBadCounts(sum(count.good for count in counts), sum(count.bad for count in counts))


def _burn_rate(track: TrackedObjective, counts: GoodBadCounts) -> float | None:
    """The burn rate of its error budget; None where it has none, or nothing was counted."""
    if track.objective.metric is Metric.CACHE or not counts.n:
        return None
    return burn.burn_rate(counts, track.objective)


def _budget_counter(
    budget: Budget, row: CounterRow, days: Sequence[int], now: float
) -> BudgetCounter:
    return view_of(
        BudgetCounter,
        row,
        budget,
        budget=budget.name,
        window=window.window_name(budget.window, now),
        is_hard=budget.hard,
        since=window.window_start(budget.window, now),
        refusals=None,
        pace=budget_pace(budget.window, budget.limit, row.spent, days, now),
    )


def receipt_facts(receipt: Receipt) -> list[tuple[str, str]]:
    """All that a receipt says, as names and values; money in dollars."""
    facts: list[tuple[str, str]] = []
    for field in msgspec.structs.fields(receipt):
        value = getattr(receipt, field.name)
        if field.name in _HIDDEN_FIELDS or (
            value == field.default and field.name not in _ALWAYS_SHOWN_FIELDS
        ):
            continue
        if isinstance(value, Usage):
            used = msgspec.structs.asdict(value).items()
            facts += [(f"usage.{bucket}", f"{n:,}") for bucket, n in used if n]
        elif field.name.endswith("_nanos"):
            facts.append(
                (f"{field.name.removesuffix('nanos')}usd", format_amount(BudgetUnit.USD, value))
            )
        else:
            facts.append((field.name, _readable_value(field.name, value)))
    if receipt.spent_nanos is None:
        facts.append(("cost_usd", "no known price"))
    return facts


def _readable_value(name: str, value: object) -> str:
    """A value as people read it."""
    if name == "started" and isinstance(value, float):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6f} s"
    if name == "tags" and isinstance(value, tuple):
        value = tuple(map(": ".join, value))
    return "; ".join(value) if isinstance(value, tuple) else str(value)
