"""Decides if a failed attempt is retried, and after which pause; pure."""

import msgspec

from proxy.errors import UpstreamError

#: Endpoints that generate or embed, and so have usage even when the upstream does not say.
GENERATING_ENDPOINTS = frozenset(
    {"chat/completions", "responses", "messages", "completions", "embeddings"}
)
#: Endpoints whose output is predicted, held of budgets, and settled where it is left half-way.
BILLED_ENDPOINTS = GENERATING_ENDPOINTS | {"responses/compact"}
#: Failures that would only repeat on the same route.
_OTHER_ROUTE_CODES = frozenset(
    {"upstream_timeout", "upstream_unauthorized", "upstream_key_missing", "insufficient_quota"}
)


class RetryPolicy(msgspec.Struct, frozen=True):
    """Timeouts and retries of upstream attempts.

    Attributes:
        first_byte_s: Seconds until the first content byte.
        stall_s: Seconds between two content bytes.
        retries: Further attempts on the last route.
        max_pause_s: Seconds an upstream's retry-after may ask for.
    """

    first_byte_s: float = 600.0
    stall_s: float = 300.0
    retries: int = 1
    max_pause_s: float = 2.0

    def pause_before_retry(self, failure: UpstreamError, number: int, routes: int) -> float | None:
        """Seconds to wait before the attempt after ``number``; None if there is to be none.

        The next route is tried at once; the last one again after a pause that doubles.
        """
        if not failure.retryable or number + 1 >= routes + self.retries:
            return None
        if number + 1 < routes:
            return 0.0
        if failure.code in _OTHER_ROUTE_CODES or failure.should_retry is False:
            return None
        again = number + 1 - routes
        pause = failure.retry_after if failure.retry_after is not None else 0.25 * 2.0**again
        return pause if pause <= self.max_pause_s else None
