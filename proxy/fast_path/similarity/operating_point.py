"""Proves by betting from which score on wrong answers are rare, and detects drift.

At each score of a list that is fixed beforehand, each checked pair at or above it is a bet against
the claim that more are wrong than promised: a right one adds a little, a wrong one takes most. No
wealth made by such bets exceeds 20 in more than 5 percent of runs, however often it is looked at.
What is tested is the rule "serve from this score on", with scores that were taken before the pair
was learnt from; the verifier behind them may change meanwhile.
Source: Waudby-Smith and Ramdas, Estimating Means of Bounded Random Variables by Betting (2024);
Ville's inequality (1939). The scores are tested in a fixed sequence, the strictest first, each at
the whole 5 percent: a looser one counts once all stricter ones are proved.

Once answers are served, checked hits go through a cumulative sum of likelihood ratios, which
compares a share of wrong hits within the promise with one ten times as high: each wrong hit adds
much, each right one takes a little. Source: Page, Continuous Inspection Schemes (1954).
"""

from math import exp, log
from typing import Final

import msgspec

#: Logits from which on answers may be served, the strictest first: 99.3 to 97 percent right.
SCORES: Final = (5.0, 4.75, 4.5, 4.25, 4.0, 3.75, 3.5)
#: One minus the confidence with which the bound holds.
_ERROR_RATE: Final = 0.05
#: The bets are best where so much of the promised share of wrong answers is really wrong.
_BET: Final = 0.35
#: A drift has so many times the promised share of wrong hits.
_DRIFT_FACTOR: Final = 10.0
_MAX_DRIFT_SHARE: Final = 0.5
#: Two wrong hits within some 20 checks reach this sum, one never does.
_STOP_SUM: Final = 3.5
#: Checks since serving began in which a third of the hits is checked: of some 200 hits.
_FIRST_CHECKS: Final = 66
_FIRST_SHARE: Final = 1 / 3


class OperatingPoint(msgspec.Struct):
    """A score from which on answers may be served, and the evidence for it.

    Attributes:
        score: The lowest score that is served.
        checked: Checked pairs with that score or a higher one.
        wrong: Those of them whose answer was wrong.
        bound: The least one-sided 95 percent bound so far of the share of wrong answers.
    """

    score: float
    checked: int = 0
    wrong: int = 0
    bound: float = 1.0

    def observe(self, *, was_right: bool) -> None:
        """Counts a checked pair with this score or a higher one."""
        self.checked += 1
        self.wrong += not was_right
        self.bound = min(self.bound, upper_bound(self.wrong, self.checked))


class DriftTest(msgspec.Struct):
    """The running sum of evidence for a drift, over the checked hits since serving began."""

    evidence: float = 0.0
    checks: int = 0

    def checked_share(self, share: float) -> float:
        """The share of hits to check: all of them after a wrong one, until enough right ones."""
        if self.evidence > 0.0:
            return 1.0
        return max(share, _FIRST_SHARE) if self.checks < _FIRST_CHECKS else share

    def observe(self, promise: float, *, was_right: bool) -> bool:
        """Counts a checked hit; returns true where serving has to stop."""
        drifted = min(_MAX_DRIFT_SHARE, _DRIFT_FACTOR * promise)
        ratio = (1.0 - drifted) / (1.0 - promise) if was_right else drifted / promise
        self.evidence = max(0.0, self.evidence + log(ratio))
        self.checks += 1
        return self.evidence >= _STOP_SUM


def upper_bound(wrong: int, checked: int) -> float:
    """The share of wrong ones from which on bets against it have made twentyfold by now."""
    right = checked - wrong
    if right == 0:
        return 1.0
    gain = exp(min(50.0, (-log(_ERROR_RATE) - wrong * log(_BET)) / right))
    return min(1.0, (gain - 1.0) / (gain - _BET))


def proved_point(points: list[OperatingPoint], promise: float) -> OperatingPoint | None:
    """The loosest of the points, strictest first, that is proved with all before it."""
    proved = None
    for point in points:
        if point.bound > promise:
            break
        proved = point
    return proved
