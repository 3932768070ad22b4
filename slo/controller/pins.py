"""What moves a standing from outside: a pin, which somebody sets, and a freeze, for want of counts.

A pin is stronger: what is pinned does not freeze.
"""

from typing import Final

from msgspec.structs import replace

from slo.controller.state import ControllerRules, ControllerSnapshot, ControllerState

MAX_REASON_CHARS: Final = 200
"""Characters of a reason that somebody gives."""


def apply_pin(
    standing: ControllerSnapshot, level: int, until: float, since: float, why: str
) -> ControllerSnapshot:
    """The standing, pinned: every new conversation gets this level until then.

    Args:
        standing: As it stands; relapses stay counted.
        level: 0 or more; above the highest there is, it is the highest.
        until: When the pin ends by itself.
        since: When it was set.
        why: What somebody says is the reason; the first so many characters, those of ASCII.

    Raises:
        ValueError: If the level is below 0.
    """
    if level < 0:
        raise ValueError(f"there is no level {level}")
    reason = _printable_reason(why)
    is_pinned = standing.state is ControllerState.PINNED
    return ControllerSnapshot(
        state=ControllerState.PINNED,
        level=level,
        since=since,
        reason=f"Pinned to rung {level}: {reason}" if reason else f"Pinned to rung {level}.",
        relapses=standing.relapses,
        share=0.0,
        until=until,
        was=standing.was
        if is_pinned or standing.state is ControllerState.FROZEN
        else standing.state,
        was_level=standing.was_level if is_pinned else standing.level,
        was_share=standing.was_share if is_pinned else standing.share,
        was_until=standing.was_until if is_pinned else standing.until,
    )


def remove_pin(
    standing: ControllerSnapshot, now: float, rules: ControllerRules
) -> ControllerSnapshot:
    """The standing where it was before the pin; the same one if it has none.

    It has the state, the level and the share that it had, and goes on by evidence. A step of
    recovery begins anew; a dwell does not, for it passed while it was pinned.
    """
    if standing.state is not ControllerState.PINNED:
        return standing
    state, level = (
        standing.was or ControllerState.HEALTHY,
        min(standing.was_level, rules.fallback_levels),
    )
    if state is ControllerState.HEALTHY or not level:
        state, level, share = ControllerState.HEALTHY, 0, 1.0
    else:
        share = standing.was_share
    return ControllerSnapshot(
        state=state,
        level=level,
        since=now,
        reason=f"The pin to rung {standing.level} has ended.",
        relapses=standing.relapses,
        share=share,
        step_since=now,
        until=standing.was_until,
    )


def freeze_state(standing: ControllerSnapshot, now: float, why: str) -> ControllerSnapshot:
    """The standing, frozen: levels and shares stay; the same one if it is frozen or pinned.

    For when there is nothing to judge by: a clock that jumped or differs from the others', a store
    that is gone, no call for a quarter of an hour.
    """
    if standing.state in (ControllerState.FROZEN, ControllerState.PINNED):
        return standing
    reason = _printable_reason(why)
    return replace(
        standing,
        state=ControllerState.FROZEN,
        since=now,
        reason=f"Frozen: {reason}" if reason else "Frozen.",
        was=standing.state,
    )


def thaw_state(standing: ControllerSnapshot, now: float) -> ControllerSnapshot:
    """The standing as it was before it froze; the same one if it is not frozen.

    A step of recovery begins anew. A dwell does not: the level was kept all the while.
    """
    if standing.state is not ControllerState.FROZEN:
        return standing
    return replace(
        standing,
        state=standing.was or ControllerState.HEALTHY,
        since=now,
        reason="Thawed: there is something to judge by again.",
        step_since=now,
        was=None,
    )


def _printable_reason(why: str) -> str:
    """The reason in printable ASCII, on one line, so that it can stand in a header."""
    words = " ".join(why[: 4 * MAX_REASON_CHARS].split())
    return "".join(each if " " <= each <= "~" else "?" for each in words)[:MAX_REASON_CHARS]
