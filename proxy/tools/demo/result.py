"""The demo's result: the calls in the ledger, compared with those that the client made."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from dashboards.cost_formats import savings_document
from dashboards.reports import ReportPeriod, Spend, SpendFilter, latest_days
from dashboards.savings_headline import SavingsHeadline
from proxy.catalog.catalog import Catalog
from proxy.records.feature_mode import LayoutScope
from proxy.records.receipt import dollars
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.store.store import Store
from proxy.tools.demo.baseline import CallTotals, CostBaseline
from proxy.tools.demo.traffic import DemoCall

_FLUSH = 10.0
#: Days of which pages show costs and savings.
_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The demo's outcome.

    Attributes:
        seconds: From the first call to the last answer.
        rows: Costs in the ledger by team, in the order of ``names``.
        total: The same of all teams as one row; none where no call was made.
        lacking: Answered calls that are not in the ledger exactly once.
        savings: Headline of what was saved, by the names of teams; "" for all of them.
        otherwise: Usage and cost of the same calls replayed, sent in other ways.
        orders: The same of the badly built feature, by the order of its prompts.
    """

    calls: tuple[DemoCall, ...]
    rows: tuple[Spend, ...]
    total: tuple[Spend, ...]
    names: Mapping[str, str]
    ledger_calls: int
    lacking: tuple[str, ...]
    savings: Mapping[str, SavingsHeadline] = field(default_factory=dict)
    seconds: float = 0.0
    otherwise: CostBaseline = field(default_factory=CostBaseline)
    orders: CostBaseline = field(default_factory=CostBaseline)
    proposed: tuple[LayoutScope, ...] = ()

    @property
    def failed_calls(self) -> tuple[DemoCall, ...]:
        """Calls that were not answered, or not to the end."""
        return tuple(call for call in self.calls if call.error)

    @property
    def is_sound(self) -> bool:
        """True if every call was answered and every answer is in the ledger."""
        return not self.failed_calls and not self.lacking

    def json(self) -> str:
        """The result as one line.

        ``cost_usd`` is a number with every digit the ledger has, so that a reader of decimals
        loses nothing; null where no price was known. ``unpriced`` counts what the cost leaves out.
        ``hit_rate`` is cache-read tokens ÷ input tokens. ``savings`` is the headline of all pages
        and reports; ``direct_cost_usd`` is its. ``direct_hit_rate`` and ``arranged_…`` are
        replayed: the same calls sent directly, and with layouts applied as soon as they are
        learned. ``orders`` has both for the badly built feature, by the order of its prompts.
        """
        baseline = self.otherwise
        per_team = {
            name: _account_of(row) | self._savings(name) | _baseline_totals(baseline, [name])
            for row in self.rows
            for name in [self.names.get(row.team or "", "")]
        }
        account = _account_of(self.total[0]) if self.total else {"hit_rate": 0.0, "cost_usd": 0}
        line = {
            **account,
            **self._savings(""),
            **_baseline_totals(baseline, baseline.direct),
            "calls": len(self.calls),
            "ledger_calls": self.ledger_calls,
            "ledger_complete": not self.lacking,
            "lacking": list(self.lacking),
            "errors": [
                {"call_id": call.call_id, "model": call.planned.model, "error": call.error}
                for call in self.failed_calls
            ],
            "seconds": round(self.seconds, 3),
            "simulated": True,
            "teams": per_team,
            "orders": {
                order: {"direct_cost_usd": exact_usd(direct.nanos)}
                | _baseline_totals(self.orders, [order])
                for order, direct in self.orders.direct.items()
            },
        }
        return orjson.dumps(line).decode()

    def _savings(self, team: str) -> dict[str, Any]:
        savings = self.savings.get(team)
        if savings is None:
            return {}
        return {
            "direct_cost_usd": exact_usd(savings.direct_nanos),
            "savings": savings_document(savings),
        }


def of_store(
    store: Store,
    demo_calls: Iterable[DemoCall],
    *,
    names: Mapping[str, str],
    since: datetime,
    now: float,
    catalog: Catalog,
) -> DemoResult:
    """The result once every receipt has reached the database; blocks.

    Args:
        since: Start of the gateway by its clock, not days ago.
        now: The end by the same clock.
    """
    store.drain.flush(_FLUSH)
    period = days(since)
    calls = tuple(demo_calls)
    answered = [call.call_id for call in calls if call.call_id]
    nameless = [f"call {call.planned.number}" for call in calls if not (call.call_id or call.error)]
    order = list(names)
    return DemoResult(
        calls=calls,
        rows=tuple(
            sorted(store.reports.spend(period), key=lambda row: order.index(row.team or ""))
        ),
        total=tuple(store.reports.spend(period, ())),
        names=names,
        ledger_calls=store.ledger.count_calls(),
        lacking=(*store.ledger.missing_calls(answered), *nameless),
        savings=_savings(store, names, catalog, now),
    )


def _savings(
    store: Store, names: Mapping[str, str], catalog: Catalog, now: float
) -> dict[str, SavingsHeadline]:
    """The headline that pages show of all calls, and of each team's by its name; blocks."""
    figures, period = SavingsFigures(store, lambda: catalog, lambda: now), latest_days(now, _DAYS)
    teams = {
        name: figures.headline(period, SpendFilter(values={"team": frozenset({team})}))
        for team, name in names.items()
    }
    return {"": figures.headline(period), **teams}


def learned_features(store: Store, names: Mapping[str, str]) -> tuple[LayoutScope, ...]:
    """The features that a layout was learned for, under their teams' names; blocks."""
    return tuple(
        sorted(
            LayoutScope(names.get(place.team, place.team), place.feature, place.family)
            for place in store.layouts.states().places
            if store.layouts.proposals(place)
        )
    )


def days(since: datetime) -> ReportPeriod:
    """The day the demo began and the one after, in case it runs over midnight."""
    day = since.astimezone(UTC).date()
    return ReportPeriod(first=day, end=day + timedelta(days=2), zone="UTC")


def _baseline_totals(baseline: CostBaseline, teams: Iterable[str]) -> dict[str, Any]:
    names = list(teams)
    direct, arranged = (total(ways, names) for ways in (baseline.direct, baseline.arranged))
    return {
        "direct_hit_rate": round(direct.hit_rate, 4),
        "arranged_hit_rate": round(arranged.hit_rate, 4),
        "arranged_cost_usd": exact_usd(arranged.nanos),
    }


def total(sums: Mapping[str, CallTotals], teams: Iterable[str]) -> CallTotals:
    """All of those teams together."""
    return sum((sums.get(team, CallTotals()) for team in teams), CallTotals())


def row_totals(row: Spend) -> CallTotals:
    """A row of the ledger beside which sums of other ways can be shown."""
    return CallTotals(row.usage.prompt_tokens, row.usage.cache_read, row.cost_nanos)


def _account_of(row: Spend) -> dict[str, Any]:
    return {
        "calls": row.calls,
        "input_tokens": row.usage.prompt_tokens,
        "cached_tokens": row.usage.cache_read,
        "hit_rate": round(row_totals(row).hit_rate, 4),
        "output_tokens": row.usage.generated_tokens,
        "cost_usd": exact_usd(row.cost_nanos),
        "unpriced": row.unpriced,
    }


def exact_usd(nanos: int | None) -> orjson.Fragment | None:
    """Nano-dollars as a JSON number of US dollars with every digit."""
    return None if nanos is None else orjson.Fragment(dollars(nanos))
