"""Live quality of each feature's compaction: values needed and lost, and money saved; pure.

It counts one process's calls in ten-minute slots over a day. The first process that finds harm
steps the feature back for all.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from compaction.policy import CompactionMode
from compaction.quality_evidence import QualityEvidence
from proxy.records.compaction_result import RECALL_FAILED, recalls_without_end
from proxy.records.receipt import Receipt

#: Seconds of a slot, and of what is looked back on.
SLOT_S: Final = 600
WINDOW_S: Final = 86_400
#: Compacted calls of a day before it is asked what they cost: those after a compaction have to pay
#: it back.
_MIN_CALLS: Final = 50
#: Part of what they would have cost unmodified that may be lost unsaid.
_TOLERANCE: Final = 0.01
#: Features counted; beyond that the one that was not counted for the longest is forgotten.
_MAX_FEATURES: Final = 1_024

Place = tuple[str, str]
"""A team's id, and a feature."""
#: Time at which a mode was set, and the number of a slot since the epoch.
_Slot = tuple[float, int]


class CompactionSums(msgspec.Struct):
    """The counts of a feature's calls.

    Attributes:
        compacted: Calls that were sent shorter.
        tokens: Tokens that were not sent.
        nanos: Savings in 1e-9 US dollars, so far as they are known.
        paid: Cost in all in 1e-9 US dollars, the same calls' answers included.
        treated: Evidence of what the newest tool calls needed of the compacted part.
        control: The same of calls sent unmodified, and of what would have been compacted: a model
            that was shown all can need what it would not have been shown.
        recall: Calls that were compacted, and those of them whose model recalled without end.
    """

    compacted: int = 0
    tokens: int = 0
    nanos: int = 0
    paid: int = 0
    treated: QualityEvidence = QualityEvidence()
    control: QualityEvidence = QualityEvidence()
    recall: QualityEvidence = QualityEvidence()

    @property
    def is_dearer(self) -> bool:
        """True if prompts became shorter and bills higher."""
        least = -_TOLERANCE * (self.paid + self.nanos)
        return self.compacted >= _MIN_CALLS and self.tokens > 0 and self.nanos < min(least, 0)

    def add(self, other: "CompactionSums") -> None:
        """Count other calls, too."""
        self.compacted += other.compacted
        self.tokens += other.tokens
        self.nanos += other.nanos
        self.paid += other.paid
        self.treated += other.treated
        self.control += other.control
        self.recall += other.recall

    def evidence(self, mode: CompactionMode) -> tuple[QualityEvidence, ...]:
        """The evidence by which a mode is judged."""
        if mode is CompactionMode.FACTS_RECALL:
            return (self.recall,)
        return self.control, self.treated


class LiveQuality:
    """The counts of one process."""

    def __init__(self) -> None:
        self._features: OrderedDict[Place, dict[_Slot, CompactionSums]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._features)

    def add(self, receipt: Receipt, since: float = 0.0) -> None:
        """Counts an attempt; callers leave out those that compaction had no part in.

        Args:
            since: Time at which the feature's mode was set; a call that was made before does not
                count.
        """
        if receipt.started < since:
            return
        place = (receipt.team, receipt.feature)
        slots = self._features.setdefault(place, {})
        self._features.move_to_end(place)
        if len(self._features) > _MAX_FEATURES:
            self._features.popitem(last=False)
        slot = int(receipt.started // SLOT_S)
        if (since, slot) not in slots:
            for old in [key for key in slots if key[1] <= slot - WINDOW_S // SLOT_S]:
                del slots[old]
        slots.setdefault((since, slot), CompactionSums()).add(_receipt_sums(receipt))

    def sums(self, place: Place, now: float, since: float = 0.0) -> CompactionSums:
        """The counts of a feature's calls in the last day.

        Args:
            since: Time at which the mode was set: from the first call made then they count. Of what
                was counted before that was known here, a slot that began earlier does not.
        """
        total = CompactionSums()
        for (begun, slot), sums in self._features.get(place, {}).items():
            is_since = begun == since or slot * SLOT_S >= since
            if is_since and slot * SLOT_S >= now - WINDOW_S:
                total.add(sums)
        return total

    def forget(self, place: Place) -> None:
        """Resets the counts of a feature."""
        self._features.pop(place, None)


def _receipt_sums(receipt: Receipt) -> CompactionSums:
    less = (receipt.tokens_before or 0) - (receipt.tokens_after or 0)
    evidence = QualityEvidence(needed=receipt.needed, lost=receipt.lost)
    is_resent = receipt.compaction_why == RECALL_FAILED
    is_endless = is_resent or recalls_without_end(receipt.error, receipt.recalls)
    recall = QualityEvidence(needed=1, lost=int(is_endless))
    if not receipt.compacted:
        judged = recall if is_resent else QualityEvidence()
        return CompactionSums(control=evidence, recall=judged)
    saved = receipt.compaction_nanos
    return CompactionSums(
        compacted=1,
        tokens=less,
        nanos=saved or 0,
        paid=0 if saved is None else receipt.spent_nanos or 0,
        treated=evidence,
        recall=recall,
    )
