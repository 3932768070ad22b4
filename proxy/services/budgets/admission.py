"""Admission: reserves what a call may use before it is sent, and settles what it used after.

::

    admit ─┬─ CallerError, Unready                    nothing is held
           └─ held ── beat, every ten seconds ── settled, by the attempt's receipt

One reservation covers every budget of a call, first of what the process has reserved ahead
(``leased_counters``). A process that dies settles nothing: what it held in Redis counts as spent
from its end on, for its calls were sent.

Counters that stall are waited for where a budget is closed; emptied ones refuse there.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from proxy.calls.eligibility.retry_policy import BILLED_ENDPOINTS
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import BackgroundTaskGroup
from proxy.catalog.entries import Route
from proxy.errors import ProxyError
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.providers.port import PreparedRequest
from proxy.records.receipt import Receipt
from proxy.services.budgets.background_settlement import BackgroundSettlement
from proxy.services.budgets.budget_matching import BudgetMatch, BudgetMatcher
from proxy.services.budgets.cost_bounds import clamps
from proxy.services.budgets.cost_bounds.prediction import Predictor
from proxy.services.budgets.cost_bounds.pricing import Alternative, dearest_prompt
from proxy.services.budgets.cost_bounds.prompt_bounds import prompt_bound
from proxy.services.budgets.cost_bounds.reservation_requests import (
    UNKNOWN,
    CountedBudget,
    claim,
    first_uncountable,
    first_worst_case_budget,
    holds_on_loss,
    is_closed,
    is_worth_asking,
    needs,
    used_amount,
    with_recall_rounds,
    with_upper_bounds,
)
from proxy.services.budgets.counter_loss import STALL_WAIT_S, TTL_S, CounterStalls, LocalQuota
from proxy.services.budgets.counter_views import CounterViews
from proxy.services.budgets.refusals import (
    budget_refusal,
    counters_unavailable,
    rate_limit_headers,
    unbounded_refusal,
    uncountable_refusal,
)
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore
from proxy.store.sql.ledger.spendings import ended_at
from slo.budgets.budget import Budget, BudgetUnit
from slo.budgets.counter import CounterClaim, CounterLevel, ReservationRefused
from slo.budgets.reservation_sizing import CounterView, UsageBounds
from slo.budgets.reservations import ReservationGranted

_log = logging.getLogger("thriftgate.budgets")

#: Seconds between two signs of a call: fewer than emptied counters take to be whole again.
_EXTEND_INTERVAL_S: Final = 10.0
#: Seconds for which counters that were lost are not asked again.
_OUTAGE_PAUSE_S: Final = 1.0
_REQUESTS: Final = frozenset({BudgetUnit.REQUESTS})
#: Most tries of a reservation, each with what the refusal before it said.
_MAX_ROUNDS: Final = 4


class _Open(msgspec.Struct):
    """An attempt for which something is held.

    Attributes:
        name: Of its reservation.
        bounds: Usage it may need, by unit.
        tokens: Of its prompt, the most where a budget holds that; 0 where not predicted.
        sent: True if it went to an upstream.
        is_uncertain: True if counters that did not answer may hold it, or may yet.
    """

    name: str
    attempt: AttemptInfo
    route: Route
    counted: Sequence[CountedBudget]
    bounds: Mapping[BudgetUnit, UsageBounds]
    tokens: int
    sent: bool = False
    is_uncertain: bool = False


class Admission:
    """Holds and settles for the calls of one process."""

    def __init__(
        self,
        budgets: Collection[Budget],
        store: BudgetStore,
        *,
        predictor: Predictor,
        seal: Pseudonymizer,
        tasks: BackgroundTaskGroup,
        now: Callable[[], float],
    ) -> None:
        self._seal = seal
        self.update(budgets)
        self.counters = store
        self._predictor = predictor
        self._settlement = BackgroundSettlement(lambda: self.counters, tasks, now)
        self._stalls = CounterStalls(lambda: self.counters.condition(now()), tasks)
        self._now = now
        self.views = CounterViews()
        self._open: dict[tuple[str, int], _Open] = {}
        self._lost_until = float("-inf")
        self._local: LocalQuota | None = None

    def update(self, budgets: Collection[Budget]) -> None:
        """Admit by these budgets from now on; what is held is settled as it was held."""
        self._matcher = BudgetMatcher(budgets, self._seal)

    async def admit(self, attempt: AttemptInfo, prepared: PreparedRequest) -> Mapping[str, str]:
        """Reserve what the attempt may use; returns headers with what is left.

        Raises:
            CallerError: It does not fit into a budget, or its use of one cannot be known.
            Unready: The counters are away or empty, and a budget is not to be passed unseen.
        """
        call, route = attempt.call, attempt.route
        match = self._matcher.match(call)
        if not match.counted or route is None:
            return {}
        if attempt.number:
            await self._settlement.wait_until_settled(
                f"{call.id}/{attempt.number - 1}", _OUTAGE_PAUSE_S
            )
        levels = await self._hold(await self._open_attempt(attempt, route, prepared, match))
        return rate_limit_headers(match.counted, levels, self._now()) if match.has_rate else {}

    async def admit_free(self, attempt: AttemptInfo) -> Mapping[str, str]:
        """Reserve the one request of a call that costs nothing; as ``admit`` otherwise."""
        match = self._matcher.match(attempt.call)
        counted = [entry for entry in match.counted if entry.budget.unit is BudgetUnit.REQUESTS]
        if not counted or attempt.route is None:
            return {}
        amounts = dict.fromkeys(_REQUESTS, UNKNOWN)
        name = f"{attempt.call.id}/{attempt.number}"
        levels = await self._hold(_Open(name, attempt, attempt.route, counted, amounts, 0))
        return rate_limit_headers(counted, levels, self._now())

    async def _hold(self, opened: _Open) -> Sequence[CounterLevel]:
        """Reserve what an attempt may use; returns the levels of its counters.

        Raises:
            CallerError: It does not fit.
            Unready: As ``admit``.
        """
        key = (opened.attempt.call.id, opened.attempt.number)
        self._open[key] = opened
        try:
            levels = await self._reserve(opened)
        except ProxyError:  # cancelled, it may be held all the same: its receipt settles it
            del self._open[key]
            if opened.is_uncertain:
                self._settlement.release(
                    opened.name, [counted.counter for counted in opened.counted]
                )
            raise
        opened.sent = True
        return levels

    def settle(self, receipt: Receipt) -> None:
        """Settle an attempt with its receipt, in the background."""
        self._predictor.learn(receipt)
        opened = self._open.pop((receipt.call_id, receipt.attempt), None)
        if opened is None:
            return
        amounts = dict.fromkeys((counted.counter for counted in opened.counted), 0)
        for counted in opened.counted if opened.sent else ():
            budget = counted.budget
            amounts[counted.counter] = used_amount(budget, receipt, opened.bounds[budget.unit])
        if self._local is not None:
            self._local.settle(opened.name, amounts, self._now())
        self._settlement.settle(opened.name, amounts, ended_at(receipt))

    async def extend_reservations(self) -> None:
        """Let what is held for calls under way end later, without end."""
        while True:
            await asyncio.sleep(_EXTEND_INTERVAL_S)
            try:
                for key, opened in list(self._open.items()):
                    await self._extend(key, opened)
            except StoreError as error:
                _log.warning("Reservations were not extended: %s", error)

    async def wait_until_settled(self) -> None:
        """Wait until all that has ended is settled, or is given up."""
        await self._settlement.drain()

    async def _extend(self, key: tuple[str, int], opened: _Open) -> None:
        """Let what is held for an attempt end later; hold it again where the counters lost it."""
        now = self._now()
        names = [counted.counter for counted in opened.counted]
        if await self.counters.extend(opened.name, names, now, now + TTL_S) or not opened.sent:
            return
        if self._open.get(key) is not opened:  # it has ended meanwhile, perhaps within a lease
            return
        claims = (self._claim(counted, opened, now) for counted in opened.counted)
        soft_claims = [msgspec.structs.replace(request, hard=False) for request in claims]
        await self.counters.reserve(opened.name, soft_claims, now, now + TTL_S)

    async def _open_attempt(
        self, attempt: AttemptInfo, route: Route, prepared: PreparedRequest, match: BudgetMatch
    ) -> _Open:
        call, units = attempt.call, match.units
        amounts, tokens = dict.fromkeys(units, UNKNOWN), 0
        if call.endpoint in BILLED_ENDPOINTS and units != _REQUESTS:
            prediction = await self._predictor.predict(attempt, prepared, route)
            prompt, tokens = (
                dearest_prompt(prediction.tokens, route, prepared.body),
                prediction.tokens,
            )
            output = prediction.output
            amounts = needs(units, call, prompt, output, prediction.quote)
            if (worst := first_worst_case_budget(match.counted, amounts)) is not None:
                bound = await prompt_bound(prepared.body, call.body, call.endpoint, route)
                if bound is None:
                    raise unbounded_refusal(worst, route)
                tokens = bound
                prompt = dearest_prompt(tokens, route, prepared.body)
                amounts = with_upper_bounds(amounts, call, prompt, output.worst, prediction.quote)
            if attempt.recall is not None:
                amounts = with_recall_rounds(amounts, call, prompt, output, prediction.quote)
        if (uncountable := first_uncountable(match.counted, amounts, call, route)) is not None:
            raise uncountable_refusal(uncountable, route, later=call.is_background)
        name = f"{call.id}/{attempt.number}"
        return _Open(name, attempt, route, match.counted, amounts, tokens)

    def _cheapest(
        self, opened: _Open, counted: CountedBudget, counter: CounterView
    ) -> Alternative | None:
        """The cheapest model with which the attempt would fit into what is left of dollars."""
        if counted.budget.unit is not BudgetUnit.USD or not opened.tokens:
            return None

        def cost_of(need: UsageBounds) -> int | None:
            request = claim(counted, need, counter)
            return (
                request.amount
                if counter.spent + counter.held + request.amount <= request.limit
                else None
            )

        return self._predictor.cheapest_alternative(opened.attempt, opened.tokens, cost_of)

    async def _reserve(self, opened: _Open) -> Sequence[CounterLevel]:
        """Reserves what the attempt may use; returns the levels of its counters.

        Raises:
            CallerError: It does not fit.
            Unready: As ``admit``.
        """
        now = self._now()
        if (levels := self._reserve_locally(opened, now)) is not None:
            return levels
        clock = asyncio.get_running_loop().time
        may_wait, deadline = is_closed(opened.counted), clock() + STALL_WAIT_S
        is_asked = now >= self._lost_until and not (may_wait and self._stalls.is_stalled)
        while is_asked or (may_wait and await self._stalls.wait(deadline)):
            is_asked = False
            try:
                levels = await self._reserve_with_retry(opened)
            except StoreError as error:
                self._lost_until = self._now() + _OUTAGE_PAUSE_S
                self._stalls.note_loss()
                _log.warning("Budgets are not counted just now: %s", error)
            else:
                if levels is None:
                    break
                self._local, self._lost_until = None, float("-inf")
                self._stalls.note_answer()
                return levels
        return self._admit_uncounted(opened)

    def _reserve_locally(self, opened: _Open, now: float) -> Sequence[CounterLevel] | None:
        """Reserves from this process's leases; None where they do not cover it."""
        claims = [self._claim(counted, opened, now) for counted in opened.counted]
        reservation = self.counters.reserve_leased(opened.name, claims, now)
        return (
            None if reservation is None else self._granted_levels(opened, claims, reservation, now)
        )

    async def _reserve_with_retry(self, opened: _Open) -> Sequence[CounterLevel] | None:
        """Reserves in the store, once more after one missed deadline; it is held once."""
        try:
            return await self._reserve_in_store(opened)
        except StoreError:
            opened.is_uncertain = True
            return await self._reserve_in_store(opened)

    async def _reserve_in_store(self, opened: _Open) -> Sequence[CounterLevel] | None:
        """Reserves in the store; None where its counters have to be restored before."""
        only_whole = any(holds_on_loss(counted.budget) for counted in opened.counted)
        for rest in reversed(range(_MAX_ROUNDS)):
            now = self._now()
            claims = [self._claim(counted, opened, now) for counted in opened.counted]
            answer = await self.counters.reserve(
                opened.name, claims, now, now + TTL_S, only_whole=only_whole
            )
            if not isinstance(answer, ReservationRefused):
                return None if answer is None else self._granted_levels(opened, claims, answer, now)
            counted = opened.counted[answer.claim]
            self.views.remember(counted, answer.level, answer.running, now)
            again = self._claim(counted, opened, now)
            if not rest or not is_worth_asking(again, answer):
                view = self.views.estimate(counted.counter, now)
                cheapest = self._cheapest(opened, counted, view)
                sure = opened.bounds[counted.budget.unit].sure
                field = ""
                if sure < counted.budget.limit:
                    field = clamps.output_limit_field(opened.attempt.call, opened.route)
                raise budget_refusal(counted, answer, again.amount, now, cheapest, field)
        raise AssertionError  # the last round returns or raises

    def _claim(self, counted: CountedBudget, opened: _Open, now: float) -> CounterClaim:
        view = self.views.estimate(counted.counter, now)
        return claim(counted, opened.bounds[counted.budget.unit], view)

    def _granted_levels(
        self,
        opened: _Open,
        claims: Sequence[CounterClaim],
        reservation: ReservationGranted,
        now: float,
    ) -> Sequence[CounterLevel]:
        for counted, level, running in zip(
            opened.counted, reservation.levels, reservation.running, strict=True
        ):
            self.views.remember(counted, level, running, now)
        return reservation.levels

    def _admit_uncounted(self, opened: _Open) -> Sequence[CounterLevel]:
        """Admit a call while the counters are away or empty, if each of its budgets lets it pass.

        Raises:
            Unready: One of them does not.
        """
        bounded = [counted for counted in opened.counted if holds_on_loss(counted.budget)]
        if is_closed(bounded):
            raise counters_unavailable()
        if bounded:
            self._local = self._local or LocalQuota()
            bounds = opened.bounds
            claims = []
            for counted in bounded:
                level = self.views.last_level(counted.counter)
                claims.append(self._local.claim(counted, bounds[counted.budget.unit], level))
            if not self._local.reserve(opened.name, claims, self._now()):
                raise counters_unavailable()
        return ()
