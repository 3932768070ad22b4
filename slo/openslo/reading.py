"""Reads documents of OpenSLO v1 as objectives; names every part that cannot be read.

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
from slo.objective import EVERY, BurnAlert, Enforce, Metric, Objective, RequestKind
from slo.objective_validation import validate_objective
from slo.openslo.documents import (
    ANNOTATION_PREFIX,
    API_VERSION,
    SOURCE_TYPE,
    TIME_WINDOW,
    unescape_level,
)
from slo.openslo.shapes import (
    AlertConditionSpec,
    AlertPolicySpec,
    IndicatorSpec,
    InvalidOpenSlo,
    MeasuredSource,
    OpenSloDocument,
    OpenSloMetadata,
    SloSpec,
    SloTarget,
    convert_document,
    single_line,
)
from slo.policies.table import describe_value, nanos_of_dollars, suggestion

#: Documents read at once.
_MAX_DOCUMENTS: Final = 1_000
#: Kinds that SLOs are made of, and how they are referred to.
_REFERENCES: Final = {
    "SLI": "indicatorRef",
    "AlertPolicy": "alertPolicyRef",
    "AlertCondition": "conditionRef",
}
_ANNOTATIONS: Final = tuple(f"{ANNOTATION_PREFIX}{name}" for name in ("enforce", "ladder", "clear"))


class OpenSloImport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading OpenSLO documents.

    Attributes:
        objectives: Those that could be read.
        refused: Why the others could not, a sentence each.
        passed_over: What has no meaning here, a sentence each.
    """

    objectives: tuple[Objective, ...]
    refused: tuple[str, ...]
    skipped: tuple[str, ...]


class _Reader:
    """Documents being read; those that others refer to are found by kind and name."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], OpenSloDocument] = {}
        self.skipped: list[str] = []

    def objective(self, document: OpenSloDocument) -> Objective:
        """The objective of an SLO.

        Raises:
            Unsound: If it is none that can be kept here.
        """
        spec = convert_document(document.spec, SloSpec)
        name = document.metadata.name
        if any(
            (each.duration, each.is_rolling) != (TIME_WINDOW, True) for each in spec.time_window
        ):
            self.skipped.append(f"SLO {name}: its timeWindow; error budgets have no end here.")
        measured = self._measured_source(spec)
        made = _build_objective(document.metadata, measured, _share(spec.objectives[0]))
        alerts = [self._alert(policy, name) for policy in spec.alert_policies]
        made = msgspec.structs.replace(made, alerts=tuple(alerts))
        found = validate_objective(made)
        if found:
            raise InvalidOpenSlo("; ".join(f"{each.key} {each.what}: {each.fix}" for each in found))
        return made

    def _measured_source(self, spec: SloSpec) -> MeasuredSource:
        indicator = spec.indicator or self._document_named("SLI", spec.indicator_ref)
        if "thresholdMetric" in indicator.spec:
            raise InvalidOpenSlo("has a thresholdMetric: write a ratioMetric of good and total")
        ratio = convert_document(indicator.spec, IndicatorSpec).ratio_metric
        source = ratio.good.metric_source
        if source.type != SOURCE_TYPE:
            told = (
                f"is measured by {describe_value(source.type)}, and only what passes here is judged"
            )
            raise InvalidOpenSlo(f"{told}: write a metricSource of type {SOURCE_TYPE}")
        return convert_document(source.spec, MeasuredSource)

    def _alert(self, policy: Mapping[str, Any], name: str) -> BurnAlert:
        conditions = convert_document(
            self._inline_or_referenced("AlertPolicy", policy).spec, AlertPolicySpec
        ).conditions
        condition = convert_document(
            self._inline_or_referenced("AlertCondition", conditions[0]).spec, AlertConditionSpec
        )
        burn = condition.condition
        over = parse_duration(burn.lookback_window)
        if over is None:
            raise InvalidOpenSlo(
                f"lookbackWindow is {describe_value(burn.lookback_window)}: write 30m"
            )
        if parse_duration(burn.alert_after) != 0:
            self.skipped.append(
                f"SLO {name}: alertAfter; the last twelfth of the window is looked at."
            )
        if burn.op != "gte":
            self.skipped.append(f"SLO {name}: op {burn.op}; it is read as gte.")
        return BurnAlert(burn=burn.threshold, over=over, severity=condition.severity)

    def _inline_or_referenced(self, kind: str, said: Mapping[str, Any]) -> OpenSloDocument:
        """A document inside another, or the one that it refers to."""
        reference = _REFERENCES[kind]
        if reference in said:
            return self._document_named(kind, said[reference])
        return convert_document(said, OpenSloDocument)

    def _document_named(self, kind: str, name: object) -> OpenSloDocument:
        found = self.known.get((kind, name)) if isinstance(name, str) else None
        if found is None:
            raise InvalidOpenSlo(f"needs the {kind} {describe_value(name)}: give its document, too")
        return found


def read_openslo(documents: Sequence[object]) -> OpenSloImport:
    """The objectives of these documents, as a YAML or JSON parser gave them."""
    reader = _Reader()
    refused: list[str] = []
    slos: list[OpenSloDocument] = []
    if len(documents) > _MAX_DOCUMENTS:
        refused.append(f"The file has over {_MAX_DOCUMENTS:,} documents: split it.")
    for number, each in enumerate(documents[:_MAX_DOCUMENTS], 1):
        try:
            found = convert_document(each, OpenSloDocument)
            _reader_and_slos(found, reader, slos)
        except InvalidOpenSlo as why:
            refused.append(f"Document {number} {why}.")
    objectives: dict[str, Objective] = {}
    for document in slos:
        name = document.metadata.name
        try:
            if name in objectives:
                raise InvalidOpenSlo("names a second SLO: give each a name of its own")  # noqa: TRY301 - told like the rest
            objectives[name] = reader.objective(document)
        except InvalidOpenSlo as why:
            refused.append(f"SLO {name} {why}.")
    return OpenSloImport(
        objectives=tuple(objectives.values()),
        refused=tuple(refused),
        skipped=tuple(reader.skipped),
    )


def _reader_and_slos(
    document: OpenSloDocument, reader: _Reader, slos: list[OpenSloDocument]
) -> None:
    kind, name = document.kind, document.metadata.name
    if document.api_version != API_VERSION:
        told = describe_value(document.api_version)
        raise InvalidOpenSlo(f"has the apiVersion {told}: write {API_VERSION}")
    if kind == "SLO":
        slos.append(document)
    elif kind in _REFERENCES:
        reader.known[kind, name] = document
    else:
        reader.skipped.append(
            f"{single_line(kind) or 'Document'} {name}: its kind says nothing here."
        )


def _build_objective(
    metadata: OpenSloMetadata, measured: MeasuredSource, target: float
) -> Objective:
    said = metadata.annotations
    for key in said:
        if key.startswith(ANNOTATION_PREFIX) and key not in _ANNOTATIONS:
            raise InvalidOpenSlo(
                f"has the annotation {describe_value(key)}: {suggestion(key, _ANNOTATIONS)}"
            )
    metric = measured.sli
    enforce = _enforce(said.get(f"{ANNOTATION_PREFIX}enforce", Enforce.ALERT))
    default = RequestKind.STREAMS if metric is Metric.TTFT else RequestKind.ALL
    return Objective(
        name=metadata.name,
        team=_filter_name(measured.team, metadata, "team"),
        feature=_filter_name(measured.feature, metadata, "feature"),
        calls=measured.calls or default,
        metric=metric,
        target=target,
        under=None if metric is Metric.COST else _under(measured.le),
        under_nanos=_nanos(measured.le) if metric is Metric.COST else None,
        clear=_clear(said.get(f"{ANNOTATION_PREFIX}clear")),
        min_prompt=measured.min_prompt,
        enforce=enforce,
        ladder=effective_ladder(enforce, _ladder(said.get(f"{ANNOTATION_PREFIX}ladder", ""))),
    )


def _enforce(said: str) -> Enforce:
    if said not in list(Enforce):
        raise InvalidOpenSlo(
            f"is enforced by {describe_value(said)}: {suggestion(said, list(Enforce))}"
        )
    return Enforce(said)


def _filter_name(named: str | None, metadata: OpenSloMetadata, key: str) -> str:
    if named is not None:
        return named
    label = metadata.labels.get(key, EVERY)
    if not isinstance(label, str):
        raise InvalidOpenSlo(f"has several labels {key}: write one SLO for each")
    if len(label) > 256:
        raise InvalidOpenSlo(f"has a label {key} that is too long: write 256 characters at most")
    return label


def _ladder(said: str) -> tuple[str, ...]:
    levels = tuple(unescape_level(each.strip()) for each in said.split(",")) if said else ()
    levels = levels[1:] if levels[:1] == (REQUESTED,) else levels
    if not all(map(is_name, levels)):
        raise InvalidOpenSlo("has a level without a name: write elsewhere, models, shed")
    return levels


def _under(said: float | str | None) -> float | None:
    if isinstance(said, str):
        raise InvalidOpenSlo(
            f"has the limit {describe_value(said)}: write le in seconds, such as 0.5"
        )
    return None if said is None else round(said, 9)


def _nanos(said: float | str | None) -> int | None:
    exact = nanos_of_dollars(said)
    if exact is None:
        raise InvalidOpenSlo('has no limit in dollars: write le: "0.05"')
    return exact


def _clear(said: str | None) -> float | None:
    try:
        return None if said is None else float(said)
    except ValueError:
        raise InvalidOpenSlo(
            f"clears at {describe_value(said)}: write a share such as 0.73"
        ) from None


def _share(said: SloTarget) -> float:
    if said.target_percent is not None and said.target is None:
        return float(Decimal(repr(said.target_percent)) / 100)
    if said.target is None or said.target_percent is not None:
        raise InvalidOpenSlo("has no target, or two: write target: 0.95")
    return said.target
