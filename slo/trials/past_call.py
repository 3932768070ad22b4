"""A call that has ended, as trials of policies need it."""

import msgspec

from slo.budgets.budget import Subject
from slo.objectives.objective import CallMeasurements
from slo.usage import Usage


class PastCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has ended.

    Attributes:
        arrived: Seconds since the epoch.
        subject: Its team by name, key, feature and end user; labels are unknown.
        model: The public name that the caller asked for.
        tokens: In all buckets, of all attempts.
        usage: That of its last attempt; None where it used none.
        measurements: As objectives judge them; they have its cost.
    """

    arrived: float
    subject: Subject
    model: str
    tokens: int
    usage: Usage | None
    measurements: CallMeasurements

    @property
    def cost_nanos(self) -> int | None:
        """Cost of all its attempts in nano-dollars; None where a price is unknown."""
        return self.measurements.cost_nanos


class TrialSums(msgspec.Struct, kw_only=True):
    """A number of calls and their known cost in nano-dollars."""

    calls: int = 0
    nanos: int = 0

    def add(self, call: PastCall) -> None:
        """Count one more call."""
        self.calls += 1
        self.nanos += call.cost_nanos or 0
