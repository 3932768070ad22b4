"""Sessions of people who are signed in to the pages, and limits on failed sign-ins.

Kept in memory: a restart signs everybody out. Only hashes are kept, and compared in constant time.
"""

from collections import deque
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Final

import msgspec

#: Seconds without a request, and in all, after which a session has ended.
IDLE_TIMEOUT_S: Final = 30 * 60.0
MAX_SESSION_S: Final = 12 * 3600.0
#: Sessions at once; of more the one that was longest not used ends.
MAX_SESSIONS: Final = 64
#: Bytes of chance in a session's id.
_SESSION_ID_BYTES: Final = 32
#: Misses within so many seconds, after which the next are told to wait.
MAX_FAILURES: Final = 5
_FAILURE_WINDOW_S: Final = 60.0


class _Session(msgspec.Struct):
    """One that goes on: the hash of its id, when it began, and when it was used last."""

    digest: bytes
    began: float
    used: float


class AdminSessions:
    """The sessions of one process.

    Args:
        ticks: Seconds of a clock that goes forward.
    """

    def __init__(self, ticks: Callable[[], float]) -> None:
        self._ticks = ticks
        self._open: list[_Session] = []

    def begin(self) -> str:
        """The id of a new session."""
        made, now = token_urlsafe(_SESSION_ID_BYTES), self._ticks()
        self._drop_expired(now)
        if len(self._open) >= MAX_SESSIONS:
            self._open.remove(min(self._open, key=lambda each: each.used))
        self._open.append(_Session(_digest(made), now, now))
        return made

    def is_open(self, given: str) -> bool:
        """True if a session of this id goes on; it has then been used."""
        now = self._ticks()
        self._drop_expired(now)
        found = self._find(given)
        if found is not None:
            found.used = now
        return found is not None

    def end(self, given: str) -> None:
        """End the session of this id, if there is one."""
        if (found := self._find(given)) is not None:
            self._open.remove(found)

    def _find(self, given: str) -> _Session | None:
        """The session; all of them are compared, whichever it is."""
        digest = _digest(given)
        matching = [each for each in self._open if compare_digest(each.digest, digest)]
        return matching[0] if matching else None

    def _drop_expired(self, now: float) -> None:
        self._open = [
            each
            for each in self._open
            if now - each.used < IDLE_TIMEOUT_S and now - each.began < MAX_SESSION_S
        ]


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
