"""Rules for Prometheus, by which it alerts as the gateway does itself, from two counters of it.

``thriftgate_objective_good_total`` and ``thriftgate_objective_bad_total`` count events, which are
input tokens where the objective is a cache's, by ``objective``. Both must be there from the start:
a share of what is absent is absent.
"""

from collections.abc import Iterable
from typing import Any, Final

from slo.burn import CLEARED_OVER, FEW, FEWEST_BAD, MISSED_OVER, alerts, clear, short
from slo.duration import format_duration
from slo.objective import BurnAlert, Enforce, Metric, Objective
from slo.openslo.documents import what
from slo.wilson import Z

GOOD: Final = "thriftgate_objective_good_total"
BAD: Final = "thriftgate_objective_bad_total"
TARGET: Final = "thriftgate:objective_target:ratio"
BURNS: Final = "ThriftgateBudgetBurns"
MISSED: Final = "ThriftgateFloorMissed"
#: No window is shorter: Prometheus asks every minute, if nobody told it otherwise.
_SHORTEST: Final = 120.0

_BAD_NOW: Final = "Bad: {{ $value | humanizePercentage }}."

Rule = dict[str, Any]


def rules(objectives: Iterable[Objective]) -> dict[str, list[Rule]]:
    """The groups of a file of rules: what is recorded, then what is told; none of no objectives.

    An objective that is only observed is recorded and told nobody.
    """
    every = tuple(objectives)
    if not every:
        return {"groups": []}
    recorded = [_target(each) for each in every]
    recorded += [rule for over in _windows(every) for rule in _counts(over)]
    told = [rule for each in every if each.enforce is not Enforce.OBSERVE for rule in _alerts(each)]
    # One group: what is told needs what was recorded in the same moment.
    return {"groups": [{"name": "thriftgate-objectives", "rules": [*recorded, *told]}]}


def lower(bad: str, events: str) -> str:
    """Our one-sided 95 percent bound of the share of bad events, as Prometheus reckons it.

    Args:
        bad: An expression, how many were bad.
        events: An expression, how many there were.
    """
    half, quarter, whole = (f"{Z * Z / part:.12g}" for part in (2, 4, 1))
    spread = f"{Z:.12g} * sqrt({bad} * (1 - {bad} / {events}) + {quarter})"
    return f"({bad} + {half} - {spread}) / ({events} + {whole})"


def _windows(objectives: Iterable[Objective]) -> list[float]:
    found: set[float] = set()
    for each in objectives:
        if each.metric is Metric.CACHE:
            found |= {MISSED_OVER, CLEARED_OVER}
        for alert in alerts(each):
            found |= {alert.over, _short(alert)}
    return sorted(found)


def _short(alert: BurnAlert) -> float:
    return max(short(alert), _SHORTEST)


def _target(objective: Objective) -> Rule:
    labels = {"objective": objective.name}
    return {"record": TARGET, "expr": f"vector({objective.target!r})", "labels": labels}


def _counts(over: float) -> list[Rule]:
    """Number of events, how many bad ones, their share, and its lower bound, by objective."""
    good, bad = (
        f"sum by (objective) (increase({counter}[{format_duration(over)}]))"
        for counter in (GOOD, BAD)
    )
    bad_ones, events = _name("bad:increase", over), _name("events:increase", over)
    return [
        {"record": bad_ones, "expr": bad},
        {"record": events, "expr": f"{good} + {bad}"},
        {"record": _name("bad:ratio", over), "expr": f"{bad_ones} / {events}"},
        {"record": _name("bad:lower", over), "expr": lower(bad_ones, events)},
    ]


def _name(what_of: str, over: float) -> str:
    return f"thriftgate:objective_{what_of}{format_duration(over)}"


def _alerts(objective: Objective) -> list[Rule]:
    if objective.metric is Metric.CACHE:
        return [_missed(objective)]
    return [_burns(objective, alert) for alert in alerts(objective)]


def _burns(objective: Objective, alert: BurnAlert) -> Rule:
    wanted = f"{alert.burn * (1 - objective.target):.9g}"
    ratio, lately, bad, events, bound = (
        _of(objective, name, over)
        for name, over in (
            ("bad:ratio", alert.over),
            ("bad:ratio", _short(alert)),
            ("bad:increase", alert.over),
            ("events:increase", alert.over),
            ("bad:lower", alert.over),
        )
    )
    conditions = (
        f"{ratio} >= {wanted}",
        f"{lately} >= {wanted}",
        f"{bad} >= {FEWEST_BAD}",
        f"{events} >= {FEW}",
        f"{bound} > {1 - objective.target:.9g}",
    )
    told = (
        f"its error budget burns {alert.burn:g} times too fast over {format_duration(alert.over)}"
    )
    return {
        "alert": BURNS,
        "expr": "\nand ".join(conditions),
        "labels": {
            "severity": str(alert.severity),
            "over": format_duration(alert.over),
            "burn": f"{alert.burn:g}",
            "objective": _text(objective.name),
        },
        "annotations": {
            "summary": _text(f"{objective.name}: {told}"),
            "description": f"{_text(f'Wanted: {what(objective)}.')} {_BAD_NOW}",
        },
    }


def _missed(objective: Objective) -> Rule:
    """Missed over an hour; from then on told until a quarter of an hour was well above it."""
    bad, calls = _in_calls(objective, MISSED_OVER)
    unread, lately = _in_calls(objective, CLEARED_OVER)
    read = f"({lately} - {unread})"
    missed = f"{lower(bad, calls)} > {1 - objective.target:.9g}\nand {calls} >= {FEW}"
    cleared = f"{lower(read, lately)} >= {clear(objective)!r}\nand {lately} >= {FEW}"
    told = f'ALERTS{{alertname="{MISSED}",alertstate="firing",objective={_quoted(objective)}}}'
    return {
        "alert": MISSED,
        "expr": f"({missed})\nor\n(max by (objective) ({told})\nunless ({cleared}))",
        "labels": {"severity": "ticket", "objective": _text(objective.name)},
        "annotations": {
            "summary": _text(f"{objective.name}: less is read from caches than was promised"),
            "description": _text(f"Wanted: {what(objective)}."),
        },
    }


def _in_calls(objective: Objective, over: float) -> tuple[str, str]:
    """Number of calls were bad, and all: tokens, as calls of the least length that counts."""
    bad, events = (
        f"({_of(objective, name, over)} / {objective.min_prompt})"
        for name in ("bad:increase", "events:increase")
    )
    return bad, events


def _of(objective: Objective, name: str, over: float) -> str:
    return f"{_name(name, over)}{{objective={_quoted(objective)}}}"


def _text(said: str) -> str:
    """The text as it stands in an annotation or an alert's label, which are templates."""
    return said.replace("{{", '{{ "{{" }}')


def _quoted(objective: Objective) -> str:
    escaped = objective.name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
