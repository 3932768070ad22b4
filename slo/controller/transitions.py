"""Changes of state and level, for alerts and logs."""

import msgspec

from slo.controller.state import ControllerSnapshot, ControllerState


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of state or level; a change of share alone is none.

    Attributes:
        after: The state it is in; the same if only the level changed.
        at: Time of the transition, in seconds since 1970.
    """

    before: ControllerState
    after: ControllerState
    level_before: int
    level: int
    at: float
    reason: str


def state_change(before: ControllerSnapshot, after: ControllerSnapshot) -> StateChange | None:
    """The change between two snapshots; None if state and level are the same."""
    if (before.state, before.level) == (after.state, after.level):
        return None
    return StateChange(
        before=before.state,
        after=after.state,
        level_before=before.level,
        level=after.level,
        at=after.since,
        reason=after.reason,
    )
