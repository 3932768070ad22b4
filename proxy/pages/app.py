"""All that is not a call, as one app: health, models, receipts, and the pages below /admin."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from fastapi import APIRouter, Depends, FastAPI, Request, Response

from proxy.api.request import request_token, unauthenticated_error
from proxy.api.starting import OFFLINE
from proxy.app_context import AppContext
from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.entries import Model
from proxy.configuration import Snapshot
from proxy.pages import admin, health, models, receipts
from proxy.pages.answers import add_error_handlers
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


@asynccontextmanager
async def pages_app(
    context: AppContext,
    kept: ReceiptReader,
    telemetry: Telemetry,
    limits: tuple[AdmissionGate | None, ObjectiveRouter | None],
    reloader: Reloader,
    ticks: Callable[[], float],
) -> AsyncIterator[FastAPI]:
    """The app.

    Args:
        context: What it stands in.
        kept: Where receipts are found.
        telemetry: What Prometheus reads.
        limits: What knows where budgets are counted, and what where objectives stand; None each
            where no policies are named.
        reloader: Has the catalog in force, and knows what was wrong with the files last.
        ticks: Seconds of a clock that goes forward.
    """
    opened, make = context.opened, call_ids()

    async def authenticate(request: Request) -> Key:
        return await _authenticated_key(opened, request)

    troubles, notes = _readiness(context, reloader)

    def request_id() -> str:
        return make(context.now())

    async def name_request(answer: Response) -> None:
        answer.headers["x-request-id"] = request_id()

    pages = FastAPI(
        title="Thriftgate", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    can_answer = partial(_can_answer, reloader, context.route_health, ticks)
    pages.include_router(health.router(troubles, notes, telemetry.prometheus_text))
    pages.include_router(
        models.router(lambda: reloader.snapshot.catalog, authenticate, can_answer),
        dependencies=[Depends(name_request)],
    )
    pages.include_router(receipts.router(kept, authenticate))
    async with _admin_router(context, *limits, ticks) as admins:
        pages.include_router(admins)
        add_error_handlers(pages, request_id)
        yield pages


def _readiness(
    context: AppContext, reloader: Reloader
) -> tuple[Callable[[], Sequence[str]], Callable[[], Sequence[str]]]:
    """Why no calls can be taken, and what an operator should know though they can be.

    Where known keys are served without the database, only the journal is needed for calls.
    """
    opened, serves_known = context.opened, bool(context.settings.known_keys_max_age_s)

    def troubles() -> Sequence[str]:
        journal = opened.journal.trouble
        return ([journal] if journal else []) if serves_known else opened.trouble()

    def notes() -> Sequence[str]:
        said = list(reloader.notes())
        if opened.is_offline:
            said.append(f"degraded: {OFFLINE}")
        elif serves_known:
            ready = troubles()
            said += [f"degraded: {each}" for each in opened.trouble() if each not in ready]
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


async def _authenticated_key(opened: Store, request: Request) -> Key:
    """The key that came with a request.

    Raises:
        Unauthenticated: If none did, or one that opens nothing.
    """
    given = request_token(request.scope)
    if not given:
        raise unauthenticated_error(is_missing=True)
    key = opened.keyring.find(given) or await opened.keyring.look(given)
    if key is None or key.revoked:
        raise unauthenticated_error(is_missing=False)
    return key


@asynccontextmanager
async def _admin_router(
    context: AppContext,
    entry: AdmissionGate | None,
    router: ObjectiveRouter | None,
    ticks: Callable[[], float],
) -> AsyncIterator[APIRouter]:
    """The pages below /admin; closed where there is no token."""
    secret = context.settings.admin_token.get_secret_value()
    if not secret:
        yield admin.disabled_router()
        return
    async with _budget_store(context, entry) as store:
        budgets = context.promises.budgets
        board = LiveBoard(context.opened, budgets, router=router, counters=store, now=context.now)

        async def prepare(snapshot: Snapshot) -> Callable[[], None]:
            return lambda: board.update(snapshot.policies.budgets)

        context.follow(prepare)
        yield admin.router(board, secret, ticks, context.now)


@asynccontextmanager
async def _budget_store(
    context: AppContext, entry: AdmissionGate | None
) -> AsyncIterator[BudgetStore | None]:
    """Where the pages ask for budgets: Redis by a connection of their own, or the process's."""
    if context.settings.policies is None or not context.settings.redis_url:
        yield None if entry is None else entry.counters
        return
    own = open_budget_store(context.settings, context.opened)
    try:
        yield own
    finally:
        await own.aclose()
