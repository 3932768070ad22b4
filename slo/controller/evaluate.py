"""The judge: from where an objective stands and what its levels' calls were like, where it goes.

Every decision takes evidence: too few calls change nothing. The bounds are one-sided and of 95
percent, see ``slo.wilson``. What the rules are as they are for, each measured with
``python -m tests.bench.incident``:

- A breach is also one of the budget of five minutes. That takes its time (17 seconds where two of
  three calls are slow), and is why ten awful seconds move nothing.
- Of as many calls as the rules say (50 of a p95) and more what is surely over budget is a breach.
  Twenty are looked at too often to be believed as easily, so fewer than the rules' least must be
  grossly over it: their lower bound is beyond the geometric mean of the budget and all (22 percent
  for a p95). They may be of ten minutes; the last ten of them show that it is still so. Two calls a
  minute can degrade like that.
- Level 0 is good again when two minutes of canaries are, and 40 of them at least. That so many come
  is what ``slo.controller.canary_share`` is for; where they are rare they are of the time that it
  takes, and not at once of five minutes, which reach into the incident for three more. Where all
  calls go to level 0 and are not 40 in ten minutes, 20 do: what two a minute degrade comes back.
- A share that canaries had already is not held anew: the ramp goes on from it.
- Levels are judged side by side, each by its own recent calls. The dwell delays a recovery, not
  the way down: a level that had its ten seconds and is grossly over budget, of ten calls or more,
  is passed over at once, after the dwell also one that is surely over it. All calls bad takes 10 to
  12 seconds at 1 to 6 calls a second. Less than gross would do it for a few bad seconds, for want
  of good minutes before them. A level that its calls of five minutes show to be bad is not tried.
  The last level is never passed over, and none above the present one is tried before a recovery,
  so that levels cannot take turns.
- Whoever relapsed twice is not believed as soon: evidence and steps of twice the length, then four
  times. Else an upstream that comes and goes would be followed, quickly, at each turn.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from slo import wilson
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
from slo.tally import GoodBadCounts

_NO_COUNTS: Final = LevelCounts()
#: How many times as long as what shows a breach must be over budget.
_LONG_TO_SHORT: Final = LONG_WINDOW_S / SHORT_WINDOW_S


def evaluate(
    standing: ControllerSnapshot,
    arms: Mapping[int, LevelCounts],
    rules: ControllerRules,
    now: float,
) -> ControllerSnapshot:
    """Where the objective stands now; the same object where nothing changes.

    Args:
        standing: Where it stood.
        arms: By level, what the calls there were like; a level without calls may be left out.
        rules: How it moves.
        now: The time. Where it is before the standing's own, that is moved back to it, so that a
            clock which went back keeps nothing waiting.
    """
    return _JUDGES[standing.state](_without_future_times(standing, rules, now), arms, rules, now)


def _evaluate_healthy(
    standing: ControllerSnapshot,
    arms: Mapping[int, LevelCounts],
    rules: ControllerRules,
    now: float,
) -> ControllerSnapshot:
    breach, seconds = _breach(arms.get(0, _NO_COUNTS), rules)
    if rules.fallback_levels and breach.n:
        relapses = standing.relapses + 1 if standing.until is not None else 0
        tripped = replace(standing, level=_next_level(0, arms, rules), relapses=relapses)
        return _degrade(tripped, rules, now, _evidence_text(breach, seconds, 0, rules))
    if standing.until is not None and now >= standing.until:
        return replace(standing, until=None, relapses=0)
    return standing


def _evaluate_degraded(
    standing: ControllerSnapshot,
    arms: Mapping[int, LevelCounts],
    rules: ControllerRules,
    now: float,
) -> ControllerSnapshot:
    is_dwelling = standing.until is not None and now < standing.until
    if not is_dwelling:
        primary = arms.get(0, _NO_COUNTS)
        canaries, seconds = _canaries(primary, standing, rules)
        if _is_within(canaries, rules) and not _is_surely_over(
            primary.within(SHORT_WINDOW_S), rules
        ):
            return _begin_recovery(
                standing, rules, now, _evidence_text(canaries, seconds, 0, rules)
            )
    if standing.level < rules.fallback_levels and now - standing.since >= rules.settle:
        own = arms.get(standing.level, _NO_COUNTS)
        breach, seconds = _breach(own, rules, is_new=is_dwelling)
        if breach.n:
            why = _evidence_text(breach, seconds, standing.level, rules)
            level = _next_level(standing.level, arms, rules)
            return _degrade(replace(standing, level=level), rules, now, why)
    share = canary_share(standing.share, arms, rules)
    return standing if share == standing.share else _set_share(standing, share, now)


def _evaluate_recovering(
    standing: ControllerSnapshot,
    arms: Mapping[int, LevelCounts],
    rules: ControllerRules,
    now: float,
) -> ControllerSnapshot:
    primary = arms.get(0, _NO_COUNTS)
    calls, seconds = primary.latest(rules.least, SHORT_WINDOW_S)
    if not calls.n:
        share = ramp_share(canary_share(standing.share, arms, rules), rules)
        more = share > standing.share and not is_lately_bad(primary, rules)
        return _set_share(standing, share, now) if more else standing
    why = _evidence_text(calls, seconds, 0, rules)
    if _is_surely_over(calls, rules):
        relapsed = replace(standing, relapses=standing.relapses + 1)
        return _degrade(relapsed, rules, now, why)
    if now - standing.step_since < rules.step * rules.patience(standing.relapses):
        return standing
    following = next_share(standing.share, rules)
    if following is not None:
        return _set_share(standing, following, now)
    return ControllerSnapshot(
        since=now, reason=why, relapses=standing.relapses, until=now + rules.forget
    )


def _evaluate_held(
    standing: ControllerSnapshot,
    arms: Mapping[int, LevelCounts],
    rules: ControllerRules,
    now: float,
) -> ControllerSnapshot:
    """Frozen or pinned: nothing moves it, but the end of a pin."""
    if (
        standing.state is ControllerState.PINNED
        and standing.until is not None
        and now >= standing.until
    ):
        return remove_pin(standing, now, rules)
    return standing


_Judge = Callable[
    [ControllerSnapshot, Mapping[int, LevelCounts], ControllerRules, float], ControllerSnapshot
]

_JUDGES: Final[Mapping[ControllerState, _Judge]] = {
    ControllerState.HEALTHY: _evaluate_healthy,
    ControllerState.DEGRADED: _evaluate_degraded,
    ControllerState.RECOVERING: _evaluate_recovering,
    ControllerState.FROZEN: _evaluate_held,
    ControllerState.PINNED: _evaluate_held,
}


def _degrade(
    standing: ControllerSnapshot, rules: ControllerRules, now: float, why: str
) -> ControllerSnapshot:
    """Degraded anew, at the level and with the relapses that it has."""
    return replace(
        standing,
        state=ControllerState.DEGRADED,
        since=now,
        reason=why,
        share=rules.canary_share,
        step_since=now,
        until=now + rules.dwell_time(standing.relapses),
    )


def _begin_recovery(
    standing: ControllerSnapshot, rules: ControllerRules, now: float, why: str
) -> ControllerSnapshot:
    """Recovering, from the first share that takes no calls from level 0 again.

    How long canaries had that share counts.
    """
    share = ramp_share(standing.share, rules)
    return replace(
        standing,
        state=ControllerState.RECOVERING,
        since=now,
        reason=why,
        share=share,
        step_since=standing.step_since if share == standing.share else now,
        until=None,
    )


def _set_share(standing: ControllerSnapshot, share: float, now: float) -> ControllerSnapshot:
    return replace(standing, share=share, step_since=now)


def _canaries(
    primary: LevelCounts, standing: ControllerSnapshot, rules: ControllerRules
) -> tuple[GoodBadCounts, float]:
    """The calls to level 0 that a recovery is judged by, and the seconds they go back.

    There are none of them where there are too few. Where all calls go there and are not as many in
    ten minutes, fewer are enough.
    """
    wanted = CANARY_WINDOW_S * rules.patience(standing.relapses)
    found = primary.latest(rules.canary_least, wanted)
    if found[0].n or standing.share < 1.0:
        return found
    return primary.latest(rules.least, MAX_WINDOW_S)


def _next_level(level: int, arms: Mapping[int, LevelCounts], rules: ControllerRules) -> int:
    """The first level below this one that is not known to be as bad; the last where all are."""
    for each in range(level + 1, rules.fallback_levels):
        breach, seconds = _breach(arms.get(each, _NO_COUNTS), rules)
        if not breach.n or seconds > LONG_WINDOW_S:
            return each
    return rules.fallback_levels


def _breach(
    arm: LevelCounts, rules: ControllerRules, *, is_new: bool = False
) -> tuple[GoodBadCounts, float]:
    """The calls that show that the level is over budget, and the seconds they go back.

    They surely are now, five times as long was over budget (ten minutes at most), and so are the
    last of them. There are no such calls where that is not so.

    Args:
        arm: The level's calls.
        rules: How many calls show what.
        is_new: Whether it was just entered: fewer calls do, if they are grossly over budget.
    """
    calls, seconds = arm.latest(rules.few if is_new else rules.least, SHORT_WINDOW_S)
    newest, _ = arm.latest(rules.few)
    long = arm.within(max(_LONG_TO_SHORT * seconds, LONG_WINDOW_S))
    if (
        not _is_surely_over(calls, rules, is_new=is_new)
        or min(newest.share, long.share) <= rules.budget
    ):
        return GoodBadCounts(), 0.0
    return calls, seconds


def _is_surely_over(calls: GoodBadCounts, rules: ControllerRules, *, is_new: bool = False) -> bool:
    """True if so many were bad that it is hardly chance; never of fewer calls than the least."""
    least = rules.few if is_new else rules.least
    budget = rules.gross_share if is_new or calls.n < rules.trip_least else rules.budget
    return calls.n >= least and wilson.lower_bound(calls.bad, calls.n) > budget


def _is_within(calls: GoodBadCounts, rules: ControllerRules) -> bool:
    """True if there were calls, and no more of them bad than may be."""
    return calls.n > 0 and calls.share <= rules.budget


def _evidence_text(
    counts: GoodBadCounts, seconds: float, level: int, rules: ControllerRules
) -> str:
    """The evidence, in one sentence of ASCII."""
    return (
        f"Of {counts.n} calls to rung {level} in {seconds:.0f} s {counts.bad} were bad"
        f" ({100 * counts.share:.3g} %); {100 * rules.budget:.3g} % may be."
    )


def _without_future_times(
    standing: ControllerSnapshot, rules: ControllerRules, now: float
) -> ControllerSnapshot:
    """The standing without times that lie ahead because the clock has gone back since."""
    longest = {
        ControllerState.HEALTHY: rules.forget,
        ControllerState.DEGRADED: rules.dwell_time(standing.relapses),
    }.get(standing.state)
    until = standing.until
    if until is not None and longest is not None:
        until = min(until, now + longest)
    since, step_since = min(standing.since, now), min(standing.step_since, now)
    if (since, step_since, until) == (standing.since, standing.step_since, standing.until):
        return standing
    return replace(standing, since=since, step_since=step_since, until=until)
