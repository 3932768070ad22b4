"""Budgets of further attempts: retries after a failure, and hedges where the first is late.

Retries are a share of a gateway's calls, so that no outage is doubled.

A hedge pays the prompt twice. It is sent before the answer's first content only, within a budget
of calls and of money, and never where it would have to read a long prompt from its beginning.
"""

import math
import statistics
from collections import deque
from collections.abc import Iterable
from typing import Final

from slo.windowed_ratio import WindowedRatio

HEDGE_WINDOW_S: Final = 300.0
"""Seconds in which calls, hedges and what they cost are counted."""

HEDGE_PERCENT: Final = 5
"""Hedges of 100 calls. Source: J. Dean, L. A. Barroso, "The Tail at Scale", CACM 56(2), 2013."""

HEDGE_COST_PERCENT: Final = 3
"""Most that hedges may cost, of 100 nano-dollars that the calls did."""

LATE_SHARE_OF_DEADLINE: Final = 0.6
"""The part of its deadline after which a call without content is late."""

RECENT_TTFT_WINDOW_S: Final = 60.0
"""Seconds for which it is remembered how long a route took to begin."""

_MAX_SAMPLES: Final = 32
_MIN_SAMPLES: Final = 3
#: Multiple of its usual time after which a route is late by its own measure, too.
_LATE_FACTOR: Final = 2.0

SILENT_PROBE_INTERVAL_S: Final = 2.0
"""Seconds between two calls that are sent also to a route that was passed over as silent."""

RETRY_WINDOW_S: Final = 10.0
"""Seconds in which calls and retries are counted."""

RETRY_PERCENT: Final = 20
"""Retries of 100 calls. Source: Envoy's retry budget (budget_percent), 2026-11."""

MIN_RETRIES: Final = 3
"""Retries that are allowed in a span however few calls there were; Envoy's
min_retry_concurrency."""


class RecentTtft:
    """Times to the first content of one route's latest calls."""

    __slots__ = ("_assumed", "_probed_at", "_samples")

    def __init__(self) -> None:
        self._probed_at = -math.inf
        self._samples: deque[tuple[float, float]] = deque(maxlen=_MAX_SAMPLES)
        self._assumed: deque[tuple[float, float]] = deque(maxlen=_MIN_SAMPLES)

    def record(self, seconds: float, now: float) -> None:
        """Remember how long a call took; ``inf`` for one that was given up before it began.

        Args:
            seconds: From sending to the first content.
        """
        self._samples.append((now, seconds))

    def assume(self, seconds: float, now: float) -> None:
        """Take a route to be as slow as the one that outran it; what its own calls took overrides.

        Args:
            seconds: From sending to the first content of the other one.
        """
        self._assumed.append((now, seconds))

    def median(self, now: float) -> float | None:
        """The median of the last ``RECENT_TTFT_WINDOW_S`` seconds; None for too few calls.

        What was assumed counts only while no call of its own is known.
        """
        samples = _recent_seconds(self._samples, now) or _recent_seconds(self._assumed, now)
        return statistics.median(samples) if len(samples) >= _MIN_SAMPLES else None

    def newest(self, now: float) -> float | None:
        """The median of the newest ``_MIN_SAMPLES`` calls; None where any of them is too old.

        It follows a route that recovered at once, where ``median`` is still of its bad time.
        """
        newest = _recent_seconds(self._samples, now)[-_MIN_SAMPLES:]
        return statistics.median(newest) if len(newest) == _MIN_SAMPLES else None

    def last(self, now: float) -> float | None:
        """Seconds of the newest call; None where it is too old."""
        samples = self._samples
        is_recent = bool(samples) and samples[-1][0] > now - RECENT_TTFT_WINDOW_S
        return samples[-1][1] if is_recent else None

    def try_probe(self, now: float) -> bool:
        """True, once in ``SILENT_PROBE_INTERVAL_S``, if a call is to show if it begins again."""
        if 0 <= now - self._probed_at < SILENT_PROBE_INTERVAL_S:
            return False
        self._probed_at = now
        return True

    def usual(self, now: float) -> float | None:
        """The larger of ``median`` and ``newest``; None for too few calls.

        A route that became slow, or silent, shows at once; one that recovered, once most of its
        calls did.
        """
        median, newest = self.median(now), self.newest(now)
        return median if median is None or newest is None else max(median, newest)


def _recent_seconds(samples: Iterable[tuple[float, float]], now: float) -> list[float]:
    """Samples of the last ``RECENT_TTFT_WINDOW_S`` seconds, oldest first."""
    return [seconds for time, seconds in samples if time > now - RECENT_TTFT_WINDOW_S]


def may_begin_sooner(
    there: float | None, here: float | None, *, waited: float, deadline: float
) -> bool:
    """True if a second attempt may begin before the first; False if it is known to be as slow.

    Where the first one's route is known to be silent, what is known of the other one's is old.

    Args:
        there: Seconds that the second attempt's route usually takes; None where unknown.
        here: The same of the first one's.
        waited: Seconds that the first has taken.
        deadline: Seconds that its first content may take.
    """
    if there is None or there < hedge_delay_s(deadline) or here is None:
        return True
    late = _LATE_FACTOR * (deadline if here == math.inf else here)
    return waited + there < here or waited >= late


def is_overdue(here: float | None, *, waited: float, deadline: float) -> bool:
    """True if an attempt is so late that its route may be silent, by its own measure too."""
    usual = deadline if here is None or here == math.inf else max(here, deadline)
    return waited >= _LATE_FACTOR * usual


class HedgeBudget:
    """True if one more hedge fits.

    At each hedge that is allowed, those of the last ``HEDGE_WINDOW_S`` seconds, it included, are

    - at most ``percent`` of the calls that ended in these seconds, so the first one needs
      100 ÷ ``percent`` calls before it: 20; and
    - predicted to cost, or known to have cost, at most ``percent_of_cost`` of these calls' cost.

    What has no known price is in neither sum of money: a hedge without a prediction is held to the
    share of calls alone, and one with a prediction to the cost of those calls whose cost is known.
    A hedge that costs nothing is held to the share of calls alone, too.

    Args:
        percent: Hedges of 100 calls.
        percent_of_cost: Cost of hedges, of 100 of the calls'.
    """

    __slots__ = ("_cost", "_hedges", "_percent", "_percent_of_cost")

    def __init__(
        self, percent: int = HEDGE_PERCENT, percent_of_cost: int = HEDGE_COST_PERCENT
    ) -> None:
        self._hedges = WindowedRatio(HEDGE_WINDOW_S)
        self._cost = WindowedRatio(HEDGE_WINDOW_S)
        self._percent = percent
        self._percent_of_cost = percent_of_cost

    def record_call(self, nanos: int | None, now: float) -> None:
        """Count a call that has ended, without what its hedge cost.

        Args:
            nanos: Cost in nano-dollars; None where that is unknown.
        """
        self._hedges.add(1, 0, now)
        if nanos:
            self._cost.add(nanos, 0, now)

    def try_acquire(self, predicted: int | None, now: float) -> bool:
        """True if a hedge may go now; if so it and its prediction are counted.

        Args:
            predicted: Nano-dollars that it may cost; None where its price is unknown.
        """
        hedges, cost = self._hedges, self._cost
        hedges.expire(now)
        if (hedges.part + 1) * 100 > hedges.whole * self._percent:
            return False
        if predicted:
            cost.expire(now)
            if (max(cost.part, 0) + predicted) * 100 > cost.whole * self._percent_of_cost:
                return False
            cost.add(0, predicted, now)
        hedges.add(0, 1, now)
        return True

    def settle_hedge(self, nanos: int | None, predicted: int | None, now: float) -> None:
        """Count what an allowed hedge has cost in place of its prediction; say it once.

        Args:
            nanos: Cost in nano-dollars of the one of the two that lost; None where that is unknown,
                and its prediction stays.
        """
        if nanos is not None:
            self._cost.add(0, nanos - (predicted or 0), now)


def hedge_delay_s(deadline: float) -> float:
    """Seconds without content after which a call may be hedged.

    Args:
        deadline: Seconds that its first content may take.
    """
    return LATE_SHARE_OF_DEADLINE * deadline


class RetryBudget:
    """True if one more retry fits, of all calls of one process or of one model.

    At each retry that is allowed, those of the last ``RETRY_WINDOW_S`` seconds, itself included,
    are at most ``percent`` of the calls of these seconds, or ``least``. Retries are no calls.

    Args:
        percent: Retries of 100 calls.
        least: Retries that are always allowed in a span.
    """

    __slots__ = ("_least", "_percent", "_retries")

    def __init__(self, percent: int = RETRY_PERCENT, least: int = MIN_RETRIES) -> None:
        self._retries = WindowedRatio(RETRY_WINDOW_S)
        self._percent = percent
        self._least = least

    def record_call(self, now: float) -> None:
        """Count a call's first attempt."""
        self._retries.add(1, 0, now)

    def try_acquire(self, now: float) -> bool:
        """True if a retry may go now; if so it is counted."""
        retries = self._retries
        retries.expire(now)
        if retries.part >= max(self._least, retries.whole * self._percent // 100):
            return False
        retries.add(0, 1, now)
        return True
