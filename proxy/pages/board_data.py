"""Data for the pages: the port of ``dashboards.board``, answered by a running gateway.

Pages never hurt calls. Whatever asks the database does so with one question of a kind and two in
all at a time, whoever looks, and what does not answer within ``PART_TIMEOUT_S`` is unknown. A
question that goes on after that keeps its thread, and none of its kind is asked until it ends.

Of a budget that everybody has one of, the counters are asked for those alone of whom the ledger
knows most to be spent.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from dashboards.board import (
    BudgetCounter,
    CallDetail,
    ObjectiveStatus,
    OpenAlert,
    Pin,
    Reroute,
    ReroutedCall,
)
from proxy.records.receipt import Receipt, total_nanos
from proxy.services.budgets.accounts import LedgerAccounts
from proxy.services.budgets.counter_report import (
    CounterRow,
    counter_rows,
    ledger_rows,
    most_spent,
    unknown_rows,
)
from proxy.services.objectives.objective_state import TrackedObjective
from proxy.services.objectives.router import ObjectiveRouter
from proxy.store.redis.local_budget_store import BudgetStore, StoreUnavailable
from proxy.store.sql.pins import PinRow
from proxy.store.store import Store
from slo import burn, window
from slo.alert import format_amount
from slo.budget import Budget, BudgetUnit
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.objective import Metric, request_kind_text
from slo.openslo import objective_text
from slo.tally import GoodBadCounts
from slo.usage import Usage

T = TypeVar("T")

#: Seconds that a part of a page has; all of them are asked for at once.
PART_TIMEOUT_S: Final = 3.0
#: The share of them that the ledger has before the counters are asked without it.
_LEDGER_SHARE: Final = 2 / 3
#: Threads of the store that pages keep busy at most.
_MAX_THREADS: Final = 2
#: Rows of each part.
_MAX_OBJECTIVES: Final = 200
_MAX_REROUTES: Final = 30
_MAX_REROUTED_CALLS: Final = 50
_MAX_ALERTS: Final = 50
_MAX_BUDGETS: Final = 50
#: Counters of one budget, those of which most is spent.
_MAX_COUNTERS: Final = 10
#: Counters of one budget that are asked, those of which the ledger knows most to be spent.
_MAX_ASKED_COUNTERS: Final = 20
#: Seconds that a process's own counts go back.
_RECENT_WINDOW_S: Final = 600.0
#: Fields of a receipt that no page shows: the prompt, and what its title says already.
_HIDDEN_FIELDS: Final = frozenset({"prompt", "call_id", "attempt"})
#: Fields that are shown even with their default.
_ALWAYS_SHOWN_FIELDS: Final = frozenset({"final", "streamed"})


class _QuestionAbandoned(Exception):
    """Nobody waits any more for a question that had no thread yet."""


class _StoreQuestions:
    """Asks the store off the event loop: one question of a kind, few at once, and for so long.

    Args:
        store: The store.
        timeout_s: Seconds.
    """

    def __init__(self, store: Store, timeout_s: float) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._threads = asyncio.Semaphore(_MAX_THREADS)
        self._kinds: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __call__(self, kind: str, question: Callable[[], T], share: float = 1.0) -> T | None:
        """The question's result; None where it cannot be had just now.

        Args:
            kind: Of what; one of few.
            question: May block.
            share: Part of its patience that is left, from 0 to 1.
        """
        try:
            async with asyncio.timeout(self._timeout_s * share):
                return await self._run(question, await self._acquire_turn(kind))
        except (SQLAlchemyError, TimeoutError):
            return None

    async def _acquire_turn(self, kind: str) -> Callable[[], None]:
        """Waits for a place; returns what gives it back."""
        turn = self._kinds[kind]
        await turn.acquire()
        try:
            await self._threads.acquire()
        except asyncio.CancelledError:
            turn.release()
            raise

        def leave() -> None:
            self._threads.release()
            turn.release()

        return leave

    async def _run(self, question: Callable[[], T], leave: Callable[[], None]) -> T:
        """Runs the question on a thread; its place is kept until it ends, whoever still waits."""
        loop = asyncio.get_running_loop()
        begun = threading.Lock()  # taken once: by the thread, or by whoever gave up before it came

        def answer() -> T:
            if not begun.acquire(blocking=False):
                raise _QuestionAbandoned
            try:
                return question()
            finally:
                with suppress(RuntimeError):  # the loop has ended, and nobody asks any more
                    loop.call_soon_threadsafe(leave)

        try:
            return await self._store.ask(answer)
        finally:
            if begun.acquire(blocking=False):
                leave()


class LiveBoard:
    """The board's data from one running gateway.

    Args:
        store: The store.
        budgets: All budgets of the policies file.
        router: Knows the state of objectives; None where there are none.
        counters: Store of the budgets' counters; None where they cannot be asked.
        now: Seconds since the epoch.
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
        self._now = now
        self._timeout_s = timeout_s
        self._ask = _StoreQuestions(store, timeout_s)
        self._accounts = LedgerAccounts(store.spendings)

    def update(self, budgets: Iterable[Budget]) -> None:
        """Show these budgets from now on."""
        self._budgets = tuple(budgets)[:_MAX_BUDGETS]

    async def objectives(self) -> Sequence[ObjectiveStatus] | None:
        """See ``AdminBoard.objectives``."""
        router, now = self._router, self._now()
        if router is None:
            return []
        pins = await self._ask("pins", lambda: self._store.pins.current_pins(now))
        tracks = list(router.tracks.values())[:_MAX_OBJECTIVES]
        return [_objective_status(each, router, pins, now) for each in tracks]

    async def reroutes(self) -> Sequence[Reroute] | None:
        """See ``AdminBoard.reroutes``."""
        return await self._ask("reroutes", lambda: self._store.fallbacks.reroutes(_MAX_REROUTES))

    async def rerouted_calls(self) -> Sequence[ReroutedCall] | None:
        """See ``AdminBoard.rerouted_calls``."""
        return await self._ask("calls", lambda: self._store.fallbacks.calls(_MAX_REROUTED_CALLS))

    async def open_alerts(self) -> Sequence[OpenAlert] | None:
        """See ``AdminBoard.open_alerts``."""
        found = await self._ask("alerts", lambda: self._store.outbox.open_alerts(_MAX_ALERTS))
        if found is None:
            return None
        return [
            OpenAlert(
                severity=alert.severity,
                began=alert.began,
                title=alert.title,
                facts=alert.facts,
                done=alert.action,
                fix=alert.fix,
            )
            for alert in found
        ]

    async def counters(self) -> Sequence[BudgetCounter] | None:
        """See ``AdminBoard.counters``; counters that are away leave the ledger's word.

        Where the ledger is away they are asked for budgets that name whose they are.
        """
        now, budgets = self._now(), self._budgets
        if not budgets:
            return []
        ledgers = await self._ask("budgets", lambda: self._ledger_rows(budgets, now), _LEDGER_SHARE)
        rows = await self._counter_rows(
            budgets, ledgers or [unknown_rows(each) for each in budgets], now
        )
        if ledgers is None and not any(row.spent is not None for some in rows for row in some):
            return None
        return [
            _budget_counter(budget, row, now)
            for budget, some in zip(budgets, rows, strict=True)
            for row in most_spent(some, _MAX_COUNTERS)
        ]

    async def call(self, call_id: str) -> CallDetail | None:
        """See ``AdminBoard.call``."""
        found = await self._ask("call", lambda: self._receipts(call_id))
        if found is None:
            raise TimeoutError
        receipts, team = found
        if not receipts:
            return None
        return CallDetail(
            call_id=call_id,
            team=team,
            cost_nanos=total_nanos(each.spent_nanos for each in receipts),
            attempts=[_receipt_facts(each) for each in receipts],
        )

    def _ledger_rows(self, budgets: Sequence[Budget], now: float) -> list[list[CounterRow]]:
        """The ledger's rows of each budget, those most spent first; blocks."""
        return [ledger_rows(self._accounts, each, now, _MAX_ASKED_COUNTERS) for each in budgets]

    async def _counter_rows(
        self, budgets: Sequence[Budget], found: list[list[CounterRow]], now: float
    ) -> list[list[CounterRow]]:
        """The rows as the counters have them; as they are where these cannot be asked."""
        store, rows = self._counters, []
        if store is None:
            return found
        try:
            async with asyncio.timeout(self._timeout_s * (1 - _LEDGER_SHARE)):
                for budget, some in zip(budgets, found, strict=True):
                    rows.append(await counter_rows(store, budget, some, now))
                    await asyncio.sleep(0)  # counters of this process answer without a pause
        except (StoreUnavailable, TimeoutError):
            return found
        return rows

    def _receipts(self, call_id: str) -> tuple[list[Receipt], str]:
        """A call's receipts, and its team's name; blocks."""
        found = self._store.ledger.attempts(call_id)
        team = found[0].team if found else ""
        names = {each.id: each.name for each in self._store.teams.all()}
        return found, names.get(team, team)


def _objective_status(
    track: TrackedObjective, router: ObjectiveRouter, pins: Mapping[str, PinRow] | None, now: float
) -> ObjectiveStatus:
    objective = track.objective
    standing, pin = router.standings.get(track.name), (pins or {}).get(track.name)
    counts = _recent_counts(track, router, now)
    return ObjectiveStatus(
        name=track.name,
        team=objective.team,
        feature=objective.feature,
        what=objective_text(objective),
        only=request_kind_text(objective.calls),
        enforce=objective.enforce.value,
        acts=track.acts,
        ladder=objective.ladder,
        state=(ControllerState.HEALTHY if standing is None else standing.state).value,
        level=0 if standing is None else standing.level,
        since=None if standing is None else standing.since,
        why="" if standing is None else _status_reason(standing),
        burn=_burn_rate(track, counts),
        missed=counts.bad,
        counted=counts.n,
        pin=None if pin is None else Pin(who=pin.who, why=pin.why, until=pin.until),
        knows_pin=pins is not None,
    )


def _status_reason(standing: ControllerSnapshot) -> str:
    """The reason for a state; that of a pin is shown beside who set it."""
    return "" if standing.state is ControllerState.PINNED else standing.reason


def _recent_counts(track: TrackedObjective, router: ObjectiveRouter, now: float) -> GoodBadCounts:
    """Recent good and bad calls of this process, at all fallback levels."""
    arms = [track.arm(level) for level in range(track.rules.fallback_levels + 1)]
    found = [router.tally.counts(arm, now, _RECENT_WINDOW_S) for arm in arms]
    return GoodBadCounts(sum(each.good for each in found), sum(each.bad for each in found))


def _burn_rate(track: TrackedObjective, counts: GoodBadCounts) -> float | None:
    """The burn rate of its error budget; None where it has none, or nothing was counted."""
    if track.objective.metric is Metric.CACHE or not counts.n:
        return None
    return burn.burn_rate(counts, track.objective)


def _budget_counter(budget: Budget, row: CounterRow, now: float) -> BudgetCounter:
    return BudgetCounter(
        budget=budget.name,
        scope=budget.scope,
        whose=row.whose,
        window=window.window_name(budget.window, now),
        unit=budget.unit,
        limit=budget.limit,
        is_hard=budget.hard,
        spent=row.spent,
        held=row.held,
    )


def _receipt_facts(receipt: Receipt) -> list[tuple[str, str]]:
    """All that a receipt says, as names and values; money in dollars."""
    found: list[tuple[str, str]] = []
    for field in msgspec.structs.fields(receipt):
        value = getattr(receipt, field.name)
        if field.name in _HIDDEN_FIELDS or (
            value == field.default and field.name not in _ALWAYS_SHOWN_FIELDS
        ):
            continue
        if isinstance(value, Usage):
            used = msgspec.structs.asdict(value).items()
            found += [(f"usage.{bucket}", f"{n:,}") for bucket, n in used if n]
        elif field.name.endswith("_nanos"):
            found.append(
                (f"{field.name.removesuffix('nanos')}usd", format_amount(BudgetUnit.USD, value))
            )
        else:
            found.append((field.name, _readable_value(field.name, value)))
    if receipt.spent_nanos is None:
        found.append(("cost_usd", "no known price"))
    return found


def _readable_value(name: str, value: object) -> str:
    """A value as people read it."""
    if name == "started" and isinstance(value, float):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6f} s"
    return "; ".join(value) if isinstance(value, tuple) else str(value)
