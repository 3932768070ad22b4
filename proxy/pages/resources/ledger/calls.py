"""Calls, newest first, one call's whole story, and calls as they end: ``/api/v1/calls``."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from fastapi import Query
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.reports import Part, SpendFilter, is_tag
from dashboards.views.calls import CallRow, CallStory, CallsView
from dashboards.views.minutes import WINDOW_SECONDS, MinutesWindow
from proxy.catalog.catalog import Catalog
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.call_values import call_story
from proxy.pages.resources.ledger.live_calls import LiveCalls, LiveListener, Wanted, follow
from proxy.pages.resources.ledger.queries import (
    FilterQuery,
    OptionalText,
    PeriodQuery,
    json_response,
)
from proxy.pages.store_questions import StoreQuestions, json_bytes
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.records.receipt import Outcome, Receipt, answering_model
from proxy.store.sql.ids import id_floor
from proxy.store.sql.views.calls import CallSearch, calls_view
from proxy.store.store import Store
from slo.usage import TAG_PREFIX

T = TypeVar("T")

MAX_PAGE_CALLS: Final = 200
_MAX_CURSOR_CHARS: Final = 64
#: Seconds after which a browser has to ask for live calls again, with its session of then.
_LIVE_LIFETIME_S: Final = 600.0
_HEARTBEAT_S: Final = 10.0
#: Calls of before that a page of live calls begins with.
_NEWEST: Final = 50

Outcomes = Literal["answered", "refused", "failed", "broken", "hung_up"]
ServedByName = Literal["cache", "small", "large", "draft"]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0)]


class LiveQuery(FilterQuery):
    """Filters of calls, live and of the ledger; live calls have no period."""

    outcome: Outcomes | None = None
    miss: OptionalText = Field(None, description="A reason for a miss; `*` for any miss.")
    rerouted: bool = Field(default=False, description="Only calls that another route answered.")
    unpriced: bool = Field(default=False, description="Only calls whose price is unknown.")
    min_cost_nanos: int = Field(0, ge=0, le=1 << 50, description="They cost at least as much.")
    error: OptionalText = Field(None, description="The error's code, such as `upstream_timeout`.")
    served_by: ServedByName | None = Field(None, description="What of the fast path served them.")
    min_duration: Seconds = Field(0.0, description="They took at least so many seconds.")
    min_ttft: Seconds = Field(0.0, description="Least seconds to their first content byte.")


class CallsQuery(LiveQuery):
    """A question for calls."""

    window: MinutesWindow | None = Field(None, description="The last minutes or hours of them.")
    after: str = Field("", max_length=_MAX_CURSOR_CHARS, description="`next` of the page before.")
    limit: int = Field(50, ge=1, le=MAX_PAGE_CALLS, description="Most calls of a page.")


LIVE_FILTERS: Final = LiveQuery.model_fields.keys() - PeriodQuery.model_fields.keys()
"""Names of the query parameters that live calls are filtered by."""


@dataclass(eq=False)
class Calls(Resource):
    """Calls, as pages and the API read them."""

    tag = "calls"

    _store: Store
    _ask: StoreQuestions
    _catalog: Callable[[], Catalog]
    _live: LiveCalls
    _now: Clock

    async def calls(self, viewer: Viewer, query: CallsQuery, finish: Callable[[CallsView], T]) -> T:
        """Calls of the teams that a viewer may see, newest first, in the form asked for."""
        check_allowed(viewer, Action.SEE_CALLS)
        start, end = map(float, query.period(self._now()).bounds)
        if query.window is not None:
            start = max(start, self._now() - WINDOW_SECONDS[query.window][0])
        search = CallSearch(
            since=start,
            until=end,
            after=min(query.after, id_floor(end)) if query.after else "",
            limit=query.limit,
            only=query.spend_filter(viewer, self._providers()),
            outcome=query.outcome or "",
            miss=query.miss or "",
            is_rerouted=query.rerouted,
            min_cost_nanos=query.min_cost_nanos,
            is_unpriced=query.unpriced,
            error=query.error or "",
            served_by=query.served_by or "",
            min_duration=query.min_duration,
            min_ttft=query.min_ttft,
        )
        return await self._ask.view("calls", calls_view, search, finish)

    @route("GET", "/calls", name="calls", response_model=CallsView)
    async def json(self, viewer: SignedIn, query: Annotated[CallsQuery, Query()]) -> Response:
        """Calls, newest first; a page may be empty although `next` names another."""
        return json_response(await self.calls(viewer, query, json_bytes))

    @route("GET", "/calls/live", response_class=StreamingResponse)
    async def live(
        self, viewer: SignedIn, query: Annotated[LiveQuery, Query()]
    ) -> StreamingResponse:
        """Calls of this process as they end, as server-sent events named `call`."""
        check_allowed(viewer, Action.SEE_CALLS)
        names = await self._ask.expect("team names", self._team_names)
        is_wanted = _live_filter(query, query.spend_filter(viewer, self._providers()))
        stack = ExitStack()
        listener = stack.enter_context(self._live.listener(is_wanted))
        events = self._events(listener, is_wanted, names, stack)
        return StreamingResponse(events, media_type="text/event-stream")

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
        return call_story(seen, names, self._catalog())

    def _providers(self) -> Mapping[str, str]:
        """The provider of each upstream."""
        return self._catalog().providers

    def _read_call(self, call_id: str) -> tuple[list[Receipt], Mapping[str, str]]:
        return self._store.ledger.attempts(call_id), self._team_names()

    def _team_names(self) -> Mapping[str, str]:
        return {team.id: team.name for team in self._store.teams.all()}

    async def _events(
        self, listener: LiveListener, is_wanted: Wanted, names: Mapping[str, str], end: ExitStack
    ) -> AsyncGenerator[bytes]:
        with end:
            yield b"retry: 2000\n\n"
            for row in list(self._live.newest(is_wanted, _NEWEST)):
                yield _event(row, names)
            dropped = 0
            async for call in follow(listener, _LIVE_LIFETIME_S, _HEARTBEAT_S):
                yield b": still here\n\n" if call is None else _event(call, names)
                if listener.dropped > dropped:
                    dropped = listener.dropped
                    yield b"event: dropped\ndata: %d\n\n" % dropped


def _live_filter(query: LiveQuery, only: SpendFilter) -> Wanted:
    """True for a call that the ledger's list would show for the same filters."""
    teams = only.counted_teams
    values = {part: some for part, some in only.values.items() if part != "team"}

    def is_wanted(receipt: Receipt) -> bool:
        return (
            (teams is None or receipt.team in teams)
            and all(_part_value(receipt, part) in some for part, some in values.items())
            and query.outcome in {None, receipt.outcome}
            and (not query.miss or query.miss in {receipt.miss, "*" if receipt.miss else ""})
            and bool(receipt.reroute_reason or not query.rerouted)
            and (receipt.cost_nanos or 0) >= query.min_cost_nanos
            and (_is_unpriced(receipt) or not query.unpriced)
            and query.error in {None, receipt.error}
            and query.served_by in {None, receipt.served_by.value}
            and receipt.duration >= query.min_duration
            and (receipt.ttft or 0.0) >= query.min_ttft
        )

    return is_wanted


def _is_unpriced(receipt: Receipt) -> bool:
    """True if it used tokens or was answered, and nobody knows its price."""
    is_used = receipt.usage is not None or receipt.outcome is Outcome.ANSWERED
    return receipt.cost_nanos is None and is_used


def _part_value(receipt: Receipt, part: Part) -> str:
    """The value of a part in a receipt, as queries of the ledger have it."""
    if part == "model":
        return answering_model(receipt.route, receipt.model)
    if is_tag(part):
        return dict(receipt.tags).get(part.removeprefix(TAG_PREFIX), "")
    named = {"key": "key_id", "requested": "model"}
    return str(getattr(receipt, named.get(part, part)))


def _event(row: CallRow, names: Mapping[str, str]) -> bytes:
    named = replace(row, team_name=names.get(row.team, row.team))
    return b"event: call\ndata: %b\n\n" % msgspec.json.encode(named)
