"""The judge: from where an objective stands and what its levels' calls were like, where it goes.

Every decision takes evidence: too few calls change nothing. The bounds are one-sided and of 95
percent, see ``slo.wilson``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from slo import wilson
from slo.controller.pins import unpinned
from slo.controller.share import canary_share, next_share, ramp_share
from slo.controller.standing import CANARY, LONG, SHORT, Arm, Rules, Standing, State
from slo.tally import Counts

_NOTHING: Final = Arm()


def evaluate(standing: Standing, arms: Mapping[int, Arm], rules: Rules, now: float) -> Standing:
    """Where the objective stands now; the same object where nothing changes.

    Args:
        standing: Where it stood.
        arms: By level, what the calls there were like; a level without calls may be left out.
        rules: How it moves.
        now: The time. Where it is before the standing's own, that is moved back to it, so that a
            clock which went back keeps nothing waiting.
    """
    return _JUDGES[standing.state](_timely(standing, rules, now), arms, rules, now)


def _healthy(standing: Standing, arms: Mapping[int, Arm], rules: Rules, now: float) -> Standing:
    primary = arms.get(0, _NOTHING)
    if rules.rungs and _trips(primary, rules):
        relapses = standing.relapses + 1 if standing.until is not None else 0
        tripped = replace(standing, level=1, relapses=relapses)
        return _degraded(tripped, rules, now, _told(primary.short, SHORT, 0, rules))
    if standing.until is not None and now >= standing.until:
        return replace(standing, until=None, relapses=0)
    return standing


def _while_degraded(
    standing: Standing, arms: Mapping[int, Arm], rules: Rules, now: float
) -> Standing:
    if standing.until is None or now >= standing.until:
        primary, own = arms.get(0, _NOTHING), arms.get(standing.level, _NOTHING)
        canaries, seconds = _latest(
            ((primary.canary, CANARY), (primary.long, LONG)), rules.canary_least
        )
        if _is_within(canaries, rules) and not _is_surely_over(primary.short, rules):
            return _recovering(standing, rules, now, _told(canaries, seconds, 0, rules))
        if standing.level < rules.rungs and _trips(own, rules):
            why = _told(own.short, SHORT, standing.level, rules)
            return _degraded(replace(standing, level=standing.level + 1), rules, now, why)
    share = _tried(standing, arms, rules, now)
    return standing if share == standing.share else replace(standing, share=share)


def _while_recovering(
    standing: Standing, arms: Mapping[int, Arm], rules: Rules, now: float
) -> Standing:
    primary = arms.get(0, _NOTHING)
    spans = ((primary.short, SHORT), (primary.canary, CANARY), (primary.long, LONG))
    calls, seconds = _latest(spans, rules.least)
    if not calls.n:
        share = ramp_share(_tried(standing, arms, rules, now), rules)
        return standing if share <= standing.share else _stepped(standing, share, now)
    why = _told(calls, seconds, 0, rules)
    if _is_surely_over(calls, rules):
        relapsed = replace(standing, relapses=standing.relapses + 1)
        return _degraded(relapsed, rules, now, why)
    if now - standing.step_since < rules.step:
        return standing
    following = next_share(standing.share, rules)
    if following is not None:
        return _stepped(standing, following, now)
    return Standing(since=now, reason=why, relapses=standing.relapses, until=now + rules.forget)


def _held(standing: Standing, arms: Mapping[int, Arm], rules: Rules, now: float) -> Standing:
    """Frozen or pinned: nothing moves it, but the end of a pin."""
    if standing.state is State.PINNED and standing.until is not None and now >= standing.until:
        return unpinned(standing, now, rules)
    return standing


_Judge = Callable[[Standing, Mapping[int, Arm], Rules, float], Standing]

_JUDGES: Final[Mapping[State, _Judge]] = {
    State.HEALTHY: _healthy,
    State.DEGRADED: _while_degraded,
    State.RECOVERING: _while_recovering,
    State.FROZEN: _held,
    State.PINNED: _held,
}


def _degraded(standing: Standing, rules: Rules, now: float, why: str) -> Standing:
    """Degraded anew, at the level and with the relapses that it has."""
    return replace(
        standing,
        state=State.DEGRADED,
        since=now,
        reason=why,
        share=rules.canary_share,
        until=now + rules.dwelling(standing.relapses),
    )


def _recovering(standing: Standing, rules: Rules, now: float, why: str) -> Standing:
    """Recovering, from the first share that takes no calls from level 0 again."""
    return replace(
        standing,
        state=State.RECOVERING,
        since=now,
        reason=why,
        share=ramp_share(standing.share, rules),
        step_since=now,
        until=None,
    )


def _tried(standing: Standing, arms: Mapping[int, Arm], rules: Rules, now: float) -> float:
    """The share that should try level 0; as it is in the first minute, whose counts may be few."""
    if now - standing.since < SHORT:
        return standing.share
    return canary_share(standing.share, arms, rules)


def _stepped(standing: Standing, share: float, now: float) -> Standing:
    return replace(standing, share=share, step_since=now)


def _trips(arm: Arm, rules: Rules) -> bool:
    """Whether the level's calls are surely over budget now, and have been over it for long."""
    return (
        arm.short.n >= rules.trip_least
        and arm.long.share > rules.budget
        and _is_surely_over(arm.short, rules)
    )


def _is_surely_over(calls: Counts, rules: Rules) -> bool:
    """Whether so many were bad that it is hardly chance; never of fewer calls than the least."""
    return calls.n >= rules.least and wilson.lower(calls.bad, calls.n) > rules.budget


def _is_within(calls: Counts, rules: Rules) -> bool:
    """Whether there were calls, and no more of them bad than may be."""
    return calls.n > 0 and calls.share <= rules.budget


def _latest(spans: Iterable[tuple[Counts, float]], least: int) -> tuple[Counts, float]:
    """The first counts of so many calls, and the seconds they go back; none where all are fewer."""
    return next(((counts, back) for counts, back in spans if counts.n >= least), (Counts(), 0.0))


def _told(counts: Counts, seconds: float, level: int, rules: Rules) -> str:
    """The evidence, in one sentence of ASCII."""
    return (
        f"Of {counts.n} calls to level {level} in {seconds:.0f} s {counts.bad} were bad"
        f" ({100 * counts.share:.3g} %); {100 * rules.budget:.3g} % may be."
    )


def _timely(standing: Standing, rules: Rules, now: float) -> Standing:
    """The standing without times that lie ahead because the clock has gone back since."""
    longest = {
        State.HEALTHY: rules.forget,
        State.DEGRADED: rules.dwelling(standing.relapses),
    }.get(standing.state)
    until = standing.until
    if until is not None and longest is not None:
        until = min(until, now + longest)
    since, step_since = min(standing.since, now), min(standing.step_since, now)
    if (since, step_since, until) == (standing.since, standing.step_since, standing.until):
        return standing
    return replace(standing, since=since, step_since=step_since, until=until)
