"""Latencies of a period: what ``/api/v1/latency`` answers and a page shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

LatencyMetric = Literal["ttft", "duration", "itl"]
"""Seconds to the first content byte, to the end, and between tokens after the first."""
LatencyDimension = Literal["team", "feature", "model", "route"]
"""A dimension that latencies are told apart by."""
LatencyUnit = Literal["minute", "hour", "day", "week"]
"""The length of a bucket of time; days and weeks are those of UTC."""
LatencyWindow = Literal["15m", "1h", "24h"]
"""A window that ends now, whose latencies are read from calls themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLine:
    """Percentiles in seconds, within 9.1 %; null without calls."""

    calls: int
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    """Percentiles of one value over the whole period.

    Attributes:
        before_p95: Its p95 of the period before; null without calls there, and where unknown.
    """

    value: str
    name: str
    percentiles: LatencyLine
    before_p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePhases:
    """Mean seconds of the phases of calls of one engine replica.

    Attributes:
        queue: Until the engine began to work.
        prefill: Reading the prompt.
        decode: Generating.
        transfer: The rest of the time since it was sent.
    """

    upstream: str
    calls: int
    queue: float
    prefill: float
    decode: float
    transfer: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyView:
    """Latencies of a period.

    Attributes:
        last: The last day, included.
        tz: Time zone of the buckets: that of the question to the hour, UTC for days and weeks.
        window: The window that ends now; null for a period of days.
        is_cut: True where a window has more calls than are read at once, so that it begins later.
        before_first: First day of the period or window before, with which it is compared.
        starts: The beginning of each, in seconds since the epoch (UTC).
        end: End of the last one.
        bounds: Upper bounds of latency in seconds, ascending, one for each row of the heat map but
            the last, which has none.
        counts: Calls of each bucket of time, by latency: the heat map, one list for each bucket.
        lines: Percentiles of each bucket of time.
        before: Percentiles of the period or window before, as long; null where they are unknown.
        before_p95: The p95 of each of its buckets, the first for the first.
        rows: Percentiles by value, those with most calls first.
        phases: Phases of engines' calls, by upstream.
        filter_names: Names of teams and keys that it is filtered by, by their ids.
        max_error: Part of a latency that percentiles may be off.
    """

    first: date
    last: date
    before_first: date
    before_last: date
    tz: str
    metric: LatencyMetric
    by: LatencyDimension
    unit: LatencyUnit
    starts: Sequence[int]
    end: int
    bounds: Sequence[float]
    counts: Sequence[Sequence[int]]
    lines: Sequence[LatencyLine]
    before: LatencyLine | None
    before_p95: Sequence[float | None]
    total: LatencyLine
    rows: Sequence[LatencyRow]
    phases: Sequence[EnginePhases]
    filter_names: Mapping[str, str]
    max_error: float
    window: LatencyWindow | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthWindow:
    """Calls from a whole hour of UTC on.

    Attributes:
        since: Beginning of the hour, in seconds since the epoch.
        errors: Calls that failed or broke off; a refusal by the gateway is none.
        p95: Seconds that 95 of 100 calls took at most; null without any, and where other values
            than teams filter, which histograms of hours do not know.
    """

    since: int
    calls: int
    errors: int
    p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthView:
    """The hour before this one with what there is of this one, and the day before with it."""

    recent: HealthWindow
    day: HealthWindow
