"""Pages of calls and caches: newest calls, one call's story, hit rates, and why a call missed."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, get_args

from fastapi import Query, Request
from starlette.responses import Response

from dashboards.access import Action
from dashboards.views.cache_health import CacheDimension
from dashboards.views.minutes import MinutesWindow
from proxy.pages.resources.api import API_PATH
from proxy.pages.resources.ledger.cache_health import CacheHealth, CacheQuery
from proxy.pages.resources.ledger.calls import Calls, CallsQuery, Outcomes
from proxy.pages.resources.ledger.events import EventsResource
from proxy.pages.site import Pages, html_response
from proxy.pages.viewing import SignedIn, check_allowed, route


@dataclass(eq=False)
class CallPages(Pages):
    """Pages of calls and of caches; events are shown over the plots."""

    calls: Calls
    cache: CacheHealth
    events: EventsResource

    @route("GET", "/calls")
    async def newest_calls(
        self, request: Request, viewer: SignedIn, query: Annotated[CallsQuery, Query()]
    ) -> Response:
        """Calls with filters and a search; of those that a script follows, the rows alone."""
        check_allowed(viewer, Action.SEE_CALLS)
        if query.newer:
            rows = self.site.page_around("call_rows.html", viewer)
            return html_response(await self.calls.follow(viewer, query, rows))
        now = self.site.now()
        period = query.period(now)
        page = self.site.page_around(
            "calls.html",
            viewer,
            params=dict(request.query_params),
            first=period.first if query.is_of_days else None,
            last=period.end - timedelta(days=1) if query.is_of_days else None,
            windows=get_args(MinutesWindow),
            tz=period.zone,
            outcomes=get_args(Outcomes),
            sort=query.sort,
            file=f"{API_PATH}/calls.csv",
            can_follow=query.moments(now)[1] > now and not query.after and query.sort == "time",
        )
        return html_response(await self.calls.calls(viewer, query, page))

    @route("GET", "/calls/{call_id}")
    async def call(self, viewer: SignedIn, call_id: str) -> Response:
        """One call's whole story; no text of a prompt stands in it."""
        shown = await self.calls.story(viewer, call_id)
        return await self.site.html("call.html", viewer, section="calls", shown=shown)

    @route("GET", "/cache")
    async def cache_health(
        self, request: Request, viewer: SignedIn, query: Annotated[CacheQuery, Query()]
    ) -> Response:
        """Hit rates over time, and misses by money."""
        page = self.site.page_around(
            "cache.html",
            viewer,
            params=dict(request.query_params),
            dimensions=get_args(CacheDimension),
            events=await self.events.list(viewer, query),
        )
        return html_response(await self.cache.cache_health(viewer, query, page))

    @route("GET", "/cache/{call_id}")
    async def miss(self, viewer: SignedIn, call_id: str) -> Response:
        """The reason why a call missed, and where its prompt differs from the last hit."""
        shown = await self.cache.evidence(viewer, call_id)
        return await self.site.html("miss.html", viewer, section="cache", shown=shown)
