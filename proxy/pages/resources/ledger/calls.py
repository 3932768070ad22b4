"""Calls, newest first, and one call's whole story: ``/api/v1/calls``."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from fastapi import Query
from pydantic import AwareDatetime, Field
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.views.alerts import AlertCalls
from dashboards.views.call_file import CallColumn, calls_csv
from dashboards.views.calls import CallSort, CallStory, CallsView
from dashboards.views.minutes import WINDOW_SECONDS, MinutesWindow
from proxy.catalog.catalog import Catalog
from proxy.errors import CallerError, Unready
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.call_values import call_story
from proxy.pages.resources.ledger.queries import (
    FilterQuery,
    OptionalText,
    json_response,
)
from proxy.pages.store_questions import StoreQuestions, json_bytes, view_itself
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.records.receipt import Receipt, words_without_message
from proxy.store.sql.ids import id_floor, id_time
from proxy.store.sql.ledger.measured_calls import MeasuredCalls
from proxy.store.sql.views.calls import CallSearch, calls_view
from proxy.store.sql.views.live.failures import AlertCallsQuestion, alert_calls
from proxy.store.store import Store
from slo.objectives.objective import EVERY, Objective

T = TypeVar("T")

MAX_PAGE_CALLS: Final = 200
#: Calls of a file.
_MAX_FILE_CALLS: Final = 10_000
#: Seconds before a period of ends in which its calls may have begun.
_LONGEST_CALL_S: Final = 3_600.0
_MAX_CURSOR_CHARS: Final = 64
#: Most seconds of a call that is followed, for calls appear as they end.
_FOLLOWED_CALL_S: Final = 300.0
#: Requests of people who follow calls that are answered at a time.
_MAX_FOLLOWING: Final = 4

Outcomes = Literal["answered", "error", "refused", "failed", "broken", "hung_up"]
ServedByName = Literal["cache", "small", "large", "draft"]
#: A call's id or its beginning, as the table of calls shows it.
_ID_START: Final = re.compile(r"(?:call_)?([0-9a-f]{12,32})")
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0)]


class CallsQuery(FilterQuery):
    """A question for calls."""

    outcome: Outcomes | None = Field(
        None, description="`error`: they failed or broke off; a refusal by the gateway is none."
    )
    miss: OptionalText = Field(None, description="A reason for a miss; `*` for any miss.")
    rerouted: bool = Field(default=False, description="Only calls that another route answered.")
    unpriced: bool = Field(default=False, description="Only calls whose price is unknown.")
    min_cost_nanos: int = Field(0, ge=0, le=1 << 50, description="All attempts cost as much.")
    min_cost_usd: Decimal = Field(
        Decimal(0), ge=0, le=1_000_000, description="The same in dollars, `0.05`."
    )
    status: int | None = Field(None, ge=100, le=599, description="An attempt ended in it.")
    error: OptionalText = Field(None, description="An attempt met it, such as `upstream_timeout`.")
    ended_with: OptionalText = Field(None, description="The error's code that they ended with.")
    served_by: ServedByName | None = Field(None, description="What of the fast path served them.")
    refused_by: OptionalText = Field(None, description="A budget that had no room for them.")
    min_duration: Seconds = Field(0.0, description="They took at least so many seconds.")
    min_ttft: Seconds = Field(0.0, description="Least seconds to their first content byte.")
    ended_from: AwareDatetime | None = Field(None, description="They ended at or after it.")
    ended_to: AwareDatetime | None = Field(None, description="They ended before it.")
    missed: OptionalText = Field(None, description="An objective's name: they missed it.")
    failed_route: OptionalText = Field(
        None, description="An attempt on this route failed, with `status` and `error` if given."
    )
    since: AwareDatetime | None = Field(None, description="They arrived at or after it.")
    until: AwareDatetime | None = Field(None, description="They arrived before it.")
    window: MinutesWindow | None = Field(None, description="The last minutes or hours of them.")
    after: str = Field("", max_length=_MAX_CURSOR_CHARS, description="`next` of the page before.")
    newer: str = Field(
        "",
        pattern=r"^(?:call_[0-9a-f]{12,32})?$",
        description="They arrived after the call of this id, or at most five minutes before it.",
    )
    sort: CallSort = Field("time", description="The newest first, or those with most of it.")
    q: OptionalText = Field(
        None, max_length=200, description="A call's id, a provider's id, or a text of its prompt."
    )
    limit: int = Field(50, ge=1, le=MAX_PAGE_CALLS, description="Most calls of a page.")

    @property
    def is_of_days(self) -> bool:
        """True if days bound the calls, and no moments do; days that are named hold."""
        moments = (self.window, self.since, self.until, self.ended_from, self.ended_to)
        return bool(self.first or self.last) or not any(moments)

    def moments(self, now: float) -> tuple[float, float]:
        """The moments between which calls arrived, in seconds since the epoch."""
        start, end = map(float, self.period(now).bounds)
        if self.is_of_days:
            return start, end
        if self.window is not None:
            start = now - WINDOW_SECONDS[self.window][0]
        return _timestamp(self.since) or start, _timestamp(self.until) or end


class FileQuery(CallsQuery):
    """A question for a file of calls."""

    without: list[CallColumn] = Field([], description="Columns that are left out.")


@dataclass(eq=False)
class Calls(Resource):
    """Calls, as pages and the API read them."""

    tag = "calls"

    _store: Store
    _ask: StoreQuestions
    _catalog: Callable[[], Catalog]
    _objectives: Callable[[], Sequence[Objective]]
    _now: Clock
    _following: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(_MAX_FOLLOWING), init=False
    )

    async def calls(self, viewer: Viewer, query: CallsQuery, finish: Callable[[CallsView], T]) -> T:
        """Calls of the teams that a viewer may see, in the form asked for."""
        check_allowed(viewer, Action.SEE_CALLS)
        search = await self._search(viewer, query)
        if search.id_start:
            view = await self._ask.view("calls", calls_view, search, view_itself)
            text = (query.q or "").strip()
            if view.calls or text.startswith("call_"):
                return finish(view)
            search = replace(search, id_start="", text=text)
        return await self._ask.view("calls", calls_view, search, finish)

    async def follow(
        self, viewer: Viewer, query: CallsQuery, finish: Callable[[CallsView], T]
    ) -> T:
        """The same for who asks again and again, few at once.

        Raises:
            Unready: Too many ask just now.
        """
        if self._following.locked():
            raise Unready(
                "Too many people follow calls just now; try again in a moment.",
                code="store_busy",
                retry_after=5.0,
            )
        async with self._following:
            return await self.calls(viewer, query, finish)

    async def of_alert(
        self, viewer: Viewer, counted: CallsQuery, failed: CallsQuery | None, route: str
    ) -> AlertCalls | None:
        """The calls of an alert and their most frequent errors; None where unknown now.

        Args:
            failed: Query for the calls whose errors are asked for; None where none are.
            route: Route whose failed attempts count; "" for the last attempt of each call.
        """
        check_allowed(viewer, Action.SEE_CALLS)
        with suppress(Unready):
            question = AlertCallsQuestion(
                counted=await self._search(viewer, counted),
                failed=None if failed is None else await self._search(viewer, failed),
                route=route,
            )
            return await self._ask.view("calls of an alert", alert_calls, question, view_itself)
        return None

    async def _search(self, viewer: Viewer, query: CallsQuery) -> CallSearch:
        """The search of a query; ``id_start`` is set where it may name a call's id."""
        start, end = query.moments(self._now())
        if query.newer:
            start = max(start, id_time(query.newer) - _FOLLOWED_CALL_S)
        measured = await self._measured_calls(viewer, query)
        if measured is not None and not query.is_of_days:
            if measured.ended_from is not None:
                start = measured.ended_from - _LONGEST_CALL_S
            if measured.ended_to is not None:
                end = measured.ended_to
        text = (query.q or "").strip()
        call_id = _ID_START.fullmatch(text)
        return CallSearch(
            since=start,
            until=end,
            after=min(query.after, id_floor(end)) if query.after else "",
            limit=query.limit,
            only=query.spend_filter(viewer, self._providers()),
            outcome=query.outcome or "",
            miss=query.miss or "",
            is_rerouted=query.rerouted,
            min_cost_nanos=max(query.min_cost_nanos, int(query.min_cost_usd.scaleb(9))),
            status=query.status or 0,
            is_unpriced=query.unpriced,
            error=query.error or "",
            failed_route=query.failed_route or "",
            ended_with=query.ended_with or "",
            served_by=query.served_by or "",
            refused_by=query.refused_by or "",
            min_duration=query.min_duration,
            min_ttft=query.min_ttft,
            sort=query.sort,
            id_start=f"call_{call_id[1]}" if call_id else "",
            text="" if call_id else text,
            measured=measured,
        )

    async def _measured_calls(self, viewer: Viewer, query: CallsQuery) -> MeasuredCalls | None:
        """Calls that an alert counted, as a query names them; None where it names none."""
        if not any((query.ended_from, query.ended_to, query.missed)):
            return None
        missed = await self._objective(viewer, query.missed) if query.missed else None
        return MeasuredCalls(
            ended_from=_timestamp(query.ended_from),
            ended_to=_timestamp(query.ended_to),
            missed=missed,
        )

    async def _objective(self, viewer: Viewer, name: str) -> Objective:
        """The objective of a name, of a team that a viewer may see or of all.

        Raises:
            CallerError: There is none.
        """
        objectives = [one for one in self._objectives() if one.name == name]
        if viewer.teams is not None:
            names = await self._ask.expect("teams", self._team_names)
            own = {EVERY, *(names[team] for team in viewer.teams if team in names)}
            objectives = [one for one in objectives if one.team in own]
        if not objectives:
            raise CallerError(
                f"There is no objective {name[:100]} any more.",
                code="unknown_objective",
                param="missed",
            )
        return objectives[0]

    @route("GET", "/calls", name="calls", response_model=CallsView)
    async def json(self, viewer: SignedIn, query: Annotated[CallsQuery, Query()]) -> Response:
        """Calls, newest first; a page may be empty although `next` names another."""
        return json_response(await self.calls(viewer, query, json_bytes))

    @route("GET", "/calls.csv", name="calls_csv", response_class=Response)
    async def csv(self, viewer: SignedIn, query: Annotated[FileQuery, Query()]) -> Response:
        """The same as CSV, at most 10,000 calls; last lines say where it was cut."""
        whole = query.model_copy(update={"limit": _MAX_FILE_CALLS, "after": ""})
        finish = partial(calls_csv, frozenset(query.without), _MAX_FILE_CALLS)
        text = await self.calls(viewer, whole, finish)
        return Response(
            text.encode(),
            media_type="text/csv",
            headers={"content-disposition": 'attachment; filename="thriftgate-calls.csv"'},
        )

    @route("GET", "/calls/{call_id}")
    async def story(self, viewer: SignedIn, call_id: str) -> CallStory:
        """All that is known of a call."""
        check_allowed(viewer, Action.SEE_CALLS)
        receipts, names = await self._ask.expect("call", lambda: self._read_call(call_id))
        seen = [
            receipt for receipt in receipts if viewer.teams is None or receipt.team in viewer.teams
        ]
        if not seen:
            raise CallerError(
                "Your teams made no call with this id.", code="call_not_found", status=404
            )
        if viewer.teams is not None:
            seen = [
                msgspec.structs.replace(
                    receipt, upstream_error=words_without_message(receipt.upstream_error)
                )
                for receipt in seen
            ]
        return call_story(seen, names, self._catalog())

    def _providers(self) -> Mapping[str, str]:
        """The provider of each upstream."""
        return self._catalog().providers

    def _read_call(self, call_id: str) -> tuple[list[Receipt], Mapping[str, str]]:
        return self._store.ledger.attempts(call_id), self._team_names()

    def _team_names(self) -> Mapping[str, str]:
        return {team.id: team.name for team in self._store.teams.all()}


def _timestamp(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
