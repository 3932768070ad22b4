# ruff: noqa: T201 - a script prints
"""Answer times of the dashboard's resources over what ten million calls leave in the tables.

Usage: python -m tests.bench.dashboard_queries [--url postgresql://…] [--rounds 12] [--keep FILE]

SQLite in a temporary folder if no URL is given. A database without teams is filled first. Each
question is asked in several time zones and of one team, too; the p95 of each should be below
300 ms. The database's files are cached by the operating system, as those of a gateway are.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from dashboards.access import Role, Viewer
from proxy.configuration import read_catalog
from proxy.pages.resources.ledger.cache_health import CacheQuery
from proxy.pages.resources.ledger.calls import CallsQuery
from proxy.pages.resources.ledger.costs import CostsQuery
from proxy.pages.resources.ledger.latency import LatencyQuery
from proxy.pages.resources.ledger.ledger_resources import LedgerResources
from proxy.pages.resources.ledger.savings import SavingsQuery
from proxy.pages.store_questions import StoreQuestions, json_bytes
from proxy.settings import Settings
from proxy.store.store import Store
from tests.bench.dashboard_calls import END, fill
from tests.fakes.call_dependencies import LoopTasks

ADMIN: Final = Viewer(name="root", role=Role.ADMIN)
ONE_TEAM: Final = Viewer(name="ann", role=Role.TEAM_ADMIN, own_teams=frozenset({"team_7"}))
MONTH: Final = {"from": "2026-10-28", "to": "2026-11-26"}
QUARTER: Final = {"from": "2026-08-29", "to": "2026-11-26"}
WEEK: Final = {"from": "2026-11-20", "to": "2026-11-26"}
#: The limit of the p95, in milliseconds.
LIMIT_MS: Final = 300.0

Question = Callable[[LedgerResources], Awaitable[Any]]


def questions() -> dict[str, Question]:
    """The questions by name."""

    def costs(viewer: Viewer = ADMIN, /, **query: Any) -> Question:
        validated = CostsQuery.model_validate(query)
        return lambda ledger: ledger.costs.costs(viewer, validated, json_bytes)

    def savings(viewer: Viewer = ADMIN, /, **query: Any) -> Question:
        validated = SavingsQuery.model_validate(query)
        return lambda ledger: ledger.savings.savings(viewer, validated, json_bytes)

    def cache(viewer: Viewer = ADMIN, /, **query: Any) -> Question:
        validated = CacheQuery.model_validate(query)
        return lambda ledger: ledger.cache.cache_health(viewer, validated, json_bytes)

    def latency(viewer: Viewer = ADMIN, /, **query: Any) -> Question:
        validated = LatencyQuery.model_validate(query)
        return lambda ledger: ledger.latency.latency(viewer, validated, json_bytes)

    def calls(viewer: Viewer = ADMIN, /, **query: Any) -> Question:
        validated = CallsQuery.model_validate(query)
        return lambda ledger: ledger.calls.calls(viewer, validated, json_bytes)

    return {
        "costs: 30 days by team, UTC": costs(**MONTH),
        "costs: 30 days by feature, Berlin": costs(by="feature", tz="Europe/Berlin", **MONTH),
        "costs: 30 days by model, New York": costs(by="model", tz="America/New_York", **MONTH),
        "costs: 30 days by key, Tokyo": costs(by="key", tz="Asia/Tokyo", **MONTH),
        "costs: 90 days by week and feature": costs(by="feature", tz="Europe/Berlin", **QUARTER),
        "costs: 7 days by hour": costs(unit="hour", **WEEK),
        "costs: one team's 30 days by feature": costs(ONE_TEAM, by="feature", **MONTH),
        "costs: drill down to a feature": costs(by="key", feature="feature 7", **MONTH),
        "savings: 30 days": savings(tz="Europe/Berlin", **MONTH),
        "savings: one team's 90 days": savings(ONE_TEAM, **QUARTER),
        "cache: 30 days by feature": cache(tz="Europe/Berlin", **MONTH),
        "cache: 30 days by cache rules": cache(by="regime", tz="Europe/Berlin", **MONTH),
        "cache: one team's 30 days by model": cache(ONE_TEAM, by="model", **MONTH),
        "latency: 30 days": latency(**MONTH),
        "latency: 3 days by hour": latency(**{"from": "2026-11-24", "to": "2026-11-26"}),
        "latency: one feature's 90 days": latency(feature="feature 7", **QUARTER),
        "calls: newest 200": calls(limit=200),
        "calls: one team's": calls(ONE_TEAM, limit=50),
        "calls: a rare one": calls(min_cost_nanos=10**12),
    }


async def measure(store: Store, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each question, asked one after the other; the first round is left out."""
    catalog = read_catalog(Settings())
    ledger = LedgerResources.of(
        store,
        (StoreQuestions(store, 60.0), LoopTasks()),
        lambda: catalog,
        lambda: (),
        lambda: END,
    )
    times: dict[str, list[float]] = {name: [] for name in questions()}
    for number in range(rounds + 1):
        for name, question in questions().items():
            began = time.perf_counter()
            await question(ledger)
            if number:
                times[name].append((time.perf_counter() - began) * 1_000)
    return times


def show(found: dict[str, list[float]]) -> None:
    """Print the median and the p95 of each question."""
    print(f"{'question':<40} {'p50 ms':>8} {'p95 ms':>8}")
    for name, times in found.items():
        ranked = sorted(times)
        p95 = ranked[-(-len(ranked) * 95 // 100) - 1]
        slow = "  slow" if p95 > LIMIT_MS else ""
        print(f"{name:<40} {ranked[len(ranked) // 2]:>8.0f} {p95:>8.0f}{slow}")


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a PostgreSQL database; SQLite if absent")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--keep", help="a SQLite file that is made, or used if it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(options.keep or f"{folder}/ledger.db")
        store = Store.open(options.url or f"sqlite:///{file}", Path(folder) / "journal")
        began = time.perf_counter()
        if not store.teams.all():
            fill(store._engine)
            print(f"filled in {time.perf_counter() - began:.0f} s")
        show(asyncio.run(measure(store, options.rounds)))
        store.close(1.0)


if __name__ == "__main__":
    main()
