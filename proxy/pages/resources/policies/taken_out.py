"""``/api/v1/taken-out``: routes and models that get no calls until they are put back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from pydantic import BaseModel, Field

from dashboards.access import Action, Viewer
from dashboards.reports import SpendFilter
from dashboards.views.minutes import RouteFailures
from proxy.catalog.catalog import Catalog
from proxy.configuration import TakenOut
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.policies.undo import adopt_change, last_change_id
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route, view_of
from proxy.reloading import Reloader
from proxy.services.catalog_overlay import without_service
from proxy.store.sql.settings.stored_policies import TAKEN_OUT, policy_changes
from proxy.store.sql.views.calls import CallSearch
from proxy.store.sql.views.live.failures import AlertCallsQuestion, alert_calls, failures_view
from proxy.store.store import Store

_HOUR_S: Final = 3_600.0
#: Routes with most failures that are told.
_MAX_FAILING: Final = 50
_ACTIONS: Final = policy_changes(TAKEN_OUT)


class OutRequest(BaseModel):
    """A route, or a model with all its routes."""

    kind: Literal["route", "model"]
    name: str = Field(max_length=200)

    @property
    def key(self) -> str:
        """Its name as it is kept."""
        return f"{self.kind} {self.name}"


class TakeOutRequest(OutRequest):
    """A route or model that is to get no calls for so many hours; 0: until it is put back."""

    hours: Literal[0, 1, 4] = 0
    why: str = Field("", max_length=200)
    refuses_calls: bool = Field(
        default=False, description="Calls of a model may be left without any route, and get 503."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOutView:
    """A route or model that gets no calls.

    Attributes:
        until: End of it, in seconds since the epoch as ``since`` is; null until it is put back.
        why: In the words of who took it out; "" for who does not see all teams, as ``who`` is.
    """

    kind: str
    name: str
    until: float | None
    why: str
    who: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOutPreview:
    """The effect of taking something out.

    Attributes:
        routes: The routes that get no more calls.
        others: The routes of the model that stay in service, in the order they are tried.
        fallbacks: Models that answer where no route stays.
        refused: Models whose calls get 503 then, as no route and no fallback is left.
        calls: Calls that these routes ended in the last hour; None where unknown just now.
        seen: Id of the last change.
    """

    routes: Sequence[str]
    others: Sequence[str]
    fallbacks: Sequence[str]
    refused: Sequence[str]
    calls: int | None
    seen: str


@dataclass(eq=False)
class TakenOutResource(Resource):
    """Routes and models as people take them out; other gateways follow within seconds."""

    tag = "taken out"

    _store: Store
    _ask: StoreQuestions
    _reloader: Reloader
    _now: Clock

    @route("GET", "/taken-out", name="list_taken_out")
    async def list(self, viewer: SignedIn) -> Sequence[TakenOutView]:
        """Lists routes and models that get no calls just now."""
        check_allowed(viewer, Action.SEE_OPERATIONS)
        hidden = {} if viewer.teams is None else {"who": "", "why": ""}
        now = self._now()
        return [
            view_of(TakenOutView, one, **hidden)
            for one in self._reloader.snapshot.taken_out
            if one.until is None or one.until > now
        ]

    async def failing(self, viewer: Viewer) -> Mapping[str, RouteFailures]:
        """Failures of the last hour by route, which tell what to take out; none where unknown."""
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

    async def preview(self, viewer: Viewer, request: TakeOutRequest) -> TakeOutPreview:
        """The effect of taking a route or model out; raises as ``take_out``."""
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        catalog = self._reloader.snapshot.catalog
        after = self._catalog_after(request)
        changed = [model for name, model in after.models.items() if model != catalog.models[name]]
        routes = [
            one.name
            for model in changed
            for one, before in zip(model.routes, catalog.models[model.id].routes, strict=True)
            if one.is_out and not before.is_out
        ]
        return TakeOutPreview(
            routes=routes,
            others=[one.name for model in changed for one in model.routes if not one.is_out],
            fallbacks=[
                name for model in changed for name in model.fallbacks if _is_in_service(after, name)
            ],
            refused=sorted(_without_any_route(after) - _without_any_route(catalog)),
            calls=await self._calls_of_the_last_hour(routes),
            seen=await last_change_id(self._store, request.key, _ACTIONS),
        )

    @route("POST", "/taken-out", name="take_out", status_code=204)
    async def take(self, viewer: SignedIn, request: TakeOutRequest) -> None:
        """Sends no more calls to a route or model; its other routes or fallbacks answer.

        With ``refuses_calls`` calls may be left without any route, which get 503.
        """
        await self.take_out(viewer, request)

    async def take_out(
        self, viewer: Viewer, request: TakeOutRequest, seen: str | None = None
    ) -> None:
        """Takes a route or model out.

        Args:
            seen: Id of its last change that the viewer saw; None to take it out anyhow.

        Raises:
            CallerError: It is unknown, no route would be left, or another change came since.
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
                self._store.policies.set, TAKEN_OUT, fields, viewer.name, now, seen
            )
        except ValueError as error:
            raise CallerError(f"This cannot be kept: {error}.", code="too_many_policies") from None
        await adopt_change(self._reloader)

    @route("POST", "/taken-out/put-back", name="put_back", status_code=204)
    async def put_back(self, viewer: SignedIn, request: OutRequest) -> None:
        """Sends calls to a route or model again."""
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        remove = self._store.policies.remove
        if not await self._store.ask(remove, TAKEN_OUT, request.key, viewer.name, self._now()):
            raise CallerError("This is not taken out.", code="not_taken_out", status=404)
        await adopt_change(self._reloader)

    def _catalog_after(self, request: TakeOutRequest) -> Catalog:
        """The catalog with something out; raises CallerError where there is no such thing."""
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
        one = TakenOut(kind=request.kind, name=request.name, until=None, why="", who="", since=0)
        return without_service(snapshot.catalog, [*snapshot.taken_out, one])

    async def _calls_of_the_last_hour(self, routes: Sequence[str]) -> int | None:
        """Calls that these routes ended; None where the ledger does not answer in time."""
        only = SpendFilter(teams=None, values={"route": frozenset(routes)})
        now = self._now()
        search = CallSearch(since=now - _HOUR_S, until=now, only=only)
        read = self._store.dashboard.read
        counted = await self._ask(
            "calls of a route", lambda: read(alert_calls, AlertCallsQuestion(counted=search))
        )
        return None if counted is None else counted.count


def _is_in_service(catalog: Catalog, name: str) -> bool:
    model = catalog.models.get(name)
    return model is not None and not all(one.is_out for one in model.routes)


def _without_any_route(catalog: Catalog) -> set[str]:
    """Models without a route in service, and without a fallback that has one."""
    return {
        model.id
        for model in catalog.models.values()
        if not any(_is_in_service(catalog, name) for name in (model.id, *model.fallbacks))
    }
