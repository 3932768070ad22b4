"""How each feature's folds did lately: what was needed of them, and what they saved; pure.

Counts of one process, in slots of ten minutes over a day. Other processes count for themselves, and
whichever finds harm first steps the feature back for all.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from proxy.folds import noting
from proxy.receipt import Receipt

#: Seconds of a slot, and of what is looked back on.
SLOT: Final = 600
WINDOW: Final = 86_400
#: Features counted; beyond that the one that was not counted for the longest is forgotten.
_FEATURES: Final = 1_024

Place = tuple[str, str]
"""A team's id, and a feature."""


class Sums(msgspec.Struct):
    """What became of a feature's calls.

    Attributes:
        folded: Calls that were sent shorter.
        tokens: Tokens that were not sent.
        nanos: What that saved in 1e-9 US dollars, so far as is known; what asking a model for notes
            cost is taken off.
        needed: Values of the newest tool calls that stood in what was folded.
        lost: How many of them were not sent.
    """

    folded: int = 0
    tokens: int = 0
    nanos: int = 0
    needed: int = 0
    lost: int = 0

    def add(self, other: "Sums") -> None:
        """Count other calls, too."""
        self.folded += other.folded
        self.tokens += other.tokens
        self.nanos += other.nanos
        self.needed += other.needed
        self.lost += other.lost


class Proofs:
    """The counts of one process."""

    def __init__(self) -> None:
        self._features: OrderedDict[Place, dict[int, Sums]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._features)

    def add(self, receipt: Receipt) -> None:
        """Count an attempt; those that compaction had no part in are not to be told."""
        self._count(receipt, _sums(receipt))

    def charge(self, receipt: Receipt) -> None:
        """Count what a question for notes cost; its feature is one of its own."""
        self._count(receipt, Sums(nanos=-(receipt.spent or 0)))

    def _count(self, receipt: Receipt, found: Sums) -> None:
        place = (receipt.team, receipt.feature)
        slots = self._features.setdefault(place, {})
        self._features.move_to_end(place)
        if len(self._features) > _FEATURES:
            self._features.popitem(last=False)
        slot = int(receipt.started // SLOT)
        if slot not in slots:
            for old in [each for each in slots if each <= slot - WINDOW // SLOT]:
                del slots[old]
        slots.setdefault(slot, Sums()).add(found)

    def sums(self, place: Place, now: float, since: float = 0.0) -> Sums:
        """What became of a feature's calls in the last day.

        Args:
            place: The team's id, and the feature.
            now: Seconds since the epoch.
            since: From when on they count; a slot that began before does not.
        """
        first = max(now - WINDOW, since)
        found = Sums()
        for each in (place, _noting(place)):
            for slot, sums in self._features.get(each, {}).items():
                if slot * SLOT >= first:
                    found.add(sums)
        return found

    def forget(self, place: Place) -> None:
        """Count a feature afresh."""
        self._features.pop(place, None)
        self._features.pop(_noting(place), None)


def _noting(place: Place) -> Place:
    team, feature = place
    return team, noting(feature)


def _sums(receipt: Receipt) -> Sums:
    less = (receipt.tokens_before or 0) - (receipt.tokens_after or 0)
    return Sums(
        folded=int(receipt.folded),
        tokens=less if receipt.folded else 0,
        nanos=receipt.compaction_nanos or 0,
        needed=receipt.needed,
        lost=receipt.lost,
    )
