"""``/api/v1/disabled-routes``: routes and models that get no calls until they are enabled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from pydantic import BaseModel, Field

from dashboards.access import Action, Viewer
from dashboards.reports import SpendFilter
from dashboards.views.alerts import AlertCalls
from dashboards.views.minutes import RouteFailures
from proxy.catalog.catalog import Catalog
from proxy.configuration import DisabledRoute
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.policies.undo import adopt_change, last_change_id
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import Clock, Label, Name, SignedIn, check_allowed, route, view_of
from proxy.reloading import Reloader
from proxy.services.catalog_overlay import disable_routes
from proxy.store.sql.access.audit_log import last_id
from proxy.store.sql.settings.stored_policies import DISABLED_ROUTES, policy_changes
from proxy.store.sql.views.calls import CallSearch
from proxy.store.sql.views.live.failures import AlertCallsQuestion, alert_calls, failures_view
from proxy.store.store import Store

_HOUR_S: Final = 3_600.0
#: Routes with most failures that a page shows.
_MAX_FAILING: Final = 50
_ACTIONS: Final = policy_changes(DISABLED_ROUTES)


class EnableRequest(BaseModel):
    """A route, or a model with all its routes."""

    kind: Literal["route", "model"]
    name: Name
    seen: str | None = Field(
        None,
        max_length=100,
        description='`change` as it was listed, "" for none: after another change nothing is'
        " done. Without it, whatever is there is changed.",
    )

    @property
    def key(self) -> str:
        """Its name as it is kept."""
        return f"{self.kind} {self.name}"


class DisableRequest(EnableRequest):
    """A route or model that is to get no calls for so many hours; 0: until it is enabled."""

    hours: Literal[0, 1, 4] = 0
    why: Label = ""
    refuses_calls: bool = Field(
        default=False, description="Calls of a model may be left without any route, and get 503."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DisabledRouteView:
    """A route or model that gets no calls.

    Attributes:
        until: End of it, in seconds since the epoch as ``since`` is; null until it is enabled.
        why: In the words of who disabled it; "" for who does not see all teams, as ``who`` is.
        change: Id of its last change.
    """

    kind: str
    name: str
    change: str
    until: float | None
    why: str
    who: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DisablePreview:
    """The effect of disabling something.

    Attributes:
        routes: The routes that get no more calls.
        others: The routes of the model that stay enabled, in the order they are tried.
        fallbacks: Models that answer where no route stays.
        refused: Models whose calls get 503 then, as no route and no fallback is left.
        calls: Calls that these routes ended in the last hour; None where unknown just now.
        among: Number of the newest attempts among which they are; None for all of the hour.
        seen: Id of the last change.
    """

    routes: Sequence[str]
    others: Sequence[str]
    fallbacks: Sequence[str]
    refused: Sequence[str]
    calls: int | None
    among: int | None
    seen: str


@dataclass(eq=False)
class DisabledRoutesResource(Resource):
    """Routes and models as people disable them; other gateways follow within seconds."""

    tag = "disabled routes"

    _store: Store
    _ask: StoreQuestions
    _reloader: Reloader
    _now: Clock

    @route("GET", "/disabled-routes", name="list_disabled_routes")
    async def list(self, viewer: SignedIn) -> Sequence[DisabledRouteView]:
        """Lists routes and models that get no calls just now."""
        check_allowed(viewer, Action.SEE_OPERATIONS)
        hidden = {} if viewer.teams is None else {"who": "", "why": ""}
        now = self._now()
        disabled = [
            one
            for one in self._reloader.snapshot.disabled_routes
            if one.until is None or one.until > now
        ]
        changes: Mapping[tuple[str, str], str] = {}
        if disabled:
            read = partial(self._store.audit.last_changes, _ACTIONS)
            changes = await self._ask("changes of routes", read) or {}
        return [
            view_of(DisabledRouteView, one, change=last_id(changes, one.key, _ACTIONS), **hidden)
            for one in disabled
        ]

    async def failures(self, viewer: Viewer) -> Mapping[str, RouteFailures]:
        """Failures of the last hour by route, which tell what to disable; none where unknown."""
        now = self._now()
        only = SpendFilter(teams=viewer.teams, values={})
        search = CallSearch(since=now - _HOUR_S, until=now, only=only)
        sees_calls = viewer.may(Action.SEE_CALLS)
        read = partial(
            self._store.dashboard.read,
            failures_view,
            search,
            has_words=sees_calls,
            most=_MAX_FAILING,
        )
        failures = await self._ask("failing routes", read)
        return {one.route: one for one in failures or ()}

    async def preview(self, viewer: Viewer, request: DisableRequest) -> DisablePreview:
        """The effect of disabling a route or model; raises as ``disable``."""
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        catalog = self._reloader.snapshot.catalog
        after = self._catalog_after(request)
        changed = [model for name, model in after.models.items() if model != catalog.models[name]]
        routes = [
            one.name
            for model in changed
            for one, before in zip(model.routes, catalog.models[model.id].routes, strict=True)
            if one.is_disabled and not before.is_disabled
        ]
        counted = await self._calls_of_the_last_hour(routes)
        return DisablePreview(
            routes=routes,
            others=[one.name for model in changed for one in model.routes if not one.is_disabled],
            fallbacks=[
                name for model in changed for name in model.fallbacks if _is_enabled(after, name)
            ],
            refused=sorted(_without_any_route(after) - _without_any_route(catalog)),
            calls=None if counted is None else counted.count,
            among=None if counted is None else counted.among,
            seen=await last_change_id(self._store, request.key, _ACTIONS),
        )

    @route("POST", "/disabled-routes", name="disable_route", status_code=204)
    async def disable(self, viewer: SignedIn, request: DisableRequest) -> None:
        """Sends no more calls to a route or model; its other routes or fallbacks answer.

        With ``refuses_calls`` calls may be left without any route, which get 503.
        """
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        catalog, now = self._reloader.snapshot.catalog, self._now()
        after = self._catalog_after(request)
        refused = _without_any_route(after) - _without_any_route(catalog)
        if refused and not request.refuses_calls:
            raise CallerError(
                f"No route and no fallback would be left for {', '.join(sorted(refused))}: its"
                " calls would get 503. Say that they may be refused.",
                code="last_route",
                param="refuses_calls",
                status=409,
            )
        until = now + request.hours * _HOUR_S if request.hours else None
        fields = {"name": request.key, "until": until, "why": request.why}
        try:
            await self._store.ask(
                self._store.policies.set, DISABLED_ROUTES, fields, viewer.name, now, request.seen
            )
        except ValueError as error:
            raise CallerError(f"This cannot be kept: {error}.", code="too_many_policies") from None
        await adopt_change(self._reloader)

    @route("POST", "/disabled-routes/enable", name="enable_route", status_code=204)
    async def enable(self, viewer: SignedIn, request: EnableRequest) -> None:
        """Sends calls to a route or model again."""
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        remove = partial(self._store.policies.remove, seen=request.seen)
        if not await self._store.ask(
            remove, DISABLED_ROUTES, request.key, viewer.name, self._now()
        ):
            raise CallerError("This is not disabled.", code="not_disabled", status=404)
        await adopt_change(self._reloader)

    def _catalog_after(self, request: DisableRequest) -> Catalog:
        """The catalog with something disabled; raises CallerError where there is no such thing."""
        snapshot = self._reloader.snapshot
        models = snapshot.catalog.models
        names = (
            models.keys()
            if request.kind == "model"
            else {one.name for model in models.values() for one in model.routes}
        )
        if request.name not in names:
            raise CallerError(
                f"The catalog has no {request.kind} of this name.", code="unknown_route", status=404
            )
        one = DisabledRoute(
            kind=request.kind, name=request.name, until=None, why="", who="", since=0
        )
        return disable_routes(snapshot.catalog, [*snapshot.disabled_routes, one])

    async def _calls_of_the_last_hour(self, routes: Sequence[str]) -> AlertCalls | None:
        """Calls that these routes ended; None where the ledger does not answer in time."""
        only = SpendFilter(teams=None, values={"route": frozenset(routes)})
        now = self._now()
        search = CallSearch(since=now - _HOUR_S, until=now, only=only)
        read = self._store.dashboard.read
        return await self._ask(
            "calls of a route", lambda: read(alert_calls, AlertCallsQuestion(counted=search))
        )


def _is_enabled(catalog: Catalog, name: str) -> bool:
    model = catalog.models.get(name)
    return model is not None and not all(one.is_disabled for one in model.routes)


def _without_any_route(catalog: Catalog) -> set[str]:
    """Models without an enabled route, and without a fallback that has one."""
    return {
        model.id
        for model in catalog.models.values()
        if not any(_is_enabled(catalog, name) for name in (model.id, *model.fallbacks))
    }
