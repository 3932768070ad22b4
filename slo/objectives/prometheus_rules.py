"""Rules for Prometheus, by which it alerts as the gateway does itself, from two counters of it.

``thriftgate_objective_good_total`` and ``thriftgate_objective_bad_total`` count events, which are
input tokens where the objective is a cache's, by ``objective``. Both must be there from the start:
a share of what is absent is absent.
"""

from collections.abc import Iterable
from typing import Any, Final

from slo.alert import RULE_NAMES
from slo.duration import format_duration
from slo.objectives.burn import (
    FLOOR_CLEARED_WINDOW_S,
    FLOOR_MISSED_WINDOW_S,
    MIN_BAD_EVENTS,
    MIN_EVENTS,
    burn_alerts,
    clear_share,
    short_window_s,
)
from slo.objectives.objective import BurnAlert, Enforce, Metric, Objective
from slo.objectives.openslo import objective_text
from slo.objectives.prometheus_spend_rules import escape_text, quoted_text
from slo.wilson import Z

GOOD_METRIC: Final = "thriftgate_objective_good_total"
BAD_METRIC: Final = "thriftgate_objective_bad_total"
TARGET_METRIC: Final = "thriftgate:objective_target:ratio"
BURN_ALERT_NAME: Final = RULE_NAMES["burn"]
FLOOR_ALERT_NAME: Final = RULE_NAMES["floor"]
#: No window is shorter: Prometheus evaluates every minute by default.
_SHORTEST: Final = 120.0

_BAD_NOW: Final = "Bad: {{ $value | humanizePercentage }}."

Rule = dict[str, Any]


def rule_groups(objectives: Iterable[Objective]) -> dict[str, list[Rule]]:
    """The groups of a rules file: recording rules, then alerts; none without objectives.

    An objective that is only observed is recorded and alerts no one.
    """
    every = tuple(objectives)
    if not every:
        return {"groups": []}
    recorded = [_target(objective) for objective in every]
    recorded += [rule for over in _windows(every) for rule in _counts(over)]
    alerts = [
        rule
        for objective in every
        if objective.enforce is not Enforce.OBSERVE
        for rule in _alerts(objective)
    ]
    # One group: what is told needs what was recorded in the same moment.
    return {"groups": [{"name": "thriftgate-objectives", "rules": [*recorded, *alerts]}]}


def lower_bound_expression(bad: str, events: str) -> str:
    """Our one-sided 95 percent bound of the share of bad events, as Prometheus reckons it."""
    half, quarter, whole = (f"{Z * Z / part:.12g}" for part in (2, 4, 1))
    spread = f"{Z:.12g} * sqrt({bad} * (1 - {bad} / {events}) + {quarter})"
    return f"({bad} + {half} - {spread}) / ({events} + {whole})"


def _windows(objectives: Iterable[Objective]) -> list[float]:
    windows: set[float] = set()
    for objective in objectives:
        if objective.metric is Metric.CACHE:
            windows |= {FLOOR_MISSED_WINDOW_S, FLOOR_CLEARED_WINDOW_S}
        for alert in burn_alerts(objective):
            windows |= {alert.over, _short(alert)}
    return sorted(windows)


def _short(alert: BurnAlert) -> float:
    return max(short_window_s(alert), _SHORTEST)


def _target(objective: Objective) -> Rule:
    labels = {"objective": objective.name}
    return {"record": TARGET_METRIC, "expr": f"vector({objective.target!r})", "labels": labels}


def _counts(over: float) -> list[Rule]:
    """Number of events, how many bad ones, their share, and its lower bound, by objective."""
    good, bad = (
        f"sum by (objective) (increase({counter}[{format_duration(over)}]))"
        for counter in (GOOD_METRIC, BAD_METRIC)
    )
    bad_ones, events = _name("bad:increase", over), _name("events:increase", over)
    return [
        {"record": bad_ones, "expr": bad},
        {"record": events, "expr": f"{good} + {bad}"},
        {"record": _name("bad:ratio", over), "expr": f"{bad_ones} / {events}"},
        {"record": _name("bad:lower", over), "expr": lower_bound_expression(bad_ones, events)},
    ]


def _name(what_of: str, over: float) -> str:
    return f"thriftgate:objective_{what_of}{format_duration(over)}"


def _alerts(objective: Objective) -> list[Rule]:
    if objective.metric is Metric.CACHE:
        return [_floor_missed_rules(objective)]
    return [_burns(objective, alert) for alert in burn_alerts(objective)]


def _burns(objective: Objective, alert: BurnAlert) -> Rule:
    # A share is 1 at most, and the largest burn is rounded: without the bound it might never come.
    threshold = f"{min(alert.burn * (1 - objective.target), 1.0):.9g}"
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
        f"{ratio} >= {threshold}",
        f"{lately} >= {threshold}",
        f"{bad} >= {MIN_BAD_EVENTS}",
        f"{events} >= {MIN_EVENTS}",
        f"{bound} > {1 - objective.target:.9g}",
    )
    summary = (
        f"its error budget burns {alert.burn:g} times too fast over {format_duration(alert.over)}"
    )
    return {
        "alert": BURN_ALERT_NAME,
        "expr": "\nand ".join(conditions),
        "labels": {
            "severity": str(alert.severity),
            "over": format_duration(alert.over),
            "burn": f"{alert.burn:g}",
            "objective": escape_text(objective.name),
        },
        "annotations": {
            "summary": escape_text(f"{objective.name}: {summary}"),
            "description": f"{escape_text(f'Wanted: {objective_text(objective)}.')} {_BAD_NOW}",
        },
    }


def _floor_missed_rules(objective: Objective) -> Rule:
    """Missed over an hour; the alert stays until a quarter of an hour was well above it."""
    bad, calls = _in_calls(objective, FLOOR_MISSED_WINDOW_S)
    unread, lately = _in_calls(objective, FLOOR_CLEARED_WINDOW_S)
    read = f"({lately} - {unread})"
    is_bad = f"{lower_bound_expression(bad, calls)} > {1 - objective.target:.9g}"
    is_read = f"{lower_bound_expression(read, lately)} >= {clear_share(objective)!r}"
    missed = f"{is_bad}\nand {calls} >= {MIN_EVENTS}"
    cleared = f"{is_read}\nand {lately} >= {MIN_EVENTS}"
    labels = f'alertname="{FLOOR_ALERT_NAME}",alertstate="firing"'
    firing = f"ALERTS{{{labels},objective={quoted_text(objective.name)}}}"
    return {
        "alert": FLOOR_ALERT_NAME,
        "expr": f"({missed})\nor\n(max by (objective) ({firing})\nunless ({cleared}))",
        "labels": {"severity": "ticket", "objective": escape_text(objective.name)},
        "annotations": {
            "summary": escape_text(f"{objective.name}: less is read from caches than its floor"),
            "description": escape_text(f"Wanted: {objective_text(objective)}."),
        },
    }


def _in_calls(objective: Objective, over: float) -> tuple[str, str]:
    """The bad calls and all calls: tokens ÷ the least length of a prompt that counts."""
    bad, events = (
        f"({_of(objective, name, over)} / {objective.min_prompt})"
        for name in ("bad:increase", "events:increase")
    )
    return bad, events


def _of(objective: Objective, name: str, over: float) -> str:
    return f"{_name(name, over)}{{objective={quoted_text(objective.name)}}}"
