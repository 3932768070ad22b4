"""The last minutes or hours, read from calls themselves: ``/api/v1/minutes`` and the page Now."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

MinutesWindow = Literal["15m", "1h", "6h"]
"""The window that ends now."""
MinutesDimension = Literal["team", "feature", "model", "route"]
"""A dimension that calls of the window are told apart by."""

#: Seconds of each window, and of its buckets.
WINDOW_SECONDS: Final[dict[MinutesWindow, tuple[int, int]]] = {
    "15m": (900, 60),
    "1h": (3_600, 60),
    "6h": (21_600, 300),
}
_P50, _P95 = 50, 95


class EndedCall(NamedTuple):
    """The end of a call, or an attempt before it, as far as it counts here.

    Attributes:
        started: Arrival, in seconds since the epoch.
        value: Value of the dimension.
        duration: Seconds to the end; None where it was not answered.
        ttft: Seconds to the first content byte; None without one, and where it was not answered.
        error: The error's code where the call was refused, failed or broke off; "" elsewhere.
        cost_nanos: Cost in nano-dollars; None where unknown.
        is_end: False for an attempt before the last, of which the cost alone counts.
    """

    started: float
    value: str
    duration: float | None
    ttft: float | None
    error: str
    cost_nanos: int | None
    is_end: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTotals:
    """Calls of a bucket or a value; percentiles are of answered calls, exact, null without any.

    Attributes:
        errors: Calls that were refused, failed or broke off.
        cost_nanos: Known cost of all attempts, in nano-dollars.
        p50: Median of durations in seconds.
        ttft_p95: Seconds to the first content byte that 95 of 100 calls stay within.
    """

    calls: int
    errors: int
    cost_nanos: int
    p50: float | None
    p95: float | None
    ttft_p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTotals:
    """Calls of one value of the dimension."""

    value: str
    name: str
    totals: WindowTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCount:
    """Calls that ended with one error."""

    error: str
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MinutesView:
    """A window that ends now.

    Attributes:
        since: Beginning of the first bucket, in seconds since the epoch.
        bucket_s: Length of a bucket.
        is_cut: True if there were more calls than are read at once, so that it begins later.
        starts: The beginning of each bucket.
        buckets: Calls of each bucket.
        rows: The values of the dimension, those with most calls first.
        errors: Errors, the most frequent first.
    """

    window: MinutesWindow
    by: MinutesDimension
    since: int
    bucket_s: int
    is_cut: bool
    starts: Sequence[int]
    buckets: Sequence[WindowTotals]
    total: WindowTotals
    rows: Sequence[ValueTotals]
    errors: Sequence[ErrorCount]


def call_totals(calls: Sequence[EndedCall]) -> WindowTotals:
    """Sums and percentiles of calls."""
    durations = sorted(call.duration for call in calls if call.duration is not None)
    firsts = sorted(call.ttft for call in calls if call.ttft is not None)
    return WindowTotals(
        calls=sum(call.is_end for call in calls),
        errors=sum(bool(call.error) for call in calls),
        cost_nanos=sum(call.cost_nanos or 0 for call in calls),
        p50=_nearest_rank(durations, _P50),
        p95=_nearest_rank(durations, _P95),
        ttft_p95=_nearest_rank(firsts, _P95),
    )


def totals_by_bucket(
    calls: Sequence[EndedCall], starts: Sequence[int], bucket_s: int
) -> list[WindowTotals]:
    """Totals of each bucket; calls outside count nowhere."""
    grouped: list[list[EndedCall]] = [[] for _ in starts]
    for call in calls:
        place = int(call.started - starts[0]) // bucket_s
        if call.started >= starts[0] and place < len(grouped):
            grouped[place].append(call)
    return [call_totals(group) for group in grouped]


def totals_by_value(calls: Sequence[EndedCall]) -> list[tuple[str, WindowTotals]]:
    """Totals of each value, those with most calls first."""
    grouped: dict[str, list[EndedCall]] = defaultdict(list)
    for call in calls:
        grouped[call.value].append(call)
    totals = [(value, call_totals(group)) for value, group in grouped.items()]
    return sorted(totals, key=lambda total: (-total[1].calls, total[0]))


def _nearest_rank(ascending: Sequence[float], percent: int) -> float | None:
    """The value that so many of 100 stay at or below."""
    return ascending[-(-len(ascending) * percent // 100) - 1] if ascending else None
