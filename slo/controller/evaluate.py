"""Decides an objective's next state from its present state and its levels' recent counts.

Every decision takes evidence: too few calls change nothing. Bounds are one-sided at 95 percent, see
``slo.wilson``. The rules, each measured with ``python -m tests.bench.incident``:

- Breach. The short window must be surely over budget, and the last five minutes over it, too. That
  takes 17 seconds where two of three calls are slow; ten bad seconds alone change nothing.
- Few calls. With ``min_calls_to_trip`` calls (50 for a p95) or more, surely over budget is enough.
  With fewer, the breach must be gross: the lower bound is above the geometric mean of the budget
  and 1 (22 percent for a p95). These calls may span ten minutes, and the last ten must be bad, too.
  So a feature with two calls a minute can degrade.
- Recovery. Two minutes of canaries, at least 40, must be within budget; ``canary_share`` makes so
  many come. Rare canaries are taken from as far back as it takes, as a fixed five minutes would
  reach into the incident for three more. If all calls go to level 0 and are fewer than 40 in ten
  minutes, 20 are enough.
- Ramp. It continues from the share that canaries had; that step is not held again.
- Next level. Levels are judged side by side, each by its own recent calls. The dwell delays a
  recovery, not the next level: after ten seconds on a level, a gross breach of ten calls or more
  leads to the next one; after the dwell, a sure breach does. With all calls bad this takes 10 to 12
  seconds at 1 to 6 calls a second. A level whose calls of five minutes are bad is skipped. The last
  level is never left this way, and no lower one is tried before a recovery, so levels do not
  alternate.
- Relapses. After two relapses evidence and ramp steps take twice as long, then four times: else the
  controller would follow an unstable upstream at each turn.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from slo import wilson
from slo.budgets.tally import GoodBadCounts
from slo.controller.canary_share import canary_share, is_lately_bad, next_share, ramp_share
from slo.controller.pins import remove_pin
from slo.controller.state import (
    CANARY_WINDOW_S,
    LONG_WINDOW_S,
    MAX_WINDOW_S,
    SHORT_WINDOW_S,
    ControllerRules,
    ControllerSnapshot,
    ControllerState,
    LevelCounts,
)

_NO_COUNTS: Final = LevelCounts()
#: Factor from the seconds that show a breach to the longer span that must be over budget, too.
_LONG_TO_SHORT: Final = LONG_WINDOW_S / SHORT_WINDOW_S


class _Look(NamedTuple):
    """The arguments of ``evaluate``, whose state has no time ahead of now."""

    snapshot: ControllerSnapshot
    arms: Mapping[int, LevelCounts]
    rules: ControllerRules
    now: float


def evaluate(
    snapshot: ControllerSnapshot,
    arms: Mapping[int, LevelCounts],
    rules: ControllerRules,
    now: float,
) -> ControllerSnapshot:
    """The objective's next state; the same object if nothing changes.

    Args:
        arms: Recent counts by level; a level without calls may be left out.
        now: The time. Later times in the state are set back to it, so that nothing waits for a
            clock that was set back.
    """
    snapshot = _without_future_times(snapshot, rules, now)
    return _JUDGES[snapshot.state](_Look(snapshot, arms, rules, now))


def _evaluate_healthy(look: _Look) -> ControllerSnapshot:
    snapshot, arms, rules, now = look
    breach, seconds = _breach_calls(arms.get(0, _NO_COUNTS), rules)
    if rules.fallback_levels and breach.n:
        relapses = snapshot.relapses + 1 if snapshot.until is not None else 0
        tripped = replace(snapshot, level=_next_level(0, arms, rules), relapses=relapses)
        return _degrade(tripped, rules, now, _evidence_text(breach, seconds, 0, rules))
    if snapshot.until is not None and now >= snapshot.until:
        return replace(snapshot, until=None, relapses=0)
    return snapshot


def _evaluate_degraded(look: _Look) -> ControllerSnapshot:
    snapshot, arms, rules, now = look
    is_dwelling = snapshot.until is not None and now < snapshot.until
    if not is_dwelling:
        primary = arms.get(0, _NO_COUNTS)
        canaries, seconds = _canary_calls(primary, snapshot, rules)
        if _is_within(canaries, rules) and not _is_surely_over(
            primary.within(SHORT_WINDOW_S), rules
        ):
            return _begin_recovery(
                snapshot, rules, now, _evidence_text(canaries, seconds, 0, rules)
            )
    if snapshot.level < rules.fallback_levels and now - snapshot.since >= rules.settle_s:
        own = arms.get(snapshot.level, _NO_COUNTS)
        breach, seconds = _breach_calls(own, rules, is_new=is_dwelling)
        if breach.n:
            why = _evidence_text(breach, seconds, snapshot.level, rules)
            level = _next_level(snapshot.level, arms, rules)
            return _degrade(replace(snapshot, level=level), rules, now, why)
    share = canary_share(snapshot.share, arms, rules)
    return snapshot if share == snapshot.share else _set_share(snapshot, share, now)


def _evaluate_recovering(look: _Look) -> ControllerSnapshot:
    snapshot, arms, rules, now = look
    primary = arms.get(0, _NO_COUNTS)
    calls, seconds = primary.latest(rules.min_calls, SHORT_WINDOW_S)
    if not calls.n:
        share = ramp_share(canary_share(snapshot.share, arms, rules), rules)
        more = share > snapshot.share and not is_lately_bad(primary, rules)
        return _set_share(snapshot, share, now) if more else snapshot
    why = _evidence_text(calls, seconds, 0, rules)
    if _is_surely_over(calls, rules):
        relapsed = replace(snapshot, relapses=snapshot.relapses + 1)
        return _degrade(relapsed, rules, now, why)
    if now - snapshot.step_since < rules.ramp_step_s * rules.patience(snapshot.relapses):
        return snapshot
    following = next_share(snapshot.share, rules)
    if following is not None:
        return _set_share(snapshot, following, now)
    return ControllerSnapshot(
        since=now, reason=why, relapses=snapshot.relapses, until=now + rules.relapse_memory_s
    )


def _evaluate_held(look: _Look) -> ControllerSnapshot:
    """Frozen or pinned: only the end of a pin changes it."""
    snapshot, until = look.snapshot, look.snapshot.until
    has_ended = until is not None and look.now >= until
    if snapshot.state is ControllerState.PINNED and has_ended:
        return remove_pin(snapshot, look.now, look.rules)
    return snapshot


_JUDGES: Final[Mapping[ControllerState, Callable[[_Look], ControllerSnapshot]]] = {
    ControllerState.HEALTHY: _evaluate_healthy,
    ControllerState.DEGRADED: _evaluate_degraded,
    ControllerState.RECOVERING: _evaluate_recovering,
    ControllerState.FROZEN: _evaluate_held,
    ControllerState.PINNED: _evaluate_held,
}


def _degrade(
    snapshot: ControllerSnapshot, rules: ControllerRules, now: float, why: str
) -> ControllerSnapshot:
    """The state, degraded from now on, with its level and relapses."""
    return replace(
        snapshot,
        state=ControllerState.DEGRADED,
        since=now,
        reason=why,
        share=rules.canary_share,
        step_since=now,
        until=now + rules.dwell_time(snapshot.relapses),
    )


def _begin_recovery(
    snapshot: ControllerSnapshot, rules: ControllerRules, now: float, why: str
) -> ControllerSnapshot:
    """The state, recovering, at the first ramp share that is not below the canaries' share.

    Time that canaries had that share counts.
    """
    share = ramp_share(snapshot.share, rules)
    return replace(
        snapshot,
        state=ControllerState.RECOVERING,
        since=now,
        reason=why,
        share=share,
        step_since=snapshot.step_since if share == snapshot.share else now,
        until=None,
    )


def _set_share(snapshot: ControllerSnapshot, share: float, now: float) -> ControllerSnapshot:
    return replace(snapshot, share=share, step_since=now)


def _canary_calls(
    primary: LevelCounts, snapshot: ControllerSnapshot, rules: ControllerRules
) -> tuple[GoodBadCounts, float]:
    """The calls on level 0 that a recovery is judged by, and the seconds they go back.

    There are none if too few. If all calls go there and are too few in ten minutes, fewer are
    enough.
    """
    seconds = CANARY_WINDOW_S * rules.patience(snapshot.relapses)
    latest = primary.latest(rules.min_canary_calls, seconds)
    if latest[0].n or snapshot.share < 1.0:
        return latest
    return primary.latest(rules.min_calls, MAX_WINDOW_S)


def _next_level(level: int, arms: Mapping[int, LevelCounts], rules: ControllerRules) -> int:
    """The first level after this one that is not known to be bad, too; the last if all are."""
    for candidate in range(level + 1, rules.fallback_levels):
        breach, seconds = _breach_calls(arms.get(candidate, _NO_COUNTS), rules)
        if not breach.n or seconds > LONG_WINDOW_S:
            return candidate
    return rules.fallback_levels


def _breach_calls(
    arm: LevelCounts, rules: ControllerRules, *, is_new: bool = False
) -> tuple[GoodBadCounts, float]:
    """The calls that show a breach of the level, and the seconds they go back; none without one.

    These calls are surely over budget; the last of them are over it, and so is five times as long
    (ten minutes at most).

    Args:
        is_new: True for a level just entered: fewer calls are enough, if the breach is gross.
    """
    calls, seconds = arm.latest(
        rules.min_calls_if_gross if is_new else rules.min_calls, SHORT_WINDOW_S
    )
    newest, _ = arm.latest(rules.min_calls_if_gross)
    long = arm.within(max(_LONG_TO_SHORT * seconds, LONG_WINDOW_S))
    if (
        not _is_surely_over(calls, rules, is_new=is_new)
        or min(newest.share, long.share) <= rules.budget
    ):
        return GoodBadCounts(), 0.0
    return calls, seconds


def _is_surely_over(calls: GoodBadCounts, rules: ControllerRules, *, is_new: bool = False) -> bool:
    """True if too many were bad to be chance; never of fewer calls than the minimum."""
    least = rules.min_calls_if_gross if is_new else rules.min_calls
    budget = rules.gross_share if is_new or calls.n < rules.min_calls_to_trip else rules.budget
    return calls.n >= least and wilson.lower_bound(calls.bad, calls.n) > budget


def _is_within(calls: GoodBadCounts, rules: ControllerRules) -> bool:
    """True if there were calls and the share of bad ones is within the budget."""
    return calls.n > 0 and calls.share <= rules.budget


def _evidence_text(
    counts: GoodBadCounts, seconds: float, level: int, rules: ControllerRules
) -> str:
    """The evidence, in one sentence of ASCII."""
    return (
        f"Of {counts.n} calls on fallback level {level} in {seconds:.0f} s {counts.bad} were bad"
        f" ({100 * counts.share:.3g} %); {100 * rules.budget:.3g} % may be."
    )


def _without_future_times(
    snapshot: ControllerSnapshot, rules: ControllerRules, now: float
) -> ControllerSnapshot:
    """The state, with times that lie ahead after the clock was set back clamped to now."""
    longest = {
        ControllerState.HEALTHY: rules.relapse_memory_s,
        ControllerState.DEGRADED: rules.dwell_time(snapshot.relapses),
    }.get(snapshot.state)
    until = snapshot.until
    if until is not None and longest is not None:
        until = min(until, now + longest)
    since, step_since = min(snapshot.since, now), min(snapshot.step_since, now)
    if (since, step_since, until) == (snapshot.since, snapshot.step_since, snapshot.until):
        return snapshot
    return replace(snapshot, since=since, step_since=step_since, until=until)
