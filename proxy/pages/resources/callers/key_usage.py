"""/v1/thriftgate/usage: spend, limits, errors and newest calls of the key that asks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import APIRouter, Depends

from dashboards.cost_reports import known_sum
from dashboards.report_periods import time_buckets
from dashboards.reports import ReportPeriod, SpendFilter, latest_days
from dashboards.views.calls import CallsView
from dashboards.views.costs import CostsView, share
from dashboards.views.key_usage import KeyLimitView, KeySpend, KeyUsageView, key_latency
from dashboards.views.latency import HealthView
from proxy.errors import Unready
from proxy.pages.access.own_usage import KeyCookies, OwnUsagePages
from proxy.pages.access.sign_in_limits import address_limit
from proxy.pages.receipts import Authenticate
from proxy.pages.store_questions import StoreQuestions, view_itself
from proxy.pages.viewing import Clock, ReadViewer
from proxy.records.call import Key
from proxy.records.lru_cache import LruCache
from proxy.store.sql.views.calls import CallSearch, calls_view
from proxy.store.sql.views.costs import CostsQuestion, costs_view
from proxy.store.sql.views.latency import HealthQuestion, health_view
from proxy.store.store import Store

_DAYS: Final = 30
_WEEK_DAYS: Final = 7
_SHOWN_CALLS: Final = 20
#: Calls that latencies are measured of, the newest: histograms do not tell keys apart.
_TIMED_CALLS: Final = 200
#: Seconds for which a key's usage is shown as it was read, and keys of which it is remembered: the
#: process that reads for pages is one, and a key may ask as often as it likes.
_FRESH_S: Final = 5.0
_MAX_REMEMBERED: Final = 256
#: Seconds that a request waits for those before it.
_TURN_TIMEOUT_S: Final = 3.0


@dataclass(eq=False)
class KeyUsageResource:
    """The usage of keys, one after the other; every question names the key and its team."""

    _ask: StoreQuestions
    _limits: Callable[[Key], Awaitable[Sequence[KeyLimitView]]]
    _now: Clock
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _remembered: LruCache[str, KeyUsageView] = field(
        default_factory=lambda: LruCache(_MAX_REMEMBERED)
    )

    async def usage(self, key: Key) -> KeyUsageView:
        """All that is shown of one key, at most a few seconds old.

        Raises:
            Unready: The database does not answer in time.
        """
        if (known := self._fresh(key)) is not None:
            return known
        await self._take_turn()
        try:
            usage = self._fresh(key) or await self._read(key)
        finally:
            self._turn.release()
        self._remembered.put(key.id, usage)
        return usage

    def _fresh(self, key: Key) -> KeyUsageView | None:
        """The usage of a key that was read just now; None where there is none."""
        known = self._remembered.get(key.id)
        return known if known is not None and 0 <= self._now() - known.at < _FRESH_S else None

    async def _take_turn(self) -> None:
        """Wait until no other usage is read; raises Unready where that takes too long."""
        try:
            async with asyncio.timeout(_TURN_TIMEOUT_S):
                await self._turn.acquire()
        except TimeoutError as error:
            raise Unready(
                "Too many ask for the usage of their keys just now; try again in a moment.",
                code="store_busy",
                retry_after=5.0,
            ) from error

    async def _read(self, key: Key) -> KeyUsageView:
        now = self._now()
        period = latest_days(now, _DAYS)
        only = SpendFilter(teams=frozenset({key.team}), values={"key": frozenset({key.id})})
        costs, health, calls, limits = await asyncio.gather(
            self._costs(period, only),
            self._health(now, only),
            self._calls(period, only),
            self._limits(key),
        )
        total = costs.total
        return KeyUsageView(
            key=key.id,
            team=key.team_name,
            feature=key.feature,
            expires=key.expires,
            at=now,
            spend=_spend(costs),
            limits=limits,
            health=health,
            cache_hit_rate=share(total.cache_read_tokens, total.prompt_tokens),
            latency=key_latency(calls.calls),
            calls=calls.calls[:_SHOWN_CALLS],
            searched_from=calls.searched_from if calls.next else None,
        )

    def router(self, authenticate: Authenticate) -> APIRouter:
        """The route by which a caller reads the usage of its own key."""
        routes = APIRouter()
        caller = Annotated[Key, Depends(authenticate)]

        @routes.get("/v1/thriftgate/usage")
        async def usage(key: caller) -> KeyUsageView:
            """Spend, limits, errors, cache, latency and newest calls of the key that asks."""
            return await self.usage(key)

        return routes

    async def _costs(self, period: ReportPeriod, only: SpendFilter) -> CostsView:
        question = CostsQuestion(
            by="team",
            top=1,
            period=period,
            buckets=time_buckets(period, "day"),
            only=only,
            providers={},
            today=period.days[-1].first,
        )
        return await self._ask.view("costs of a key", costs_view, question, view_itself)

    async def _health(self, now: float, only: SpendFilter) -> HealthView:
        question = HealthQuestion(now=now, only=only)
        return await self._ask.view("health of a key", health_view, question, view_itself)

    async def _calls(self, period: ReportPeriod, only: SpendFilter) -> CallsView:
        start, end = period.bounds
        search = CallSearch(since=start, until=end, limit=_TIMED_CALLS, only=only)
        return await self._ask.view("calls of a key", calls_view, search, view_itself)


def own_usage_routers(
    store: Store,
    ask: StoreQuestions,
    read_viewer: ReadViewer,
    authenticate: Authenticate,
    read_limits: Callable[[Key], Awaitable[Sequence[KeyLimitView]]],
    clocks: tuple[Clock, Callable[[], float]],
) -> list[APIRouter]:
    """The routes of the page and of its twin for programs, over a store.

    Args:
        ask: Not that of the admin pages: holders of keys must not take their places.
        authenticate: Finds the key that came with a program's request.
        clocks: Seconds since the epoch, and seconds of a clock that goes forward.
    """
    now, ticks = clocks
    resource = KeyUsageResource(ask, read_limits, now)
    cookies, limit = KeyCookies(store.secret, now), address_limit(ticks)
    pages = OwnUsagePages(store.keyring, resource.usage, read_viewer, cookies, limit, now)
    return [pages.router(), resource.router(authenticate)]


def _spend(costs: CostsView) -> KeySpend:
    """The spend of a key, by its thirty days."""
    days = costs.series[0].cost_nanos if costs.series else [0] * len(costs.starts)
    return KeySpend(
        today=days[-1],
        week=known_sum(days[-_WEEK_DAYS:]),
        month=costs.month.spent_nanos,
        month_name=costs.month.month,
        days=days,
        unpriced_attempts=costs.total.unpriced_attempts,
    )
