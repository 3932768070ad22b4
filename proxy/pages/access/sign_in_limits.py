"""Limits on failed sign-ins, by name and by address, and the admin token."""

from collections import OrderedDict, deque
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from typing import Final

#: Misses of the token within a minute, after which the next are told to wait.
MAX_FAILURES: Final = 5
_FAILURE_WINDOW_S: Final = 60.0
#: Failures of one name, and of one address, in five minutes; then they wait.
MAX_FAILURES_OF_NAME: Final = 10
MAX_FAILURES_OF_ADDRESS: Final = 50
_WINDOW_S: Final = 300.0
#: Names and addresses that are remembered; of more the one that failed longest ago is forgotten.
_MAX_REMEMBERED: Final = 10_000


class FailureLimit:
    """Lets each of many keys fail so often in a while; it does not know which of them are real.

    Args:
        most: Failures in five minutes.
        ticks: Seconds of a clock that goes forward.
    """

    def __init__(self, most: int, ticks: Callable[[], float]) -> None:
        self._most = most
        self._ticks = ticks
        self._failed: OrderedDict[bytes, deque[float]] = OrderedDict()

    def wait(self, key: str) -> float:
        """Seconds until the key may be tried again; 0 for now."""
        times = self._failed.get(_digest(key))
        if times is None or len(times) < self._most:
            return 0.0
        return max(0.0, times[0] + _WINDOW_S - self._ticks())

    def record_failure(self, key: str) -> None:
        """Count a failure."""
        digest = _digest(key)
        self._failed.setdefault(digest, deque(maxlen=self._most)).append(self._ticks())
        self._failed.move_to_end(digest)
        while len(self._failed) > _MAX_REMEMBERED:
            self._failed.popitem(last=False)

    def forget(self, key: str) -> None:
        """Forget the key's failures, as it has succeeded."""
        self._failed.pop(_digest(key), None)


class AdminToken:
    """The token that opens the pages, whoever else misses it: it is too long to be guessed.

    Args:
        token: Token of the administrator.
        ticks: Seconds of a clock that goes forward.
    """

    def __init__(self, token: str, ticks: Callable[[], float]) -> None:
        self._digest = _digest(token)
        self._ticks = ticks
        self._failed: deque[float] = deque(maxlen=MAX_FAILURES)

    @property
    def holder(self) -> str:
        """The name under which its sessions are kept; another token's do not open anything."""
        return f"token:{sha256(self._digest).hexdigest()[:16]}"

    def matches(self, given: str) -> bool:
        """True if this is it."""
        return compare_digest(self._digest, _digest(given))

    def record_failure(self) -> float:
        """Seconds that whoever missed it has to wait; 0 where it may be tried again at once."""
        now = self._ticks()
        if (
            len(self._failed) == MAX_FAILURES
            and (wait := self._failed[0] + _FAILURE_WINDOW_S - now) > 0
        ):
            return wait
        self._failed.append(now)
        return 0.0


def _digest(text: str) -> bytes:
    return sha256(text.encode(errors="surrogatepass")).digest()
