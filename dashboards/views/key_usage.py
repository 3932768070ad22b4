"""The usage of one key, for whoever holds it: the page ``/me`` and ``/v1/thriftgate/usage``."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from dashboards.views.calls import CallRow
from dashboards.views.latency import HealthView
from slo.budgets.budget import BudgetUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpend:
    """Known cost in nano-dollars; days are those of UTC.

    Attributes:
        today: Cost of today so far; null where no price is known.
        week: Cost of the last seven days, today included; null likewise.
        month: Cost of the calendar month so far; null likewise.
        month_name: The month, such as ``2026-11``.
        days: Cost of each of the last thirty days, today last; null where no price is known.
        unpriced_attempts: Attempts of these thirty days at no known price, which costs leave out.
    """

    today: int | None
    week: int | None
    month: int | None
    month_name: str
    days: Sequence[int | None]
    unpriced_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLatency:
    """Durations of the newest calls that were answered, in seconds; null without any.

    Attributes:
        calls: Number of calls that were measured.
        p50: Seconds that half of them took at most.
        p95: Seconds that 95 of 100 took at most.
    """

    calls: int
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimitView:
    """A budget or rate limit that the key's calls count in, in its current window.

    Attributes:
        scope: Whose calls count: ``key``, ``team``, ``feature`` or ``organization``.
        window: ``minute``, ``hour``, ``day`` or ``month``.
        limit: In the unit: nano-dollars, tokens or requests.
        spent: The same; null where it is unknown now.
        held: For calls under way; null where it is unknown now.
        left: Amount that calls may still use; null where it is unknown now.
        ends: End of the window, in seconds since the epoch.
        is_hard: True if calls that do not fit are refused.
    """

    budget: str
    scope: str
    unit: BudgetUnit
    window: str
    limit: int
    spent: int | None
    held: int | None
    left: int | None
    ends: float
    is_hard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUsageView:
    """All that a key's holder is shown of it; of other keys no more than limits shared with them.

    Attributes:
        key: The key's id, which opens nothing.
        team: Name of its team.
        feature: Feature that all of its calls are for; "" for any.
        expires: Time at which it ends, in seconds since the epoch; null for never.
        at: Time of this answer.
        health: Calls and errors of the last hour and day; latencies are not in it.
        cache_hit_rate: Part of the prompts' tokens read from caches in 30 days; null without any.
        calls: The newest calls, without prompts.
        searched_from: Time back to which calls were looked for; null for thirty days.
    """

    key: str
    team: str
    feature: str
    expires: float | None
    at: float
    spend: KeySpend
    limits: Sequence[KeyLimitView]
    health: HealthView
    cache_hit_rate: float | None
    latency: KeyLatency
    calls: Sequence[CallRow]
    searched_from: float | None


def key_latency(calls: Sequence[CallRow]) -> KeyLatency:
    """Percentiles by nearest rank of the durations of those calls that were answered."""
    durations = sorted(call.duration for call in calls if call.outcome == "answered")

    def percentile(share: float) -> float | None:
        return durations[ceil(share * len(durations)) - 1] if durations else None

    return KeyLatency(calls=len(durations), p50=percentile(0.5), p95=percentile(0.95))
