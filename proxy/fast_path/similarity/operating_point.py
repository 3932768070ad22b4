"""Finds the score threshold above which wrong answers are proved rare, and detects drift.

Scores and outcomes of checked pairs are sorted by score. From each of a few counts on, thresholds
are tried in a fixed sequence, the strictest first, until one fails; each count has its part of the
5 percent, and all thresholds behind it share that part. So no threshold was chosen for its luck.
Source: Angelopoulos et al., Learn then Test (2021), fixed-sequence testing with several starts.

Once answers are served, checked hits go through a cumulative sum of likelihood ratios, which
compares a share of wrong hits within the promise with one ten times as high: each wrong hit adds
much, each right one takes a little. Source: Page, Continuous Inspection Schemes (1954).
"""

from collections.abc import Sequence
from math import exp, lgamma, log
from typing import Final

import msgspec

#: One minus the confidence with which the bound holds.
_ERROR_RATE: Final = 0.05
#: Counts of pairs at which a sequence of thresholds starts, and the growth to its next one.
_STARTS: Final = (1_250, 2_000, 3_200)
_GROWTH: Final = 1.15
#: A drift has so many times the promised share of wrong hits.
_DRIFT_FACTOR: Final = 10.0
_MAX_DRIFT_SHARE: Final = 0.5
#: Two wrong hits within some 40 checks reach this sum, one never does.
_STOP_SUM: Final = 4.2


class OperatingPoint(msgspec.Struct, frozen=True):
    """A score from which on answers are served, and its proof.

    Attributes:
        score: The lowest score that is served.
        checked: Checked pairs with that score or a higher one.
        wrong: Those of them whose answer was wrong.
        bound: The one-sided 95 percent bound of the share of wrong answers, for all points tried.
    """

    score: float
    checked: int
    wrong: int
    bound: float


class DriftTest(msgspec.Struct):
    """The running sum of evidence for a drift, over the checked hits of one operating point."""

    evidence: float = 0.0

    @property
    def is_alarmed(self) -> bool:
        """True from a wrong hit on until enough right ones: each hit is to be checked."""
        return self.evidence > 0.0

    def observe(self, promise: float, *, was_right: bool) -> bool:
        """Counts a checked hit; returns true where serving has to stop."""
        drifted = min(_MAX_DRIFT_SHARE, _DRIFT_FACTOR * promise)
        ratio = (1.0 - drifted) / (1.0 - promise) if was_right else drifted / promise
        self.evidence = max(0.0, self.evidence + log(ratio))
        return self.evidence >= _STOP_SUM


def proved_point(
    pairs: Sequence[tuple[float, bool]], promise: float, looks: int = 1
) -> OperatingPoint | None:
    """The operating point that serves most within a promise; None where none is proved.

    Args:
        pairs: Score and whether the answer was right, of each checked pair.
        promise: Share of wrong answers that is allowed, above 0 and below 1.
        looks: Number of times that a point is sought in all, which share the 5 percent.
    """
    ordered = sorted(pairs, key=lambda pair: -pair[0])
    wrong_until = _running_count(ordered)
    error_rate = _ERROR_RATE / len(_STARTS) / looks
    best: OperatingPoint | None = None
    for start in _STARTS:
        count = float(start)
        while int(count) <= len(ordered):
            wrong = wrong_until[int(count)]
            bound = upper_bound(wrong, int(count), error_rate)
            if bound > promise:
                break
            if best is None or int(count) > best.checked:
                best = OperatingPoint(ordered[int(count) - 1][0], int(count), wrong, bound)
            count *= _GROWTH
    return best


def upper_bound(wrong: int, checked: int, error_rate: float = _ERROR_RATE) -> float:
    """The exact one-sided bound of the share of wrong ones (Clopper and Pearson, 1934)."""
    if checked == 0 or wrong >= checked:
        return 1.0
    low, high = wrong / checked, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if _at_most(wrong, checked, middle) > error_rate:
            low = middle
        else:
            high = middle
    return high


def _at_most(wrong: int, checked: int, share: float) -> float:
    """The probability of at most so many wrong ones of all checked, each with one probability."""
    if share <= 0.0:
        return 1.0
    whole = lgamma(checked + 1)
    return sum(
        exp(
            whole
            - lgamma(count + 1)
            - lgamma(checked - count + 1)
            + count * log(share)
            + (checked - count) * log(1.0 - share)
        )
        for count in range(wrong + 1)
    )


def _running_count(ordered: Sequence[tuple[float, bool]]) -> list[int]:
    """The number of wrong ones among the first 0, 1, 2 … of a sequence."""
    counts = [0]
    for _, was_right in ordered:
        counts.append(counts[-1] + (not was_right))
    return counts
