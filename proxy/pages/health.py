"""Health for probes and Prometheus: liveness, readiness, and the state of the ledger."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.api.connections.starting import OFFLINE
from proxy.app_context import AppContext
from proxy.configuration import Snapshot
from proxy.pages.policy_warnings import Accounts, accounts_of, policy_warnings
from proxy.reloading import Reloader
from proxy.store.errors import StoreError
from proxy.store.store import Store

_log = logging.getLogger("thriftgate")

#: Seconds between two looks at the policies and teams there are.
_POLICIES_INTERVAL_S: Final = 15.0
_NO_UPSTREAM: Final = (
    "No upstream has the key it needs, so no call can be answered yet: `thriftgate check` names"
    " the variables to set"
)


class LedgerMetrics(Collector):
    """Tells Prometheus whether the database takes receipts and tells of changes."""

    def __init__(self, opened: Store) -> None:
        self._opened = opened

    def collect(self) -> Iterator[Metric]:
        """If the database answers, and what was removed of the journal."""
        journal = self._opened.journal.trouble
        is_up = not self._opened.is_offline and set(self._opened.trouble()) <= {journal}
        description = "1 while receipts reach the database and changes are noticed there"
        yield GaugeMetricFamily("thriftgate_ledger_up", description, value=int(is_up))
        removed = self._opened.journal.removed
        yield CounterMetricFamily(
            "thriftgate_journal_files_removed",
            "Files of the journal that were removed or truncated while it used them",
            value=removed.count,
        )
        yield CounterMetricFamily(
            "thriftgate_journal_receipts_lost",
            "Receipts that were lost with truncated files of the journal",
            value=removed.lost,
        )


class PolicyNotes:
    """Notes for the operator of a running gateway, each logged once."""

    def __init__(self, opened: Store, reloader: Reloader, now: Callable[[], float]) -> None:
        self._opened = opened
        self._reloader = reloader
        self._now = now
        self._notes: Sequence[str] = ()

    def notes(self) -> Sequence[str]:
        """The faults alone: what may fix one names other teams, and ``/readyz`` is for anybody."""
        return [note.partition(";")[0] for note in self._notes]

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(_POLICIES_INTERVAL_S)

    async def refresh(self) -> None:
        """Look at the policies in force and the teams there are, and log what is new."""
        snapshot = self._reloader.snapshot
        accounts = await self._accounts(snapshot)
        notes = policy_warnings(snapshot.policies, snapshot.catalog, accounts, now=self._now())
        for note in notes:
            if note not in self._notes:
                _log.warning("%s", note)
        self._notes = notes

    async def _accounts(self, snapshot: Snapshot) -> Accounts | None:
        """All teams and keys; None where no policy names one, or the database is away."""
        has_teams = self._reloader.settings.policies is not None or snapshot.catalog.team_aliases
        if not has_teams or self._opened.is_offline:
            return None
        try:
            return await self._opened.ask(accounts_of, self._opened.teams)
        except StoreError:
            return None


def readiness(
    context: AppContext, reloader: Reloader, policies: PolicyNotes
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
        notes = [*reloader.notes(), *policies.notes()]
        if not reloader.snapshot.upstreams_with_keys:
            notes.append(_NO_UPSTREAM)
        if (removed := opened.journal.removed.notice) is not None:
            notes.append(removed)
        if opened.is_offline:
            notes.append(f"degraded: {OFFLINE}")
        else:
            journal = troubles()
            notes += [
                f"degraded: {trouble}" for trouble in opened.trouble() if trouble not in journal
            ]
        return notes

    return troubles, notes


def health_router(
    troubles: Callable[[], Sequence[str]],
    notes: Callable[[], Sequence[str]],
    metrics: Callable[[], bytes],
) -> APIRouter:
    """The routes for probes and Prometheus; they need no key and tell no secrets.

    Args:
        troubles: Returns the reasons that no calls can be taken.
        notes: Returns notes for the operator, though calls can be taken.
    """
    routes = APIRouter()

    @routes.head("/")
    async def reachable() -> Response:
        """Says that something answers here, which Claude Code asks before its first call."""
        return Response(status_code=200)

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Says that the process answers."""
        return {"status": "ok"}

    @routes.get("/readyz")
    async def readyz() -> JSONResponse:
        """Says whether calls can be taken, with notes; 503 with what is not ready."""
        troubles_now = list(troubles())
        content = {"status": "not ready" if troubles_now else "ready", "troubles": troubles_now}
        if notes_now := list(notes()):
            content["notes"] = notes_now
        return JSONResponse(content, status_code=503 if troubles_now else 200)

    @routes.get("/metrics")
    async def metrics_page() -> Response:
        """Prometheus text."""
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes
