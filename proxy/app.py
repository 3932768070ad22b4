"""The composition root: builds the app from settings; owns clock, tasks and lifespan.

Everything is built here and handed down as arguments; leaving the context closes it in reverse.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_bytes
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from proxy.api.connections.body_limits import BodyMemoryLimit
from proxy.api.cors import with_cors
from proxy.api.endpoint import Endpoint, EndpointDependencies
from proxy.app_context import AppContext
from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.metering.usage_estimates import UsageEstimates
from proxy.calls.ports import Dependencies
from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.catalog import Catalog
from proxy.configuration import Prepare, Snapshot, read_snapshot
from proxy.pages.app import key_authentication, pages_app
from proxy.pages.receipts import ending_router
from proxy.pages.resources.callers.answers import answers_router
from proxy.pages.resources.callers.contexts import contexts_router
from proxy.pages.resources.callers.feedback import feedback_router
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.mark_account import STAKE_UNITS_PER_DOLLAR
from proxy.records.receipt import Receipt
from proxy.reloading import Overlays, Reloader
from proxy.services.alerts.setup import running_alerts, sinks_of_policies
from proxy.services.background import BackgroundTasks
from proxy.services.budgets.admission_gate import AdmissionGate
from proxy.services.budgets.setup import running_budgets, stored_budget_overlay
from proxy.services.catalog_overlay import CatalogOverlay, DisabledRoutesOverlay
from proxy.services.compaction.compactor import build_compactor
from proxy.services.engines.replica_routing import ReplicaRouting
from proxy.services.engines.setup import running_engines
from proxy.services.fast_path.setup import FastPath, running_fast_path, switch_overlay
from proxy.services.objectives.route_alerts import watch_routes
from proxy.services.objectives.router import ObjectiveRouter
from proxy.services.objectives.setup import running_objectives
from proxy.services.planning.planning import PromptPlanning
from proxy.services.planning.upkeep import begin_upkeep, suspend_harmful_features
from proxy.services.policy_overlay import stored_policy_overlay
from proxy.services.receipt_storage import ReceiptDispatcher, capacity_trouble, close_store
from proxy.services.reports.report_delivery import running_reports
from proxy.services.telemetry.engine_metrics import count_replica_costs
from proxy.services.telemetry.telemetry import Telemetry
from proxy.services.telemetry.tracing_setup import running_tracing
from proxy.settings import Settings, upstream_keys
from proxy.store.sql.ids import call_ids
from proxy.store.store import Store, open_store
from proxy.upstream.http import HttpTransport, open_transport
from proxy.upstream.port import Transport
from slo.policies.file import Policies
from slo.steady_clock import SteadyClock


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway: the app that answers, and what the command line needs of it.

    Attributes:
        catalog: Catalog at start.
        reload: Has the catalog and the policies read again soon.
    """

    app: ASGIApp
    store: Store
    catalog: Catalog
    reload: Callable[[], None]


@asynccontextmanager
async def gateway(
    settings: Settings,
    opened: Store | None = None,
    clock: Callable[[], float] | None = None,
    ticks: Callable[[], float] = time.perf_counter,
) -> AsyncIterator[Gateway]:
    """A gateway that is ready for calls; leaving waits for its background tasks.

    The store is closed with it, also one that was opened before. ``clock`` says the seconds since
    the epoch, ``ticks`` those of a clock that goes forward, by which calls are timed.
    """
    steady = SteadyClock(time.time, ticks)  # noqa: TID251 - the one clock
    clock = clock or steady
    snapshot = read_snapshot(settings)
    opened = opened or open_store(settings)
    reloader = Reloader(settings, snapshot, clock, _overlays(settings, opened, clock))
    catalog, policies = reloader.snapshot.catalog, reloader.snapshot.policies
    telemetry = Telemetry(log_calls=settings.log_calls, team_name=opened.keyring.team_name)
    estimates = UsageEstimates()
    estimates.load_vocabularies()
    try:
        async with _transport(settings, catalog) as pool, asyncio.TaskGroup() as group:
            tasks = BackgroundTasks(group)
            upkeep = begin_upkeep(tasks, opened, reloader, clock)
            url = settings.public_url
            async with running_alerts(policies, opened, tasks, clock, url) as alerts:
                telemetry.register(reloader, alerts)
                reloader.follow(sinks_of_policies(alerts, opened, tasks, clock, url))
                context = AppContext(
                    settings=settings,
                    policies=policies,
                    catalog=catalog,
                    engines=reloader.snapshot.engines,
                    opened=opened,
                    estimator=estimates,
                    tasks=tasks,
                    now=clock,
                    compare_clock=steady.compare,
                    publish=telemetry.register,
                    alert=alerts.enqueue,
                    follow=reloader.follow,
                )
                async with _endpoint(context, pool, telemetry, reloader, ticks) as front:
                    yield Gateway(
                        with_cors(front, settings.cors_origins), opened, catalog, reloader.request
                    )
            tasks.end(*upkeep)
    finally:
        estimates.close()
        close_store(opened, settings.drain_grace)


def _overlays(settings: Settings, opened: Store, clock: Callable[[], float]) -> Overlays:
    """The overlays of what people set on pages over the policies file."""
    return Overlays(
        (
            stored_budget_overlay(settings, opened),
            CatalogOverlay(opened.policies),
            stored_policy_overlay(settings, opened),
            switch_overlay(settings, opened),
            DisabledRoutesOverlay(opened.policies, clock),
        )
    )


@asynccontextmanager
async def _endpoint(
    context: AppContext,
    pool: HttpTransport,
    telemetry: Telemetry,
    reloader: Reloader,
    ticks: Callable[[], float],
) -> AsyncIterator[Endpoint]:
    """The app that answers; it follows the catalog and the policies as their files change."""
    count_replica_costs(context, ticks)
    async with (
        _dependencies(context, pool, telemetry, ticks) as (
            deps,
            dispatcher,
            limits,
            update_own_calls,
        ),
        pages_app(context, dispatcher, telemetry, limits, reloader, ticks) as pages,
        running_reports(context),
        running_fast_path(context, pool, dispatcher.listen, ticks) as fast_path,
    ):
        _include_fast_path(pages, fast_path, context)
        call_deps = fast_path.join(deps)
        fast_path.use(call_deps)
        admission = _endpoint_dependencies(context.settings, context.opened, context.now, ticks)
        pages.include_router(ending_router(admission.under_way, key_authentication(context)))
        front = Endpoint(pages, call_deps, admission)
        servers = front.update, update_own_calls, fast_path.use
        reloader.follow(_catalog_follower(call_deps, pool, servers))
        reloading = context.tasks.keep(reloader.run)
        yield front
        context.tasks.end(reloading)


def _include_fast_path(pages: FastAPI, fast_path: FastPath, context: AppContext) -> None:
    """Add the paths by which callers use the fast path themselves."""
    authenticate = key_authentication(context)
    texts = contexts_router(context.opened, fast_path.contexts, authenticate, context.now)
    pages.include_router(texts)
    pages.state.small_first = fast_path.small_first
    pages.state.similar_answers = fast_path.similar
    if fast_path.small_first is not None:
        pages.include_router(feedback_router(fast_path.small_first, authenticate))
    if fast_path.answers is not None:
        pages.include_router(answers_router(fast_path.answers.purge, authenticate))


_Policies = tuple[AdmissionGate | None, ObjectiveRouter | None]
_Built = tuple[Dependencies, ReceiptDispatcher, _Policies, Callable[[Dependencies], None]]


@asynccontextmanager
async def _dependencies(
    context: AppContext, pool: Transport, telemetry: Telemetry, ticks: Callable[[], float]
) -> AsyncIterator[_Built]:
    """Dependencies of calls, the receipts, the gate and the router, and what takes later ones."""
    async with (
        running_budgets(context) as entry,
        running_objectives(context) as router,
        AsyncExitStack() as stack,
    ):
        guard = partial(suspend_harmful_features, context.opened, context.now, context.alert)
        stack.callback(context.tasks.end, watch_routes(context, ticks), context.tasks.keep(guard))
        stack.enter_context(closing(compactor := build_compactor(context)))
        stack.callback(context.tasks.end, context.tasks.keep(compactor.share_balances))
        tracing = await stack.enter_async_context(running_tracing(context))
        replicas = await stack.enter_async_context(running_engines(context, pool, ticks))
        readers: tuple[Callable[[Receipt], None] | None, ...] = (
            None if entry is None else entry.settle,
            None if router is None else router.record_receipt,
            None if tracing is None else tracing.observe,
            None if replicas is None else replicas.gains.observe,
            compactor.record_outcome,
            None if router is None else partial(_count_for_hedges, context.route_health, ticks),
        )
        dispatcher = ReceiptDispatcher(context.opened, telemetry, list(filter(None, readers)))
        stack.enter_context(closing(planning := _planning(context)))
        await stack.enter_async_context(planning.mark_accounts.running(context.tasks))
        deps = Dependencies(
            catalog=context.catalog,
            transport=pool,
            ledger=dispatcher,
            estimator=context.estimator,
            planning=planning,
            pseudonymizer=Pseudonymizer(context.opened.secret),
            retry_policy=_retry_policy(context.settings),
            tasks=context.tasks,
            limits=entry,
            router=router,
            latency_target=None if router is None else router.latency_target,
            compaction=compactor,
            route_health=context.route_health,
            replica_costs=context.replica_costs,
            replicas=replicas,
            tracing=tracing,
            sent=context.opened.sent,
            **_call_policies(context.policies),
        )
        (warm_with := partial(_serve_own_calls, replicas))(deps)
        yield deps, dispatcher, (entry, router), warm_with


def _serve_own_calls(replicas: ReplicaRouting | None, deps: Dependencies) -> None:
    """Use these dependencies for warming from now on."""
    if replicas is not None:
        replicas.use(deps)


def _call_policies(policies: Policies) -> dict[str, Any]:
    """The policies that answering a call reads, by their names in its dependencies."""
    names = ("residency", "stream_continuation", "drafts", "tags")
    return {name: getattr(policies, name) for name in names}


def _catalog_follower(
    deps: Dependencies, pool: HttpTransport, servers: Sequence[Callable[[Dependencies], None]]
) -> Prepare:
    """A preparer that has new calls answered by a snapshot's catalog."""

    async def prepare(snapshot: Snapshot) -> Callable[[], None]:
        keys = _keys(snapshot.catalog)

        def commit() -> None:
            pool.add_keys(keys)
            for serve in servers:
                policies = _call_policies(snapshot.policies)
                serve(replace(deps, catalog=snapshot.catalog, **policies))

        return commit

    return prepare


def _count_for_hedges(
    registry: RouteHealthRegistry, ticks: Callable[[], float], receipt: Receipt
) -> None:
    """Count a call's cost towards the budgets of second attempts."""
    if receipt.final:
        registry.record_call(receipt.cost_nanos, ticks())


def _keys(catalog: Catalog) -> dict[str, str]:
    return upstream_keys(upstream.key_env for upstream in catalog.upstreams.values())


def _transport(settings: Settings, catalog: Catalog) -> AbstractAsyncContextManager[HttpTransport]:
    return open_transport(
        _keys(catalog), connections=settings.connections, connect_timeout=settings.connect_timeout
    )


def _planning(context: AppContext) -> PromptPlanning:
    settings, store = context.settings, context.opened
    stake = settings.learning_stake * STAKE_UNITS_PER_DOLLAR
    share, process = settings.control_share, token_bytes(16)
    memory = settings.planning_memory_mb * 2**20 * 3 // 4  # layouts learned take the last quarter
    planner = Planner(store.secret, share=share, stake=stake, process=process, max_bytes=memory)
    return PromptPlanning(planner, store, context.tasks, now=context.now, say=context.alert)


def _retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(
        first_byte_s=settings.first_byte_timeout,
        stall_s=settings.stall_timeout,
        retries=settings.retries,
        max_pause_s=settings.retry_wait,
    )


def _endpoint_dependencies(
    settings: Settings, opened: Store, clock: Callable[[], float], ticks: Callable[[], float]
) -> EndpointDependencies:
    return EndpointDependencies(
        keys=opened.keyring,
        capacity_trouble=partial(capacity_trouble, opened),
        now=clock,
        ticks=ticks,
        call_id=call_ids(),
        body_memory=BodyMemoryLimit(
            per_body=settings.body_limit, all_together=settings.bodies_limit
        ),
        max_calls=settings.max_calls,
        shared_state=settings.shared_provider_state,
    )
