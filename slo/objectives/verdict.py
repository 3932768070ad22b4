"""The verdict on an objective: ok, at risk, missed or no data.

It is decided here alone; overview, objectives, alerts and the API show it. What the controller does
about it (its fallback level, a pin) is told beside it.
"""

from enum import StrEnum
from typing import Final

from slo.alert import format_amount
from slo.budgets.budget import BudgetUnit
from slo.budgets.tally import GoodBadCounts
from slo.objectives.burn import is_beyond_chance
from slo.objectives.objective import Metric, Objective

_PERCENT: Final = 100


class ObjectiveVerdict(StrEnum):
    """Says how an objective stands, the worst first."""

    MISSED = "missed"
    AT_RISK = "at risk"
    NO_DATA = "no data"
    OK = "ok"


VERDICT_MEANINGS: Final = {
    ObjectiveVerdict.OK: "misses are within what it allows, or may be chance.",
    ObjectiveVerdict.AT_RISK: "its error budget burns faster than it may, calls fell back to keep"
    " it, or too few calls were counted to be sure.",
    ObjectiveVerdict.MISSED: "more of the latest calls miss it than chance explains, or its alert"
    " is open.",
    ObjectiveVerdict.NO_DATA: "no call was counted that says anything of it.",
}
"""The meaning of each verdict, in words for people."""


def objective_verdict(
    objective: Objective,
    windows: list[GoodBadCounts],
    *,
    is_missed: bool,
    is_doubtful: bool,
    has_fallen_back: bool,
) -> ObjectiveVerdict:
    """The verdict on an objective.

    Args:
        windows: Counts over the windows of its alerts, and of late.
        is_missed: True if it is missed beyond chance of late, or its alert is open.
        is_doubtful: True if it would be missed, had there been calls enough to say so.
        has_fallen_back: True if calls go to another level to keep it.
    """
    if is_missed:
        return ObjectiveVerdict.MISSED
    is_cache = objective.metric is Metric.CACHE
    burns = not is_cache and any(is_beyond_chance(counts, objective) for counts in windows)
    if is_doubtful or has_fallen_back or burns:
        return ObjectiveVerdict.AT_RISK
    return ObjectiveVerdict.OK if any(counts.n for counts in windows) else ObjectiveVerdict.NO_DATA


def miss_text(objective: Objective) -> str:
    """Words for what calls did that missed an objective."""
    if objective.metric is Metric.ERRORS:
        return "failed"
    if objective.under_nanos is not None:
        return f"cost more than {format_amount(BudgetUnit.USD, objective.under_nanos)}"
    limit = _limit_text(objective.under or 0.0)
    if objective.metric is Metric.TTFT:
        return f"had no first token within {limit}"
    stage = "" if objective.metric is Metric.TOTAL else f" of {objective.metric.value}"
    return f"took more than {limit}{stage}"


def fact_text(objective: Objective, counts: GoodBadCounts, window: str) -> str:
    """The counts of a window in a sentence: ``9 of 92 calls failed in the last 30 min``.

    Args:
        window: Length of the window in words.
    """
    if not counts.n:
        return f"no calls in the last {window}"
    if objective.metric is Metric.CACHE:
        read = f"{(1 - counts.share) * _PERCENT:.1f} % of input tokens"
        return f"{read} were read from caches in the last {window}"
    return f"{counts.bad:,} of {counts.n:,} calls {miss_text(objective)} in the last {window}"


def allowance_text(objective: Objective) -> str:
    """The share that a target leaves, in words: ``5 % may``."""
    share = f"{(1 - objective.target) * _PERCENT:.4g}"
    if objective.metric is Metric.CACHE:
        return f"{objective.target * _PERCENT:.4g} % is the floor"
    return f"{share} % may"


def _limit_text(seconds: float) -> str:
    return f"{seconds * 1_000:g} ms" if seconds < 1 else f"{seconds:g} s"
