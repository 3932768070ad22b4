"""A sink that fails is left alone for a while, each time longer, and not by all at once."""

from hashlib import sha256
from typing import Final

_FIRST_PAUSE_S: Final = 2.0
_MAX_PAUSE_S: Final = 300.0
_DOUBLINGS: Final = 10


class SinkBreaker:
    """One sink's: it admits one post after another until one fails, then none for a while.

    Args:
        salt: Differs by sink and process, so that those who wait do not come back together.

    Attributes:
        failures: In a row.
    """

    def __init__(self, salt: str) -> None:
        self._salt = salt
        self._until = float("-inf")
        self.failures = 0

    def admits(self, now: float) -> bool:
        """True if a post may go now, in seconds since the epoch."""
        return now >= self._until

    def record_success(self) -> None:
        """The sink took a post."""
        self.failures = 0

    def record_failure(self, now: float, retry_after: float | None = None) -> float:
        """The sink did not; until when it is left alone.

        Args:
            now: Seconds since the epoch.
            retry_after: Seconds that it asks for; they are its due, up to five minutes.
        """
        self.failures += 1
        waits = retry_delay(self.failures, self._salt)
        self._until = now + max(waits, min(retry_after or 0.0, _MAX_PAUSE_S))
        return self._until


def retry_delay(tries: int, salt: str) -> float:
    """Seconds to wait after so many tries: twice as long each time, up to five minutes.

    A part of it, a fourth at most, is left off by the salt's hash: who waits for the same does not
    come back at the same time, and tests know when.
    """
    whole = min(_FIRST_PAUSE_S * (1 << min(tries - 1, _DOUBLINGS)), _MAX_PAUSE_S)
    part = int.from_bytes(sha256(f"{salt}/{tries}".encode()).digest()[:4], "big") / 2**32
    return whole * (1 - part / 4)
