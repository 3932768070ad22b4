"""Objectives as documents of OpenSLO v1.

::

    apiVersion: openslo/v1
    kind: SLO
    metadata:
      name: chat-ttft
      labels: {feature: chat}
      annotations:
        thriftgate.dev/enforce: degrade
        thriftgate.dev/ladder: requested,elsewhere,gpt-small
    spec:
      service: chat
      indicator:
        metadata: {name: chat-ttft}
        spec:
          ratioMetric:
            counter: true
            good: {metricSource: {type: thriftgate, spec: {sli: ttft, calls: streams, le: 0.5}}}
            total: {metricSource: {type: thriftgate, spec: {sli: ttft, calls: streams}}}
      timeWindow: [{duration: 28d, isRolling: true}]
      budgetingMethod: Occurrences
      objectives: [{displayName: p95 within 500ms, target: 0.95}]

What a document cannot say (what is done, the ladder, a floor's upper edge) is in annotations. A
limit, ``le``, is in seconds, or in dollars where it is a string.
Source: OpenSLO, README.md (2025-09).
"""

from collections.abc import Iterable
from typing import Any, Final

from slo.duration import format_duration
from slo.objectives.burn import FLOOR_MISSED_WINDOW_S
from slo.objectives.ladder_levels import REQUESTED
from slo.objectives.objective import EVERY, BurnAlert, Enforce, Metric, Objective
from slo.objectives.toml_writer import dollars_text, target_text

_API_VERSION: Final = "openslo/v1"
#: Before the names of our annotations.
_ANNOTATION_PREFIX: Final = "thriftgate.dev/"
#: The type of our metric sources.
_SOURCE_TYPE: Final = "thriftgate"
#: Length of an error budget, for readers who want one; here it has no end.
_TIME_WINDOW: Final = "28d"


def openslo_documents(objectives: Iterable[Objective]) -> list[dict[str, Any]]:
    """A document for each objective, of what YAML and JSON can say."""
    return [_document(objective) for objective in objectives]


def objective_text(objective: Objective) -> str:
    """The target in a few words: ``p95 of ttft within 500ms``."""
    share = target_text(objective).strip('"')
    if objective.metric is Metric.CACHE:
        return f"cache reads {share} of input tokens"
    if objective.metric is Metric.ERRORS:
        return f"at most {share} errors"
    if objective.under_nanos is not None:
        return f"p{share} of cost within ${dollars_text(objective.under_nanos)}"
    return f"p{share} of {objective.metric} within {format_duration(objective.under or 0.0)}"


def _escape_level(level: str) -> str:
    """The level's name, escaped for a list with commas."""
    return level.replace("%", "%25").replace(",", "%2C")


def _document(objective: Objective) -> dict[str, Any]:
    is_cache = objective.metric is Metric.CACHE
    target_fields: dict[str, Any] = {
        "displayName": objective_text(objective),
        "target": objective.target,
    }
    if is_cache:
        target_fields["timeSliceWindow"] = format_duration(FLOOR_MISSED_WINDOW_S)
    spec: dict[str, Any] = {
        "service": objective.feature if objective.feature not in {"", EVERY} else _SOURCE_TYPE,
        "indicator": _indicator(objective),
        "timeWindow": [{"duration": _TIME_WINDOW, "isRolling": True}],
        "budgetingMethod": "RatioTimeslices" if is_cache else "Occurrences",
        "objectives": [target_fields],
    }
    if objective.alerts:
        spec["alertPolicies"] = [
            _alert_policy(f"{objective.name}-{number}", alert)
            for number, alert in enumerate(objective.alerts, 1)
        ]
    metadata = {"name": objective.name, "labels": _labels(objective)}
    metadata["annotations"] = _annotations(objective)
    return {"apiVersion": _API_VERSION, "kind": "SLO", "metadata": metadata, "spec": spec}


def _labels(objective: Objective) -> dict[str, str]:
    named = {"team": objective.team, "feature": objective.feature}
    return {key: value for key, value in named.items() if value != EVERY}


def _annotations(objective: Objective) -> dict[str, str]:
    annotations = {f"{_ANNOTATION_PREFIX}enforce": str(objective.enforce)}
    if objective.ladder and not _goes_without_saying(objective):
        annotations[f"{_ANNOTATION_PREFIX}ladder"] = ",".join(
            [REQUESTED, *map(_escape_level, objective.ladder)]
        )
    for budget in objective.stages:
        annotations[f"{_ANNOTATION_PREFIX}stage-{budget.stage}"] = format_duration(budget.under)
    if objective.clear is not None:
        annotations[f"{_ANNOTATION_PREFIX}clear"] = repr(objective.clear)
    return annotations


def _goes_without_saying(objective: Objective) -> bool:
    return objective.enforce is Enforce.SHED and len(objective.ladder) == 1


def _indicator(objective: Objective) -> dict[str, Any]:
    total: dict[str, Any] = {"sli": str(objective.metric), "calls": str(objective.calls)}
    total |= _labels(objective)
    if objective.metric is Metric.CACHE:
        total["min_prompt"] = objective.min_prompt
    good = dict(total)
    if objective.under is not None:
        good["le"] = objective.under
    if objective.under_nanos is not None:
        good["le"] = dollars_text(objective.under_nanos)
    ratio = {"counter": True, "good": _source(good), "total": _source(total)}
    return {"metadata": {"name": objective.name}, "spec": {"ratioMetric": ratio}}


def _source(measured: dict[str, Any]) -> dict[str, Any]:
    return {"metricSource": {"type": _SOURCE_TYPE, "spec": measured}}


def _alert_policy(name: str, alert: BurnAlert) -> dict[str, Any]:
    burn = {"kind": "burnrate", "op": "gte", "threshold": alert.burn}
    burn["lookbackWindow"] = format_duration(alert.over)
    condition = {
        "kind": "AlertCondition",
        "metadata": {"name": name},
        "spec": {"severity": str(alert.severity), "condition": burn},
    }
    return {
        "kind": "AlertPolicy",
        "metadata": {"name": name},
        "spec": {
            "alertWhenBreaching": True,
            "alertWhenResolved": True,
            "alertWhenNoData": False,
            "conditions": [condition],
            "notificationTargets": [],
        },
    }
