"""Stages of a call's time, each with a budget; and the stage that made calls late.

A self-hosted engine reports how long a call was in its queue, in prefill and in decode. So a
latency objective can give each stage a part of its limit. The stage that broke a late call is, of
those over their budgets, the one that is over by most.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

#: Late calls of an objective that are looked at to name a stage.
_MAX_RECENT: Final = 100
#: Part of them that a stage must have broken to be named.
_NAMED_SHARE: Final = 0.5


class Stage(StrEnum):
    """A stage of a call's time, in the order in which they pass."""

    GATEWAY = "gateway"
    QUEUE = "queue"
    PREFILL = "prefill"
    DECODE = "decode"
    TRANSFER = "transfer"


#: Stages that pass before the first token.
STAGES_OF_TTFT: Final = frozenset({Stage.GATEWAY, Stage.QUEUE, Stage.PREFILL})


class StageBudget(msgspec.Struct, frozen=True):
    """Seconds that a stage may take."""

    stage: Stage
    under: float


class BrokenStage(NamedTuple):
    """The stage that most late calls broke lately.

    Attributes:
        calls: Late calls that broke it.
        of: Late calls that were looked at.
    """

    stage: Stage
    calls: int
    of: int

    def text(self) -> str:
        """The same in words: ``queue, in 41 of 50 late calls``."""
        return f"{self.stage}, in {self.calls} of {self.of} late calls"


def broken_stage(budgets: Iterable[StageBudget], phases: Mapping[Stage, float]) -> Stage | None:
    """The stage that is over its budget by most; None where none is, as far as is known.

    Args:
        phases: Seconds of those stages that are known.
    """
    over = [(phases.get(budget.stage, 0.0) - budget.under, budget.stage) for budget in budgets]
    late = [stage_excess for stage_excess in over if stage_excess[0] > 0]
    return max(late, key=lambda stage_excess: stage_excess[0])[1] if late else None


class StageMisses:
    """Stages that late calls broke, by objective.

    Attributes:
        totals: Late calls by objective and stage; "other" where no stage was over its budget.
    """

    def __init__(self) -> None:
        self.totals: Counter[tuple[str, str]] = Counter()
        self._recent: dict[str, deque[Stage | None]] = {}

    def note(self, objective: str, stage: Stage | None) -> None:
        """Note a late call of an objective and the stage that broke it; None for no stage."""
        self.totals[objective, str(stage or "other")] += 1
        self._recent.setdefault(objective, deque(maxlen=_MAX_RECENT)).append(stage)

    def most_broken(self, objective: str) -> BrokenStage | None:
        """The stage that at least half of the last late calls broke; None where there is none."""
        recent = self._recent.get(objective)
        counts = Counter(stage for stage in recent or () if stage is not None)
        if not recent or not counts:
            return None
        stage, calls = counts.most_common(1)[0]
        is_named = calls >= _NAMED_SHARE * len(recent)
        return BrokenStage(stage, calls, len(recent)) if is_named else None
