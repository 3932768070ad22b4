"""The app for all requests that are not calls: health, models, receipts, and pages below /admin."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from dashboards.board import AdminBoard
from proxy.api.key_limits import expired_error
from proxy.api.passthrough import error_response, internal_error
from proxy.api.refused_keys import unauthenticated_error
from proxy.api.request import request_token
from proxy.app_context import AppContext
from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.entries import Route
from proxy.configuration import Snapshot
from proxy.errors import CallerError, ProxyError
from proxy.pages import models, receipts
from proxy.pages.access.setup import open_access
from proxy.pages.access.sign_in import PageAccess
from proxy.pages.board_data import LiveBoard
from proxy.pages.budget_pages import BudgetPages
from proxy.pages.call_pages import CallPages
from proxy.pages.cost_pages import CostPages
from proxy.pages.health import LedgerMetrics, PolicyNotes, health_router, readiness
from proxy.pages.operation_pages import OperationPages, Operations
from proxy.pages.people_pages import AccessResources, PeoplePages
from proxy.pages.receipts import Authenticate, ReceiptReader
from proxy.pages.replay_pages import ReplayPages, ReplayProcess
from proxy.pages.resources.alert_sinks import AlertSinksResource
from proxy.pages.resources.alerts import AlertsResource
from proxy.pages.resources.api import API_PATH, api_app
from proxy.pages.resources.budgets.budget_counters import BudgetsResource
from proxy.pages.resources.budgets.key_limits import KeyLimitReader
from proxy.pages.resources.budgets.stored_budgets import StoredBudgetsResource
from proxy.pages.resources.callers.key_usage import own_usage_routers
from proxy.pages.resources.configuration import ConfigurationResource
from proxy.pages.resources.fast_path_switches import FastPathSwitchesResource
from proxy.pages.resources.ledger.events import EventsResource
from proxy.pages.resources.ledger.fast_path import FastPathResource
from proxy.pages.resources.ledger.features import FeaturesResource
from proxy.pages.resources.ledger.ledger_resources import LedgerResources
from proxy.pages.resources.ledger.savings import StepSources
from proxy.pages.resources.models import NO_KEY, ModelsResource
from proxy.pages.resources.objectives import ObjectivesResource
from proxy.pages.resources.policies.disabled_routes import DisabledRoutesResource
from proxy.pages.resources.policies.policy_pages import PolicyPages
from proxy.pages.resources.policies.stored_policies import StoredPoliciesResource
from proxy.pages.resources.report_deliveries import ReportDeliveriesResource
from proxy.pages.resources.report_sending import ReportSending
from proxy.pages.site import Site, add_sign_in_redirect, static_router
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import invalid_query_error
from proxy.records.call import Key
from proxy.reloading import Reloader
from proxy.services.budgets.admission_gate import AdmissionGate
from proxy.services.budgets.counters import open_budget_store
from proxy.services.objectives.router import ObjectiveRouter
from proxy.services.telemetry.telemetry import Telemetry
from proxy.settings import Settings
from proxy.store.ports import BudgetStore
from proxy.store.sql.access.audit_log import AuditedChange
from proxy.store.sql.ids import call_ids
from proxy.store.sql.views.fast_path import FastPathRules

_log = logging.getLogger("thriftgate.pages")

_AT_ROOT: Final = (
    "This is a Thriftgate gateway. Calls go to /v1/…, and people find the dashboard at /admin."
)


@asynccontextmanager
async def pages_app(
    context: AppContext,
    receipts_reader: ReceiptReader,
    telemetry: Telemetry,
    limits: tuple[AdmissionGate | None, ObjectiveRouter | None],
    reloader: Reloader,
    ticks: Callable[[], float],
) -> AsyncIterator[FastAPI]:
    """Opens the app of all pages.

    Args:
        limits: The gate of budgets and the router of objectives; None each where no policies are
            named.
        ticks: Seconds of a clock that goes forward.
    """
    opened, make = context.opened, call_ids()

    authenticate = key_authentication(context)
    policies = PolicyNotes(opened, reloader, context.now)
    states = readiness(context, reloader, policies)
    telemetry.register(LedgerMetrics(opened))

    def request_id() -> str:
        return make(context.now())

    async def name_request(answer: Response) -> None:
        answer.headers["x-request-id"] = request_id()

    pages = FastAPI(
        title="Thriftgate", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    obstacle = _route_check(reloader, context.route_health, ticks)
    pages.include_router(health_router(*states, telemetry.prometheus_text))
    pages.include_router(
        models.router(
            lambda: reloader.snapshot.catalog,
            authenticate,
            lambda model: not all(map(obstacle, model.routes)),
        ),
        dependencies=[Depends(name_request)],
    )
    pages.include_router(receipts.router(receipts_reader, authenticate))
    add_error_handlers(pages, request_id)
    async with _admin(context, limits, reloader, states, ticks) as add:
        add(pages, partial(add_error_handlers, request_id=request_id))
        looking = context.tasks.keep(policies.run)
        yield pages
        context.tasks.end(looking)


def key_authentication(context: AppContext) -> Authenticate:
    """Finds the key that came with a request; raises CallerError for none that opens anything."""

    async def authenticate(request: Request) -> Key:
        token, keyring = request_token(request.scope), context.opened.keyring
        key = (keyring.find(token) or await keyring.fetch(token)) if token else None
        if key is None or key.revoked:
            raise unauthenticated_error(token)
        if key.has_expired(context.now()):
            raise expired_error(key)
        return key

    return authenticate


def _route_check(
    reloader: Reloader, registry: RouteHealthRegistry, ticks: Callable[[], float]
) -> Callable[[Route], str]:
    """The reason that a route cannot answer now; "" for none."""

    def obstacle(route: Route) -> str:
        if route.is_disabled:
            return "disabled"
        if route.upstream.name not in reloader.snapshot.upstreams_with_keys:
            return NO_KEY
        if not registry.is_failing(route, ticks()):
            return ""
        seconds = registry.health_of(route).breaker.seconds_until_admission(ticks())
        return f"fails: breaker open, tried again in {seconds:.0f} s"

    return obstacle


AddErrorHandlers = Callable[[FastAPI], None]
"""Has all errors of an app answered in the error envelope."""


@asynccontextmanager
async def _admin(
    context: AppContext,
    limits: tuple[AdmissionGate | None, ObjectiveRouter | None],
    reloader: Reloader,
    readiness: tuple[Callable[[], Sequence[str]], Callable[[], Sequence[str]]],
    ticks: Callable[[], float],
) -> AsyncIterator[Callable[[FastAPI, AddErrorHandlers], None]]:
    """Opens what the pages below /admin and their API need."""
    gate, router = limits
    async with _budget_store(context, gate) as store, open_access(context, ticks) as opened_access:
        budgets = context.policies.budgets
        board = LiveBoard(context.opened, budgets, router=router, counters=store, now=context.now)
        if gate is not None:
            board.show_ceilings(gate.ceilings.decision_counts)

        async def prepare(snapshot: Snapshot) -> Callable[[], None]:
            return lambda: board.update(snapshot.policies.budgets)

        context.follow(prepare)
        access, sign_in_routes = opened_access
        ask = StoreQuestions(context.opened)
        operations = _operations(context, (board, ask), reloader, readiness, ticks)
        ledger = LedgerResources.of(
            context.opened,
            (ask, context.tasks),
            lambda: reloader.snapshot.catalog,
            lambda: reloader.snapshot.policies.objectives,
            context.now,
        )
        _show_settings(ledger, operations.budgets, reloader, context.settings)
        people = AccessResources.of(
            context.opened, ask, access, operations.stored_budgets, context.now
        )

        def add(app: FastAPI, handlers: AddErrorHandlers) -> None:
            for routes in (*sign_in_routes, *_own_usage(context, access, store, reloader, ticks)):
                app.include_router(routes)
            _show_fast_path(ledger.fast_path, app)
            add_admin_pages(app, access, (board, operations, ledger, people), context.now)
            routers = (*operations.routers(), *ledger.routers(), *people.routers())
            app.mount(API_PATH, api_app(access.viewer, routers, handlers))

        try:
            yield add
        finally:
            ledger.reports.stop()


def _own_usage(
    context: AppContext,
    access: PageAccess,
    counters: BudgetStore | None,
    reloader: Reloader,
    ticks: Callable[[], float],
) -> list[APIRouter]:
    """The routes of the page of a key's own usage, and of its twin for programs."""
    now, authenticate = context.now, key_authentication(context)
    limits = KeyLimitReader(lambda: reloader.snapshot.policies.budgets, counters, now)
    ask = StoreQuestions(context.opened)
    return own_usage_routers(
        context.opened, ask, access.viewer, authenticate, limits.read, (now, ticks)
    )


def _operations(
    context: AppContext,
    sources: tuple[LiveBoard, StoreQuestions],
    reloader: Reloader,
    readiness: tuple[Callable[[], Sequence[str]], Callable[[], Sequence[str]]],
    ticks: Callable[[], float],
) -> Operations:
    """The resources of objectives, budgets, features, models and settings."""
    (board, ask), opened, now = sources, context.opened, context.now

    obstacle = _route_check(reloader, context.route_health, ticks)

    async def record(change: AuditedChange) -> None:
        await opened.ask(opened.audit.append, change, now())

    objectives = ObjectivesResource(board, opened, ask, now)
    return Operations(
        objectives=objectives,
        events=EventsResource(opened, ask, objectives, now),
        budgets=BudgetsResource(board, opened, ask, now),
        stored_budgets=StoredBudgetsResource(opened, ask, reloader, context.settings, now),
        scheduled_reports=ReportDeliveriesResource(opened, ask, reloader, context.settings, now),
        report_sending=ReportSending(opened, reloader, context.settings, record, now),
        alert_sinks=AlertSinksResource(reloader, record, now),
        alerts=AlertsResource(board, opened, ask, lambda: reloader.snapshot.policies, now),
        features=FeaturesResource(
            opened, ask, context.settings.compaction, now, context.settings.learning_stake_nanos
        ),
        fast_path_switches=FastPathSwitchesResource(opened, reloader, now),
        disabled_routes=DisabledRoutesResource(opened, ask, reloader, now),
        policies=StoredPoliciesResource(opened, ask, reloader, context.settings, now),
        models=ModelsResource(
            lambda: reloader.snapshot.catalog, obstacle, context.settings.folder, now
        ),
        configuration=ConfigurationResource(
            context.settings, reloader, readiness, record, ask, now
        ),
    )


def _show_settings(
    ledger: LedgerResources, budgets: BudgetsResource, reloader: Reloader, settings: Settings
) -> None:
    """Has resources of the ledger read the settings and rules in force."""
    ledger.cache.max_loss_nanos = settings.learning_stake_nanos
    ledger.fast_path.rules = lambda: FastPathRules.of(
        reloader.snapshot.policies, reloader.snapshot.upstreams_with_keys
    )
    ledger.savings.sources = StepSources(
        rules=ledger.fast_path.rules,
        compaction=settings.compaction,
        budgets=budgets.visible_counters,
    )


def _show_fast_path(resource: FastPathResource, app: FastAPI) -> None:
    """Has the resource read the parts of the fast path that ``app.state`` names."""
    resource.small_first = lambda: getattr(app.state, "small_first", None)
    resource.similar = lambda: getattr(app.state, "similar_answers", None)


def add_admin_pages(
    app: FastAPI,
    access: PageAccess,
    shown: tuple[AdminBoard, Operations, LedgerResources, AccessResources],
    now: Callable[[], float],
) -> None:
    """Adds the HTML pages below /admin to an app."""
    board, operations, ledger, people = shown
    site = Site(access.viewer, now)
    app.include_router(static_router())
    for part in (
        CostPages(site, ledger, operations),
        CallPages(site, ledger.calls, ledger.cache, operations.events),
        OperationPages(site, operations, board, ledger.savings),
        BudgetPages(site, operations, people.teams, ledger.calls),
        PolicyPages(site, operations.policies),
        PeoplePages(site, people),
        ReplayPages(site, ReplayProcess().replay),
    ):
        app.include_router(part.router())
    add_sign_in_redirect(app)


@asynccontextmanager
async def _budget_store(
    context: AppContext, gate: AdmissionGate | None
) -> AsyncIterator[BudgetStore | None]:
    """The counters that the pages read: Redis over an own connection, or the process's."""
    if context.settings.policies is None or not context.settings.redis_url:
        yield None if gate is None else gate.budgets.counters
        return
    own = open_budget_store(context.settings, context.opened)
    try:
        yield own
    finally:
        await own.aclose()


def add_error_handlers(pages: FastAPI, request_id: Callable[[], str]) -> None:
    """Answers all errors of these pages in the same envelope as those of calls."""

    async def answer_proxy_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProxyError)  # noqa: S101 - registered for no other
        return error_response(request.scope, error, request_id())

    async def answer_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for no other
        answer = error_response(request.scope, _not_found_error(request, error), request_id())
        answer.status_code = error.status_code
        for name, value in (error.headers or {}).items():
            answer.headers[name] = value
        return answer

    async def answer_bad_query(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for no other
        return error_response(request.scope, invalid_query_error(error), request_id())

    async def answer_bug(request: Request, _error: Exception) -> Response:
        failed = request_id()
        _log.error("Bug in the gateway on %s, page %s; traceback follows", failed, request.url.path)
        return error_response(request.scope, internal_error(failed), failed)

    pages.add_exception_handler(ProxyError, answer_proxy_error)
    pages.add_exception_handler(HTTPException, answer_http_error)
    pages.add_exception_handler(RequestValidationError, answer_bad_query)
    pages.add_exception_handler(Exception, answer_bug)  # It is raised again, and so logged.


def _not_found_error(request: Request, error: HTTPException) -> CallerError:
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        message, code = "This path takes other methods; see `allow`.", "method_not_allowed"
    else:
        message, code = "There is nothing at this path. Calls go to /v1/….", "not_found"
    message = _AT_ROOT if request.url.path == "/" else message
    return CallerError(message, code=code, status=404)
