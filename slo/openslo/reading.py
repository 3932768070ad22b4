"""Documents of OpenSLO v1, read as objectives; what cannot be is told, and nothing is dropped.

Only what this gateway measures can be an objective here: ratios whose source is of the type
``thriftgate``, as ``slo.openslo.documents`` writes them. Policies, conditions and indicators may
stand inside an SLO or in documents of their own.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from slo.duration import parse_duration
from slo.ladder_levels import REQUESTED, effective_ladder, is_name
from slo.objective import EVERY, BurnAlert, Calls, Enforce, Metric, Objective
from slo.objective_validation import validate_objective
from slo.openslo.documents import API_VERSION, PREFIX, SOURCE, WINDOW, unescaped
from slo.openslo.shapes import (
    Condition,
    Document,
    Indicator,
    Measured,
    Metadata,
    Policy,
    Spec,
    Target,
    Unsound,
    converted,
    line,
)
from slo.policies.table import describe_value, nanos_of_dollars, suggestion

#: Documents read at once.
_MOST: Final = 1_000
#: Kinds that SLOs are made of, and how they are referred to.
_REFERENCES: Final = {
    "SLI": "indicatorRef",
    "AlertPolicy": "alertPolicyRef",
    "AlertCondition": "conditionRef",
}
_ANNOTATIONS: Final = tuple(f"{PREFIX}{name}" for name in ("enforce", "ladder", "clear"))


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What documents say.

    Attributes:
        objectives: Those that could be read.
        refused: Why the others could not, a sentence each.
        passed_over: What has no meaning here, a sentence each.
    """

    objectives: tuple[Objective, ...]
    refused: tuple[str, ...]
    passed_over: tuple[str, ...]


class _Reader:
    """Documents being read; those that others refer to are found by kind and name."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Document] = {}
        self.passed_over: list[str] = []

    def objective(self, document: Document) -> Objective:
        """The objective of an SLO.

        Raises:
            Unsound: If it is none that can be kept here.
        """
        spec = converted(document.spec, Spec)
        name = document.metadata.name
        if any((each.duration, each.is_rolling) != (WINDOW, True) for each in spec.time_window):
            self.passed_over.append(f"SLO {name}: its timeWindow; error budgets have no end here.")
        measured = self._measured(spec)
        made = _made(document.metadata, measured, _share(spec.objectives[0]))
        alerts = [self._alert(policy, name) for policy in spec.alert_policies]
        made = msgspec.structs.replace(made, alerts=tuple(alerts))
        found = validate_objective(made)
        if found:
            raise Unsound("; ".join(f"{each.key} {each.what}: {each.fix}" for each in found))
        return made

    def _measured(self, spec: Spec) -> Measured:
        indicator = spec.indicator or self._named("SLI", spec.indicator_ref)
        if "thresholdMetric" in indicator.spec:
            raise Unsound("has a thresholdMetric: write a ratioMetric of good and total")
        ratio = converted(indicator.spec, Indicator).ratio_metric
        source = ratio.good.metric_source
        if source.type != SOURCE:
            told = (
                f"is measured by {describe_value(source.type)}, and only what passes here is judged"
            )
            raise Unsound(f"{told}: write a metricSource of type {SOURCE}")
        return converted(source.spec, Measured)

    def _alert(self, policy: Mapping[str, Any], name: str) -> BurnAlert:
        conditions = converted(self._own("AlertPolicy", policy).spec, Policy).conditions
        condition = converted(self._own("AlertCondition", conditions[0]).spec, Condition)
        burn = condition.condition
        over = parse_duration(burn.lookback_window)
        if over is None:
            raise Unsound(f"lookbackWindow is {describe_value(burn.lookback_window)}: write 30m")
        if parse_duration(burn.alert_after) != 0:
            self.passed_over.append(
                f"SLO {name}: alertAfter; the last twelfth of the window is looked at."
            )
        if burn.op != "gte":
            self.passed_over.append(f"SLO {name}: op {burn.op}; it is read as gte.")
        return BurnAlert(burn=burn.threshold, over=over, severity=condition.severity)

    def _own(self, kind: str, said: Mapping[str, Any]) -> Document:
        """A document inside another, or the one that it refers to."""
        reference = _REFERENCES[kind]
        if reference in said:
            return self._named(kind, said[reference])
        return converted(said, Document)

    def _named(self, kind: str, name: object) -> Document:
        found = self.known.get((kind, name)) if isinstance(name, str) else None
        if found is None:
            raise Unsound(f"needs the {kind} {describe_value(name)}: give its document, too")
        return found


def read(documents: Sequence[object]) -> Reading:
    """The objectives of these documents, as a YAML or JSON parser gave them."""
    reader = _Reader()
    refused: list[str] = []
    slos: list[Document] = []
    if len(documents) > _MOST:
        refused.append(f"The file has over {_MOST:,} documents: split it.")
    for number, each in enumerate(documents[:_MOST], 1):
        try:
            found = converted(each, Document)
            _sorted(found, reader, slos)
        except Unsound as why:
            refused.append(f"Document {number} {why}.")
    objectives: dict[str, Objective] = {}
    for document in slos:
        name = document.metadata.name
        try:
            if name in objectives:
                raise Unsound("names a second SLO: give each a name of its own")  # noqa: TRY301 - told like the rest
            objectives[name] = reader.objective(document)
        except Unsound as why:
            refused.append(f"SLO {name} {why}.")
    return Reading(
        objectives=tuple(objectives.values()),
        refused=tuple(refused),
        passed_over=tuple(reader.passed_over),
    )


def _sorted(document: Document, reader: _Reader, slos: list[Document]) -> None:
    kind, name = document.kind, document.metadata.name
    if document.api_version != API_VERSION:
        told = describe_value(document.api_version)
        raise Unsound(f"has the apiVersion {told}: write {API_VERSION}")
    if kind == "SLO":
        slos.append(document)
    elif kind in _REFERENCES:
        reader.known[kind, name] = document
    else:
        reader.passed_over.append(f"{line(kind) or 'Document'} {name}: its kind says nothing here.")


def _made(metadata: Metadata, measured: Measured, target: float) -> Objective:
    said = metadata.annotations
    for key in said:
        if key.startswith(PREFIX) and key not in _ANNOTATIONS:
            raise Unsound(
                f"has the annotation {describe_value(key)}: {suggestion(key, _ANNOTATIONS)}"
            )
    metric = measured.sli
    enforce = _enforce(said.get(f"{PREFIX}enforce", Enforce.ALERT))
    default = Calls.STREAMS if metric is Metric.TTFT else Calls.ALL
    return Objective(
        name=metadata.name,
        team=_whose(measured.team, metadata, "team"),
        feature=_whose(measured.feature, metadata, "feature"),
        calls=measured.calls or default,
        metric=metric,
        target=target,
        under=None if metric is Metric.COST else _under(measured.le),
        under_nanos=_nanos(measured.le) if metric is Metric.COST else None,
        clear=_clear(said.get(f"{PREFIX}clear")),
        min_prompt=measured.min_prompt,
        enforce=enforce,
        ladder=effective_ladder(enforce, _ladder(said.get(f"{PREFIX}ladder", ""))),
    )


def _enforce(said: str) -> Enforce:
    if said not in list(Enforce):
        raise Unsound(f"is enforced by {describe_value(said)}: {suggestion(said, list(Enforce))}")
    return Enforce(said)


def _whose(named: str | None, metadata: Metadata, key: str) -> str:
    if named is not None:
        return named
    label = metadata.labels.get(key, EVERY)
    if not isinstance(label, str):
        raise Unsound(f"has several labels {key}: write one SLO for each")
    if len(label) > 256:
        raise Unsound(f"has a label {key} that is too long: write 256 characters at most")
    return label


def _ladder(said: str) -> tuple[str, ...]:
    rungs = tuple(unescaped(rung.strip()) for rung in said.split(",")) if said else ()
    rungs = rungs[1:] if rungs[:1] == (REQUESTED,) else rungs
    if not all(map(is_name, rungs)):
        raise Unsound("has a rung without a name: write elsewhere, models, shed")
    return rungs


def _under(said: float | str | None) -> float | None:
    if isinstance(said, str):
        raise Unsound(f"has the limit {describe_value(said)}: write le in seconds, such as 0.5")
    return None if said is None else round(said, 9)


def _nanos(said: float | str | None) -> int | None:
    exact = nanos_of_dollars(said)
    if exact is None:
        raise Unsound('has no limit in dollars: write le: "0.05"')
    return exact


def _clear(said: str | None) -> float | None:
    try:
        return None if said is None else float(said)
    except ValueError:
        raise Unsound(f"clears at {describe_value(said)}: write a share such as 0.73") from None


def _share(said: Target) -> float:
    if said.target_percent is not None and said.target is None:
        return float(Decimal(repr(said.target_percent)) / 100)
    if said.target is None or said.target_percent is not None:
        raise Unsound("has no target, or two: write target: 0.95")
    return said.target
