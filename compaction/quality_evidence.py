"""Evidence of quality: compacted values that later tool calls needed, and those that were lost.

A model that needs an id writes it into a tool call. If the id stood in compacted text only, the
call shows whether it was still in what was sent. That costs no model call, and a feature that loses
too much steps back to a gentler mode.

With recall, a value that was not sent may have been recalled. What shows there is a model that
recalls without end: it is judged by its compacted calls in place of values, by the same bound.

A model that was not shown an id can hardly write it. So losses show in conversations that are sent
unmodified: they are compared with what compaction would have sent, and judged separately.
"""

from math import sqrt
from typing import Final

import msgspec

from compaction.policy import CompactionMode

#: Maximum share of the needed ids that may be lost.
MAX_LOST_SHARE: Final = 0.02
#: Minimum needed ids before quality is judged.
MIN_NEEDED_VALUES: Final = 20
#: Standard errors of the confidence bound: 95 %, one-sided.
_BOUND_STANDARD_ERRORS: Final = 1.645

#: The next gentler mode of each mode that facts are sent in; of the others there is no evidence.
_GENTLER_MODES: Final = {
    CompactionMode.FACTS_RECALL: CompactionMode.FACTS,
    CompactionMode.FACTS: CompactionMode.TRIM,
}


class QualityEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The values that tool calls needed of compacted text; or calls, where recalls are judged.

    Attributes:
        needed: Ids in their arguments that had stood in compacted text, and nowhere in what was
            sent unmodified.
        lost: Those of them that did not stand in what was sent in its place either; of calls, those
            whose model recalled without end.
    """

    needed: int = 0
    lost: int = 0

    def __add__(self, other: "QualityEvidence") -> "QualityEvidence":
        return QualityEvidence(needed=self.needed + other.needed, lost=self.lost + other.lost)

    @property
    def share(self) -> float:
        """Lost of needed; 0 where nothing was."""
        return self.lost / self.needed if self.needed else 0.0


def next_mode(
    mode: CompactionMode,
    evidence: QualityEvidence,
    *,
    threshold: float = MAX_LOST_SHARE,
    least: int = MIN_NEEDED_VALUES,
) -> CompactionMode:
    """The mode to continue with: one step gentler where surely more is lost than allowed.

    Args:
        mode: The present one.
        evidence: Evidence seen in this mode, and only in it.
        threshold: Part of the ids needed that may be lost.
        least: Ids needed below which nothing changes.
    """
    if evidence.needed < least or lowest_likely_share(evidence) <= threshold:
        return mode
    return _GENTLER_MODES.get(mode, mode)


def lowest_likely_share(evidence: QualityEvidence) -> float:
    """The least share lost that the evidence is still likely under; 0 without any.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference
    (Journal of the American Statistical Association, 1927).
    """
    if not evidence.needed:
        return 0.0
    n, share, square = (
        evidence.needed,
        evidence.share,
        _BOUND_STANDARD_ERRORS * _BOUND_STANDARD_ERRORS,
    )
    middle = share + square / (2 * n)
    spread = _BOUND_STANDARD_ERRORS * sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max((middle - spread) / (1 + square / n), 0.0)
