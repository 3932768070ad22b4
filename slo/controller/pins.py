"""Pins and freezes: changes of an objective's state that its own calls do not decide.

An operator sets a pin; a freeze holds while there are no counts. A pinned objective does not
freeze.
"""

from typing import Final

from msgspec.structs import replace

from slo.controller.state import ControllerRules, ControllerSnapshot, ControllerState

MAX_REASON_CHARS: Final = 200
"""Characters of an operator's reason."""


def apply_pin(
    snapshot: ControllerSnapshot, level: int, until: float, since: float, why: str
) -> ControllerSnapshot:
    """The state, pinned: every new conversation gets this level until then.

    Args:
        snapshot: The state so far; its relapses stay counted.
        level: 0 or more; above the highest there is, it is the highest.
        why: The reason; cut to ``MAX_REASON_CHARS`` characters of printable ASCII.

    Raises:
        ValueError: If the level is below 0.
    """
    if level < 0:
        raise ValueError(f"there is no level {level}")
    reason = _printable_reason(why)
    is_pinned = snapshot.state is ControllerState.PINNED
    return ControllerSnapshot(
        state=ControllerState.PINNED,
        level=level,
        since=since,
        reason=f"Pinned to fallback level {level}" + (f": {reason}" if reason else "."),
        relapses=snapshot.relapses,
        share=0.0,
        until=until,
        previous_state=snapshot.previous_state
        if is_pinned or snapshot.state is ControllerState.FROZEN
        else snapshot.state,
        previous_level=snapshot.previous_level if is_pinned else snapshot.level,
        previous_share=snapshot.previous_share if is_pinned else snapshot.share,
        previous_until=snapshot.previous_until if is_pinned else snapshot.until,
    )


def remove_pin(
    snapshot: ControllerSnapshot, now: float, rules: ControllerRules
) -> ControllerSnapshot:
    """The state from before the pin; the same object if there is no pin.

    State, level and share are restored. A step of recovery begins anew; a dwell does not, as it
    passed during the pin.
    """
    if snapshot.state is not ControllerState.PINNED:
        return snapshot
    state, level = (
        snapshot.previous_state or ControllerState.HEALTHY,
        min(snapshot.previous_level, rules.fallback_levels),
    )
    if state is ControllerState.HEALTHY or not level:
        state, level, share = ControllerState.HEALTHY, 0, 1.0
    else:
        share = snapshot.previous_share
    return ControllerSnapshot(
        state=state,
        level=level,
        since=now,
        reason=f"The pin to fallback level {snapshot.level} has ended.",
        relapses=snapshot.relapses,
        share=share,
        step_since=now,
        until=snapshot.previous_until,
    )


def freeze_state(snapshot: ControllerSnapshot, now: float, why: str) -> ControllerSnapshot:
    """The state, frozen: level and share stay; the same object if it is frozen or pinned.

    It freezes while there is nothing to judge by: the clock jumped, the store is unreachable, or
    there was no call for 15 minutes.
    """
    if snapshot.state in (ControllerState.FROZEN, ControllerState.PINNED):
        return snapshot
    reason = _printable_reason(why)
    return replace(
        snapshot,
        state=ControllerState.FROZEN,
        since=now,
        reason=f"Frozen: {reason}" if reason else "Frozen.",
        previous_state=snapshot.state,
    )


def thaw_state(snapshot: ControllerSnapshot, now: float) -> ControllerSnapshot:
    """The state from before the freeze; the same object if it is not frozen.

    A step of recovery begins anew. A dwell does not, as the level was kept during the freeze.
    """
    if snapshot.state is not ControllerState.FROZEN:
        return snapshot
    return replace(
        snapshot,
        state=snapshot.previous_state or ControllerState.HEALTHY,
        since=now,
        reason="Thawed: there are calls to judge by again.",
        step_since=now,
        previous_state=None,
    )


def _printable_reason(why: str) -> str:
    """The reason in printable ASCII, on one line, so that it can stand in a header."""
    words = " ".join(why[: 4 * MAX_REASON_CHARS].split())
    return "".join(char if " " <= char <= "~" else "?" for char in words)[:MAX_REASON_CHARS]
