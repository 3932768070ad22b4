"""True if planning makes a feature dearer, told from each call beside the same call unmodified.

The control arm judges over weeks; this judges within some fifty calls. Of each call it is known
what it should cost as it is sent, and what it should have cost unmodified, by one model of the
provider's cache. What the provider loses would be lost either way and is no matter of planning.

A call that paid for marks which may still be read is judged later: once its conversation went on,
with or without them, or once they died. A feature is surely dearer when the calls judged last cost
more together than unmodified, by more than ``TOLERANCE`` and by more than ``ERRORS`` standard
errors of their sum.
"""

from collections import OrderedDict, deque
from itertools import count
from math import sqrt
from typing import Final, NamedTuple

import msgspec

#: Calls that are judged together.
WINDOW: Final = 50
#: Calls below which nothing is judged.
MIN_CALLS: Final = 20
#: How much dearer than unmodified is borne, as a share of that.
TOLERANCE: Final = 0.02
#: Standard errors by which the sum has to be above nothing.
ERRORS: Final = 3.0
#: Calls that wait to be judged; beyond, the one that waited longest is judged as it stands.
_MAX_OPEN: Final = 128
#: Seconds without a call after which a feature is judged afresh.
_RESET_AFTER_S: Final = 21_600.0
_numbers = count(1)


class CallCost(msgspec.Struct, frozen=True, kw_only=True):
    """One call; all in one unit, such as fresh tokens times their price.

    Attributes:
        planned: What it should cost as it was sent.
        direct: What it should have cost unmodified.
        surcharge: What it paid for writing, over what it would have paid unmodified.
        lives: Seconds that what it wrote lives.
    """

    planned: float
    direct: float
    surcharge: float = 0.0
    lives: float = 0.0


class Harm(msgspec.Struct, frozen=True, kw_only=True):
    """That planning makes a feature surely dearer.

    Attributes:
        calls: The calls judged last, which show it.
        more: How much dearer they were than unmodified, as a share of that.
    """

    calls: int
    more: float

    @property
    def why(self) -> str:
        """The same in one sentence."""
        return (
            f"the last {self.calls} calls cost {self.more:.1%} more than the same calls should have"
            " cost unmodified"
        )


class _Open(NamedTuple):
    """A call that is not judged yet: what it cost more, its direct cost, when its marks die."""

    more: float
    direct: float
    until: float


class HarmWatch:
    """Judges one feature on one family of models; 3 KB, and 100 bytes a call to be judged."""

    def __init__(self) -> None:
        self._judged: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        self._open: OrderedDict[int, _Open] = OrderedDict()
        self._latest = 0.0

    def observe(self, now: float, call: CallCost, before: int) -> int:
        """Count a call; its number comes back while it waits to be judged, else 0.

        Args:
            now: When it was sent, in seconds.
            call: The call.
            before: The number of its conversation's call before, which is judged by this; 0 for
                none.
        """
        if now - self._latest > _RESET_AFTER_S:
            self._judged.clear()
            self._open.clear()
        self._latest = max(now, self._latest)
        if (earlier := self._open.pop(before, None)) is not None:
            self._judge(earlier)
        self._judge_expired(now)
        found = _Open(call.planned - call.direct, call.direct, now + call.lives)
        if call.surcharge <= 0.0:
            self._judge(found)
            return 0
        number = next(_numbers)
        self._open[number] = found
        if len(self._open) > _MAX_OPEN:
            self._judge(self._open.popitem(last=False)[1])
        return number

    def harm(self, now: float) -> Harm | None:
        """Return the harm that the latest judged calls show; None unless they are surely dearer."""
        self._judge_expired(now)
        calls = len(self._judged)
        if calls < MIN_CALLS:
            return None
        more = sum(added for added, _ in self._judged)
        direct = sum(cost for _, cost in self._judged)
        if direct <= 0.0 or more <= TOLERANCE * direct:
            return None
        squares = sum((added - more / calls) ** 2 for added, _ in self._judged)
        if more <= ERRORS * sqrt(squares):
            return None
        return Harm(calls=calls, more=more / direct)

    def _judge_expired(self, now: float) -> None:
        """Judge the calls whose marks have died."""
        while self._open and next(iter(self._open.values())).until < now:
            self._judge(self._open.popitem(last=False)[1])

    def _judge(self, call: _Open) -> None:
        self._judged.append((call.more, call.direct))
