"""All that is not a call, as one app: health, models, receipts, and the pages below /admin."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.exceptions import HTTPException

from proxy.api.passthrough import error_headers, internal_error
from proxy.api.refused_keys import unauthenticated_error
from proxy.api.request import request_token
from proxy.api.starting import OFFLINE
from proxy.app_context import AppContext
from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.entries import Model
from proxy.configuration import Snapshot
from proxy.errors import CallerError, ProxyError, envelope
from proxy.pages import admin, models, receipts
from proxy.pages.board_data import LiveBoard
from proxy.pages.receipts import ReceiptReader
from proxy.records.call import Key
from proxy.reloading import Reloader
from proxy.services.budgets.admission_gate import AdmissionGate
from proxy.services.budgets.counters import open_budget_store
from proxy.services.objectives.router import ObjectiveRouter
from proxy.services.telemetry.telemetry import Telemetry
from proxy.store.redis.local_budget_store import BudgetStore
from proxy.store.sql.ids import call_ids
from proxy.store.store import Store

_log = logging.getLogger("thriftgate.pages")


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
        context: Shared state and settings of the gateway.
        receipts_reader: Finds receipts.
        telemetry: Metrics for Prometheus.
        limits: The gate of budgets and the router of objectives; None each
            where no policies are named.
        reloader: Has the catalog in force, and knows what was wrong with the files last.
        ticks: Seconds of a clock that goes forward.
    """
    opened, make = context.opened, call_ids()

    async def authenticate(request: Request) -> Key:
        return await _authenticated_key(opened, request)

    troubles, notes = _readiness(context, reloader)
    telemetry.register(LedgerMetrics(opened))

    def request_id() -> str:
        return make(context.now())

    async def name_request(answer: Response) -> None:
        answer.headers["x-request-id"] = request_id()

    pages = FastAPI(
        title="Thriftgate", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    can_answer = partial(_can_answer, reloader, context.route_health, ticks)
    pages.include_router(health_router(troubles, notes, telemetry.prometheus_text))
    pages.include_router(
        models.router(lambda: reloader.snapshot.catalog, authenticate, can_answer),
        dependencies=[Depends(name_request)],
    )
    pages.include_router(receipts.router(receipts_reader, authenticate))
    async with _admin_router(context, *limits, ticks) as admins:
        pages.include_router(admins)
        add_error_handlers(pages, request_id)
        yield pages


class LedgerMetrics(Collector):
    """Tells Prometheus whether the database takes receipts and tells of changes."""

    def __init__(self, opened: Store) -> None:
        self._opened = opened

    def collect(self) -> Iterator[Metric]:
        """One gauge: 0 while the database is away or does not answer."""
        journal = self._opened.journal.trouble
        is_up = not self._opened.is_offline and set(self._opened.trouble()) <= {journal}
        said = "1 while receipts reach the database and changes are noticed there"
        yield GaugeMetricFamily("thriftgate_ledger_up", said, value=int(is_up))


def _readiness(
    context: AppContext, reloader: Reloader
) -> tuple[Callable[[], Sequence[str]], Callable[[], Sequence[str]]]:
    """Functions that say why no calls can be taken, and notes for operators.

    Calls need the journal alone. A database that is away is away for every gateway: were they
    unready for it, nobody would get the calls that all of them can answer.
    """
    opened = context.opened

    def troubles() -> Sequence[str]:
        journal = opened.journal.trouble
        return [journal] if journal else []

    def notes() -> Sequence[str]:
        said = list(reloader.notes())
        if opened.is_offline:
            said.append(f"degraded: {OFFLINE}")
        else:
            journal = troubles()
            said += [f"degraded: {each}" for each in opened.trouble() if each not in journal]
        return said

    return troubles, notes


def _can_answer(
    reloader: Reloader, registry: RouteHealthRegistry, ticks: Callable[[], float], model: Model
) -> bool:
    """True if one of the model's routes has the key it needs and is not failing now."""
    now, keyed = ticks(), reloader.snapshot.upstreams_with_keys
    return any(
        route.upstream.name in keyed and not registry.is_failing(route, now)
        for route in model.routes
    )


async def _authenticated_key(store: Store, request: Request) -> Key:
    """The key that came with a request.

    Raises:
        CallerError: If none did, or one that opens nothing.
    """
    given = request_token(request.scope)
    if not given:
        raise unauthenticated_error(is_missing=True)
    key = store.keyring.find(given) or await store.keyring.fetch(given)
    if key is None or key.revoked:
        raise unauthenticated_error(is_missing=False)
    return key


@asynccontextmanager
async def _admin_router(
    context: AppContext,
    gate: AdmissionGate | None,
    router: ObjectiveRouter | None,
    ticks: Callable[[], float],
) -> AsyncIterator[APIRouter]:
    """The pages below /admin; closed where there is no token."""
    secret = context.settings.admin_token.get_secret_value()
    if not secret:
        yield admin.disabled_router()
        return
    async with _budget_store(context, gate) as store:
        budgets = context.promises.budgets
        board = LiveBoard(context.opened, budgets, router=router, counters=store, now=context.now)

        async def prepare(snapshot: Snapshot) -> Callable[[], None]:
            return lambda: board.update(snapshot.policies.budgets)

        context.follow(prepare)
        yield admin.router(board, secret, ticks, context.now)


@asynccontextmanager
async def _budget_store(
    context: AppContext, gate: AdmissionGate | None
) -> AsyncIterator[BudgetStore | None]:
    """The counters that the pages read: Redis over an own connection, or the process's."""
    if context.settings.policies is None or not context.settings.redis_url:
        yield None if gate is None else gate.counters
        return
    own = open_budget_store(context.settings, context.opened)
    try:
        yield own
    finally:
        await own.aclose()


def health_router(
    troubles: Callable[[], Sequence[str]],
    notes: Callable[[], Sequence[str]],
    metrics: Callable[[], bytes],
) -> APIRouter:
    """The routes for probes and Prometheus; they need no key and tell no secrets.

    Args:
        troubles: Returns the reasons that no calls can be taken.
        notes: Returns notes for the operator, though calls can be taken.
        metrics: Prometheus text.
    """
    routes = APIRouter()

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Says that the process answers."""
        return {"status": "ok"}

    @routes.get("/readyz")
    async def readyz() -> JSONResponse:
        """Says whether calls can be taken, with notes; 503 with what is not ready."""
        found = list(troubles())
        content = {"status": "not ready" if found else "ready", "troubles": found}
        if said := list(notes()):
            content["notes"] = said
        return JSONResponse(content, status_code=503 if found else 200)

    @routes.get("/metrics")
    async def metrics_page() -> Response:
        """Prometheus text."""
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes


def add_error_handlers(pages: FastAPI, request_id: Callable[[], str]) -> None:
    """Answers all errors of these pages in the same envelope as those of calls.

    Args:
        pages: The app.
        request_id: Makes the id of a request whose answer is an error.
    """

    async def answer_proxy_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ProxyError)  # noqa: S101 - registered for no other
        return _error_response(error, request_id())

    async def answer_http_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for no other
        answer = _error_response(_not_found_error(error), request_id())
        answer.status_code = error.status_code
        for name, value in (error.headers or {}).items():
            answer.headers[name] = value
        return answer

    async def answer_bug(request: Request, _error: Exception) -> Response:
        failed = request_id()
        _log.error("Bug in the gateway on %s, page %s; traceback follows", failed, request.url.path)
        return _error_response(internal_error(failed), failed)

    pages.add_exception_handler(ProxyError, answer_proxy_error)
    pages.add_exception_handler(HTTPException, answer_http_error)
    pages.add_exception_handler(Exception, answer_bug)  # It is raised again, and so logged.


def _not_found_error(error: HTTPException) -> CallerError:
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return CallerError(
            "This path takes other methods; see `allow`.", code="method_not_allowed", status=404
        )
    return CallerError(
        "There is nothing at this path. Calls go to /v1/….", code="not_found", status=404
    )


def _error_response(error: ProxyError, request_id: str) -> Response:
    body = envelope(error)
    answer = Response(body, status_code=error.status)
    answer.raw_headers = error_headers(error, request_id.encode(), len(body))
    return answer
