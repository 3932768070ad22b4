"""Calls that have ended, for trials of policies."""

from typing import Any, Final

from slo.budgets.budget import Subject
from slo.objectives.objective import CallMeasurements
from slo.trials.past_call import PastCall

CENT: Final = 10_000_000
#: Midnight of a day of UTC.
MIDNIGHT: Final = 1_790_035_200.0


def a_past_call(
    after: float = 0.0, *, team: str = "acme", feature: str = "chat", **more: Any
) -> PastCall:
    """A call that arrived so many seconds after midnight and cost a cent.

    Args:
        more: Fields of the call, and of its measurements.
    """
    measured = {
        "streamed": False,
        "ttft": 0.2,
        "total": 1.0,
        "failed": False,
        "hung_up": False,
        "cost_nanos": CENT,
        "prompt_tokens": 1_000,
        "cache_read": 0,
        "first_turn": True,
        "generated": True,
    }
    fields = {name: more.pop(name) for name in ("model", "tokens", "usage") if name in more}
    return PastCall(
        arrived=MIDNIGHT + after,
        subject=Subject(team=team, key=f"key_{team}", feature=feature),
        **{"model": "gpt-5.6", "tokens": 1_100, "usage": None, **fields},
        measurements=CallMeasurements(team=team, feature=feature, **{**measured, **more}),
    )
