"""Number of retries a gateway allows itself: a share of its calls, so that no outage is doubled."""

from typing import Final

from slo.windowed_ratio import WindowedRatio

RETRY_WINDOW_S: Final = 10.0
"""Seconds in which calls and retries are counted."""

RETRY_PERCENT: Final = 20
"""Retries of 100 calls. Source: Envoy's retry budget (budget_percent), 2026-11."""

MIN_RETRIES: Final = 3
"""Retries that are allowed in a span however few calls there were; Envoy's
min_retry_concurrency."""


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
        """Count a call's first attempt.

        Args:
            now: Seconds of a clock that goes forward.
        """
        self._retries.add(1, 0, now)

    def try_acquire(self, now: float) -> bool:
        """True if a retry may go now; if so it is counted."""
        retries = self._retries
        retries.expire(now)
        if retries.part >= max(self._least, retries.whole * self._percent // 100):
            return False
        retries.add(0, 1, now)
        return True
