"""The last minutes or hours, read from calls themselves: ``/api/v1/minutes`` and the page Now."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
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
#: A longer time without a failure ends a route's failing.
FAILING_GAP_S: Final = 300.0
_P50, _P95 = 50, 95
_MICROS: Final = 1_000_000


class AttemptGroup(NamedTuple):
    """Attempts of one bucket and value whose calls ended with one code, or with none.

    Attributes:
        bucket: Number of the bucket, from 0.
        value: Value of the dimension.
        code: The error's code where the call failed, broke off or was refused; "" elsewhere.
        calls: Attempts that ended a call.
        errors: Those of them that failed or broke off.
        refused: Those of them that the gateway refused.
        attempts: All attempts.
        failed_attempts: Those that failed or broke off, such as by missing a deadline.
        cost_nanos: Known cost of all attempts, in nano-dollars.
        durations: Microseconds to the end of each answered call.
        first_tokens: Microseconds to the first content byte of each that had one.
    """

    bucket: int
    value: str
    code: str
    calls: int
    errors: int
    refused: int
    attempts: int
    failed_attempts: int
    cost_nanos: int
    durations: Sequence[int]
    first_tokens: Sequence[int]


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
class FailedAttempt:
    """A failed attempt: when its call arrived, and the call's id; "" for who sees no calls."""

    at: float
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFailures:
    """Failures of one route, also those after which another route answered.

    Attributes:
        attempts: All attempts on it.
        failed: Those that failed or broke off.
        errors: Their errors, the most frequent first.
        first: The earliest failure that no five minutes without one part from the last.
        last: Its last failure.
        began_earlier: True where ``first`` is within five minutes of the time's beginning, so that
            it may have failed before.
        answered: Arrival of the last call that it answered; null for none in this time.
    """

    route: str
    attempts: int
    failed: int
    errors: Sequence[FailureWords]
    first: FailedAttempt
    last: FailedAttempt
    began_earlier: bool
    answered: float | None

    def state(self, now: float) -> Literal["fails", "fails in part", "failed"]:
        """Of these failures: over, all there is, or some among answers."""
        if now - self.last.at > FAILING_GAP_S:
            return "failed"
        is_answering = self.answered is not None and self.answered >= self.first.at
        return "fails in part" if is_answering else "fails"


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
        filter_names: Names of teams and keys that it is filtered by, by their ids.
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
    filter_names: Mapping[str, str]


def window_totals(groups: Sequence[AttemptGroup]) -> WindowTotals:
    """Sums and percentiles of attempts."""
    durations = sorted(chain.from_iterable(group.durations for group in groups))
    first_tokens = sorted(chain.from_iterable(group.first_tokens for group in groups))
    return WindowTotals(
        calls=sum(group.calls for group in groups),
        errors=sum(group.errors for group in groups),
        refused=sum(group.refused for group in groups),
        attempts=sum(group.attempts for group in groups),
        failed_attempts=sum(group.failed_attempts for group in groups),
        cost_nanos=sum(group.cost_nanos for group in groups),
        p50=_nearest_rank(durations, _P50),
        p95=_nearest_rank(durations, _P95),
        ttft_p95=_nearest_rank(first_tokens, _P95),
    )


def totals_by_bucket(groups: Sequence[AttemptGroup], buckets: int) -> list[WindowTotals]:
    """Totals of each bucket; attempts outside count nowhere."""
    grouped: dict[int, list[AttemptGroup]] = defaultdict(list)
    for group in groups:
        grouped[group.bucket].append(group)
    return [window_totals(grouped[bucket]) for bucket in range(buckets)]


def groups_by_value(groups: Sequence[AttemptGroup]) -> list[tuple[str, list[AttemptGroup]]]:
    """The attempts of each value, those with most calls first."""
    grouped: dict[str, list[AttemptGroup]] = defaultdict(list)
    for group in groups:
        grouped[group.value].append(group)
    return sorted(
        grouped.items(), key=lambda entry: (-sum(group.calls for group in entry[1]), entry[0])
    )


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
