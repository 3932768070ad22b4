"""The last minutes or hours, read from calls themselves: ``/api/v1/minutes`` and the page Now."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from dashboards.reports import TagPart

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
_MICROS: Final = 1_000_000


class EndedCall(NamedTuple):
    """The end of a call, or an attempt before it, as far as it counts here.

    Attributes:
        started: Arrival, in microseconds since the epoch.
        duration: Microseconds to the end; None where it was not answered.
        ttft: Microseconds to the first content byte; None without one, and where it was not
            answered.
        error: The error's code where the call failed or broke off; "" elsewhere.
        refusal: The error's code where the gateway refused the call; "" elsewhere.
        cost_nanos: Cost in nano-dollars; None where unknown.
        is_end: 0 for an attempt before the last, whose cost and failure alone count; 1 for others.
        has_failed: 1 for an attempt that failed or broke off, such as by missing a deadline.
        call_id: Its call.
        value: Value of the dimension.
    """

    started: int
    duration: int | None
    ttft: int | None
    error: str
    refusal: str
    cost_nanos: int | None
    is_end: int
    has_failed: int
    call_id: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTotals:
    """Calls of a bucket or a value; percentiles are of answered calls, exact, null without any.

    Attributes:
        errors: Calls that failed or broke off.
        refused: Calls that the gateway refused, by a budget or for an unknown price.
        attempts: All attempts, also those after which another route answered.
        failed_attempts: Those of them that failed or broke off.
        cost_nanos: Known cost of all attempts, in nano-dollars.
        p50: Median of durations in seconds.
        ttft_p95: Seconds to the first content byte that 95 of 100 calls stay within.
    """

    calls: int
    errors: int
    refused: int
    attempts: int
    failed_attempts: int
    cost_nanos: int
    p50: float | None
    p95: float | None
    ttft_p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowCall:
    """The call with the latest first token.

    Attributes:
        ttft: Seconds to its first token.
        phase: The part of that time which took longest, in words.
        phase_s: Seconds of that part.
    """

    call_id: str
    ttft: float
    phase: str
    phase_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTotals:
    """Calls of one value of the dimension.

    Attributes:
        slowest: Its call with the latest first token; null without any, and for who sees no calls.
    """

    value: str
    name: str
    totals: WindowTotals
    slowest: SlowCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureWords:
    """Attempts that failed alike.

    Attributes:
        error: The error's code.
        words: Those of the upstream; "" where none came, and for who sees no calls.
    """

    error: str
    attempts: int
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFailures:
    """Failures of one route, also those after which another route answered.

    Attributes:
        attempts: All attempts on it.
        failed: Those that failed or broke off.
        errors: Their errors, the most frequent first.
    """

    route: str
    attempts: int
    failed: int
    errors: Sequence[FailureWords]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCount:
    """Calls that ended with one error, or were refused by one."""

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
        refusals: Reasons of refusals, the same.
        failing: Routes with failed attempts, those with most first.
    """

    window: MinutesWindow
    by: MinutesDimension | TagPart
    since: int
    bucket_s: int
    is_cut: bool
    starts: Sequence[int]
    buckets: Sequence[WindowTotals]
    total: WindowTotals
    rows: Sequence[ValueTotals]
    errors: Sequence[ErrorCount]
    refusals: Sequence[ErrorCount]
    failing: Sequence[RouteFailures]


def call_totals(calls: Sequence[EndedCall]) -> WindowTotals:
    """Sums and percentiles of calls."""
    # By column, which takes a third of the time of a look at each call.
    columns = zip(*calls, strict=True) if calls else [()] * len(EndedCall._fields)
    _, all_durations, all_firsts, errors, refusals, costs, ends, failures, *_ = columns
    durations = sorted(micros for micros in all_durations if micros is not None)
    firsts = sorted(micros for micros in all_firsts if micros is not None)
    return WindowTotals(
        calls=sum(ends),
        errors=len(errors) - errors.count(""),
        refused=len(refusals) - refusals.count(""),
        attempts=len(calls),
        failed_attempts=sum(failures),
        cost_nanos=sum(filter(None, costs)),
        p50=_nearest_rank(durations, _P50),
        p95=_nearest_rank(durations, _P95),
        ttft_p95=_nearest_rank(firsts, _P95),
    )


def totals_by_bucket(
    calls: Sequence[EndedCall], starts: Sequence[int], bucket_s: int
) -> list[WindowTotals]:
    """Totals of each bucket; calls outside count nowhere."""
    grouped: dict[int, list[EndedCall]] = defaultdict(list)
    first, length = starts[0] * _MICROS, bucket_s * _MICROS
    for call in calls:
        grouped[(call.started - first) // length].append(call)
    return [call_totals(grouped[place]) for place in range(len(starts))]


def calls_by_value(calls: Sequence[EndedCall]) -> list[tuple[str, list[EndedCall]]]:
    """The calls of each value, those with most first."""
    grouped: dict[str, list[EndedCall]] = defaultdict(list)
    for call in calls:
        grouped[call.value].append(call)
    return sorted(
        grouped.items(), key=lambda entry: (-sum(call.is_end for call in entry[1]), entry[0])
    )


def slowest_call(calls: Sequence[EndedCall]) -> EndedCall | None:
    """The answered call with the latest first token; None without any."""
    answered = [call for call in calls if call.ttft is not None]
    return max(answered, key=lambda call: call.ttft or 0, default=None)


def first_token_phases(
    ttft: int, earlier: int, overhead: int | None, queue: int | None, prefill: int | None
) -> dict[str, int]:
    """The parts of the time to a first token, in words; what is left is the provider's.

    Args:
        ttft: All of it; its unit is that of all others.
        earlier: Until the last attempt before the last ended.
        overhead: The gateway's own time; None where unknown, as the others.
    """
    phases = {
        "earlier attempts": earlier,
        "gateway": overhead or 0,
        "queue of the engine": queue or 0,
        "prefill of the engine": prefill or 0,
    }
    return {**phases, "wait for the provider": max(ttft - sum(phases.values()), 0)}


def longest_phase(phases: Mapping[str, int]) -> tuple[str, int]:
    """The longest phase, and its length."""
    return max(phases.items(), key=lambda phase: phase[1])


def _nearest_rank(ascending: Sequence[int], percent: int) -> float | None:
    """The value that so many of 100 stay at or below, in seconds."""
    return ascending[-(-len(ascending) * percent // 100) - 1] / _MICROS if ascending else None
