"""True if a failed attempt is worth another; pure."""

import msgspec

from proxy.errors import UpstreamError

#: Endpoints that generate or embed, and so have usage even when the upstream does not say.
GENERATING = frozenset({"chat/completions", "responses", "completions", "embeddings"})
#: Failures that would only repeat on the same route.
_ELSEWHERE = frozenset(
    {"upstream_timeout", "upstream_unauthorized", "upstream_key_missing", "insufficient_quota"}
)


class Patience(msgspec.Struct, frozen=True):
    """How long an upstream is waited for.

    Attributes:
        first_byte: Seconds until the first content byte.
        stall: Seconds between two content bytes.
        retries: Further attempts on the last route.
        longest_pause: Seconds an upstream's retry-after may ask for.
    """

    first_byte: float = 600.0
    stall: float = 300.0
    retries: int = 1
    longest_pause: float = 2.0

    def pause(self, failure: UpstreamError, number: int, routes: int) -> float | None:
        """Seconds to wait before the attempt after ``number``; None if there is to be none.

        The next route is tried at once; the last one again after a pause that doubles.
        """
        if not failure.retryable or number + 1 >= routes + self.retries:
            return None
        if number + 1 < routes:
            return 0.0
        if failure.code in _ELSEWHERE or failure.should_retry is False:
            return None
        again = number + 1 - routes
        pause = failure.retry_after if failure.retry_after is not None else 0.25 * 2.0**again
        return pause if pause <= self.longest_pause else None
