"""What makes an objective unsound: what could never be missed, kept or told of."""

from collections.abc import Callable

import msgspec

from slo import rungs
from slo.burn import HIGHEST, LONGEST, SHORTEST, TOLERANCE, alerts, clear, largest
from slo.objective import BurnAlert, Enforce, Metric, Objective
from slo.reservations import MOST

#: Targets that can be shown to be missed: of less than one event in 100,000 nothing is known soon.
_LEAST, _MOST = 0.01, 0.99999
_DAY = 86_400.0
_TARGETS = {Metric.ERRORS: "at_most", Metric.CACHE: "floor"}


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is unsound.

    Attributes:
        key: The entry at fault, as files of promises name it.
        what: What is wrong, as the rest of a sentence about it.
        mend: What to do about it, as an imperative.
    """

    key: str
    what: str
    mend: str


def flaws(objective: Objective) -> tuple[Flaw, ...]:
    """Everything that is unsound; () for an objective that can be kept watch over."""
    found = [flaw for check in _CHECKS for flaw in check(objective)]
    if not any(flaw.key == target_key(objective.metric) for flaw in found):
        found += [flaw for alert in objective.alerts for flaw in of_alert(alert, objective)]
        found += _floor(objective)
    return tuple(found)


def target_key(metric: Metric) -> str:
    """What files of promises call the target of this metric: ``p``, ``at_most`` or ``floor``."""
    return _TARGETS.get(metric, "p")


def of_alert(alert: BurnAlert, objective: Objective) -> list[Flaw]:
    """Why this alert could never come, or always would; its keys are ``burn`` and ``over``.

    Args:
        alert: It need not be one of the objective's.
        objective: One with a sound target.
    """
    most = largest(objective.target)
    told = f"write a burn from 1 to {most:.6g}"
    found = []
    if not alert.burn <= most + TOLERANCE:
        what = (
            f"is {alert.burn:g}, which can never come: where a share of {objective.target:.6g}"
            f" is wanted, the largest possible burn is {most:.6g}"
        )
        usual = alerts(msgspec.structs.replace(objective, alerts=()))
        named = ", ".join(f"{each.burn:g}" for each in usual)
        found.append(Flaw(key="burn", what=what, mend=f"{told}; usual are {named}"))
    elif alert.burn < 1:
        what = f"is {alert.burn:g}, which comes while the objective is kept"
        found.append(Flaw(key="burn", what=what, mend=told))
    if not SHORTEST <= alert.over <= LONGEST or alert.over % 60:
        what = "is no time that is counted"
        mend = 'write whole minutes, from "2m" to "3d"'
        found.append(Flaw(key="over", what=what, mend=mend))
    return found


def _target(objective: Objective) -> list[Flaw]:
    key = target_key(objective.metric)
    least, most = _LEAST, HIGHEST if objective.metric is Metric.CACHE else _MOST
    if objective.target <= 0:
        what = "is kept whatever happens"
    elif objective.target >= 1:
        what = "leaves nothing to go wrong, so one bad event breaks it for good"
    elif not least <= objective.target <= most:
        what = "is nearer to nothing or to all than can be counted"
    else:
        return []
    low, high = (1 - most, 1 - least) if key == "at_most" else (least, most)
    percents = "" if key == "floor" else " percent"
    scale = 1 if key == "floor" else 100
    mend = f"write from {low * scale:.6g} to {high * scale:.6g}{percents}"
    return [Flaw(key=key, what=what, mend=mend)]


def _limit(objective: Objective) -> list[Flaw]:
    metric, under, nanos = objective.metric, objective.under, objective.under_nanos
    mend = 'write under = "500ms" for a time, under = "0.05" for dollars'
    has = (under is not None, nanos is not None)
    if has != (metric in {Metric.TTFT, Metric.TOTAL}, metric is Metric.COST):
        what = "is no limit of this metric" if any(has) else "is missing"
        return [Flaw(key="under", what=what, mend=mend)]
    if under is not None and not 0 < under <= _DAY:
        return [Flaw(key="under", what="is above a day, or nothing", mend=mend)]
    if nanos is not None and not 1 <= nanos <= MOST:
        return [Flaw(key="under", what="is beyond what is counted, or nothing", mend=mend)]
    return []


def _cached(objective: Objective) -> list[Flaw]:
    """What is wrong with what only a cache has, or has not."""
    if objective.metric is not Metric.CACHE:
        mend = 'leave it out, or write metric = "cache"'
        what = "is of a cache alone"
        return [Flaw(key="clear", what=what, mend=mend)] if objective.clear is not None else []
    found = []
    if objective.min_prompt < 1:
        found.append(Flaw(key="min_prompt", what="is no length", mend="write 1 or more"))
    if objective.enforce in {Enforce.DEGRADE, Enforce.SHED}:
        what = "would change the model, whose cache then knows even less"
        found.append(Flaw(key="enforce", what=what, mend='write enforce = "alert"'))
    if objective.alerts:
        what = "speaks of burns, and a floor has no error budget to burn"
        found.append(Flaw(key="alert_at", what=what, mend="leave it out"))
    return found


def _floor(objective: Objective) -> list[Flaw]:
    if objective.metric is not Metric.CACHE:
        return []
    edge = clear(objective)
    if not objective.target < edge:
        what = "is not above the floor, which would be missed and kept at once"
        return [Flaw(key="clear", what=what, mend=f"write more than {objective.target:g}")]
    if edge > HIGHEST:
        what = "is more than calls can show, so the floor would never be kept again"
        return [Flaw(key="clear", what=what, mend=f"write at most {HIGHEST:g}")]
    return []


def _ladder(objective: Objective) -> list[Flaw]:
    found = rungs.flaw(objective.enforce, objective.ladder)
    return [Flaw(key="ladder", what=found[0], mend=found[1])] if found else []


_CHECKS: tuple[Callable[[Objective], list[Flaw]], ...] = (_target, _limit, _cached, _ladder)
