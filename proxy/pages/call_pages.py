"""Pages of calls and caches: newest calls, one call's story, hit rates, and why a call missed."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from dashboards.access import Action
from dashboards.formatting import with_params
from dashboards.pages import HOME
from dashboards.views.cache_health import CacheDimension
from proxy.pages.resources.api import API_PATH
from proxy.pages.resources.ledger.cache_health import CacheHealth, CacheQuery
from proxy.pages.resources.ledger.calls import LIVE_FILTERS, Calls, CallsQuery, Outcomes
from proxy.pages.resources.ledger.events import EventsResource
from proxy.pages.resources.ledger.ledger_resources import LedgerResources
from proxy.pages.site import Site, html_response
from proxy.pages.viewing import SignedIn, check_allowed


def router(site: Site, ledger: LedgerResources, events: EventsResource) -> APIRouter:
    """The routes of the pages; events are shown over the plots."""
    routes = site.router()
    _add_calls(routes, site, ledger.calls)
    _add_cache(routes, site, ledger.cache, events)
    return routes


def _add_calls(routes: APIRouter, site: Site, calls: Calls) -> None:
    @routes.get(f"{HOME}/calls")
    async def calls_page(
        request: Request, viewer: SignedIn, query: Annotated[CallsQuery, Query()]
    ) -> Response:
        """Calls, newest first, with filters and a live tail."""
        check_allowed(viewer, Action.SEE_CALLS)
        period = query.period(site.now())
        page = site.page_around(
            "calls.html",
            viewer,
            params=dict(request.query_params),
            first=period.first,
            last=period.end - timedelta(days=1),
            tz=period.zone,
            outcomes=get_args(Outcomes),
            live=_live_address(request.query_params),
        )
        return html_response(await calls.calls(viewer, query, page))

    @routes.get(f"{HOME}/calls/{{call_id}}")
    async def call_page(viewer: SignedIn, call_id: str) -> Response:
        """One call's whole story; no text of a prompt stands in it."""
        shown = await calls.story(viewer, call_id)
        return await site.html("call.html", viewer, section="calls", shown=shown)


def _live_address(params: Mapping[str, str]) -> str:
    """The address of live calls with the filters of a page."""
    filters = {name: params[name] for name in sorted(LIVE_FILTERS) if params.get(name)}
    query = with_params(filters)
    return f"{API_PATH}/calls/live?{query}" if query else f"{API_PATH}/calls/live"


def _add_cache(routes: APIRouter, site: Site, cache: CacheHealth, events: EventsResource) -> None:
    @routes.get(f"{HOME}/cache")
    async def cache_page(
        request: Request, viewer: SignedIn, query: Annotated[CacheQuery, Query()]
    ) -> Response:
        """Hit rates over time, and misses by money."""
        page = site.page_around(
            "cache.html",
            viewer,
            params=dict(request.query_params),
            dimensions=get_args(CacheDimension),
            events=await events.list(viewer, query),
        )
        return html_response(await cache.cache_health(viewer, query, page))

    @routes.get(f"{HOME}/cache/{{call_id}}")
    async def miss_page(viewer: SignedIn, call_id: str) -> Response:
        """The reason why a call missed, and where its prompt differs from the last hit."""
        shown = await cache.evidence(viewer, call_id)
        return await site.html("miss.html", viewer, section="cache", shown=shown)
