"""Limits on failed sign-ins, and the admin token.

======================  =====================================  ==================================
counted                 failures at once, then one in          does not limit
======================  =====================================  ==================================
a name at an address    10, 30 s                               (limits all)
an address              50, 6 s                                browsers that know the person
a name                  500, 7.2 s                             browsers that know the person
a name in a browser     10, 30 s                               (limits all)
======================  =====================================  ==================================

So a stranger's guesses do not lock a person out who signs in elsewhere, unless they come from many
networks at once. They never lock out a browser in which the person signed in before. No name has
more than 12,500 guesses a day.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from proxy.api.connections.connection_limit import address_block

#: Misses of the token within a minute, after which the next are told to wait.
MAX_FAILURES: Final = 5
_FAILURE_WINDOW_S: Final = 60.0
#: Failures at once: of a name at an address or in a browser, of an address, and of a name.
MAX_FAILURES_OF_PAIR: Final = 10
MAX_FAILURES_OF_ADDRESS: Final = 50
MAX_FAILURES_OF_NAME: Final = 500
#: Seconds in which as many may fail again.
_WINDOW_S: Final = 300.0
_NAME_WINDOW_S: Final = 3600.0
#: Keys that are remembered; of more the one that failed longest ago is forgotten.
_MAX_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class SignInSource:
    """The place that somebody signs in from.

    Attributes:
        address: Address of their browser.
        cookie: Text that the browser keeps since they signed in there; "" for none.
    """

    address: str
    cookie: str = ""


class SignInLimits:
    """Limits on wrong passwords; they do not know which names are real.

    A ``browser`` is one in which the person of the name has signed in before; else it is "".
    """

    def __init__(self, ticks: Callable[[], float]) -> None:
        self._pairs = FailureLimit(MAX_FAILURES_OF_PAIR, _WINDOW_S, ticks)
        self._addresses = address_limit(ticks)
        self._names = FailureLimit(MAX_FAILURES_OF_NAME, _NAME_WINDOW_S, ticks)

    def wait(self, name: str, address: str, browser: str) -> float:
        """Seconds until a password of this name may be tried; 0 for now."""
        return max(limit.wait(key) for limit, key in self._limit_keys(name, address, browser))

    def record_failure(self, name: str, address: str, browser: str) -> None:
        """Count a wrong password."""
        for limit, key in self._limit_keys(name, address, browser):
            limit.record_failure(key)

    def forget(self, name: str, address: str, browser: str) -> None:
        """Forget the person's own failures, as they have succeeded."""
        limit, key = self._limit_keys(name, address, browser)[0]
        limit.forget(key)

    def _limit_keys(
        self, name: str, address: str, browser: str
    ) -> "list[tuple[FailureLimit, str]]":
        """The limits on a sign-in with the key that each counts by, that of the pair first."""
        if browser:
            return [(self._pairs, f"in {browser} {name}")]
        block = address_block(address)
        pair = (self._pairs, f"at {block} {name}")
        return [pair, (self._addresses, block), (self._names, name)]


class FailureLimit:
    """Lets each of many keys fail so often at once; in a window as many are forgiven one by one."""

    def __init__(self, most: int, window_s: float, ticks: Callable[[], float]) -> None:
        self._most = most
        self._interval_s = window_s / most
        self._ticks = ticks
        #: Time at which all of a key's failures are forgiven.
        self._forgiven_at: OrderedDict[bytes, float] = OrderedDict()

    def wait(self, key: str) -> float:
        """Seconds until the key may be tried again; 0 for now."""
        forgiven_at = self._forgiven_at.get(digest_text(key), 0.0)
        return max(0.0, forgiven_at - (self._most - 1) * self._interval_s - self._ticks())

    def record_failure(self, key: str) -> None:
        """Count a failure."""
        digest, now = digest_text(key), self._ticks()
        self._forgiven_at[digest] = max(self._forgiven_at.get(digest, now), now) + self._interval_s
        self._forgiven_at.move_to_end(digest)
        while len(self._forgiven_at) > _MAX_REMEMBERED:
            self._forgiven_at.popitem(last=False)

    def forget(self, key: str) -> None:
        """Forget the key's failures, as it has succeeded."""
        self._forgiven_at.pop(digest_text(key), None)


def address_limit(ticks: Callable[[], float]) -> FailureLimit:
    """The limit on failures from one address, whatever is tried there."""
    return FailureLimit(MAX_FAILURES_OF_ADDRESS, _WINDOW_S, ticks)


class AdminToken:
    """The token that opens the pages, whoever else misses it: it is too long to be guessed."""

    def __init__(self, token: str, ticks: Callable[[], float]) -> None:
        self._digest = digest_text(token)
        self._ticks = ticks
        self._failed: deque[float] = deque(maxlen=MAX_FAILURES)

    @property
    def holder(self) -> str:
        """The name under which its sessions are kept; another token's do not open anything."""
        return f"token:{sha256(self._digest).hexdigest()[:16]}"

    def matches(self, given: str) -> bool:
        """True if this is it."""
        return compare_digest(self._digest, digest_text(given))

    def record_failure(self) -> float:
        """Seconds to wait after a wrong token; 0 where it may be tried again at once."""
        now = self._ticks()
        if (
            len(self._failed) == MAX_FAILURES
            and (wait := self._failed[0] + _FAILURE_WINDOW_S - now) > 0
        ):
            return wait
        self._failed.append(now)
        return 0.0


def digest_text(text: str) -> bytes:
    """A text's hash, which stands for one of any length."""
    return sha256(text.encode(errors="surrogatepass")).digest()
