"""The shapes of OpenSLO's documents, as far as they are read."""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from slo.alert import Severity
from slo.objective import Metric, RequestKind
from slo.policies.table import NAME_PATTERN

_MAX_LINE_CHARS = 200
T = TypeVar("T")
Text = Annotated[str, Meta(max_length=256)]


class InvalidOpenSlo(Exception):
    """A document that cannot be read, and why: the rest of a sentence about it."""


class OpenSloMetadata(msgspec.Struct, frozen=True):
    """Whose name others refer to."""

    name: Annotated[str, Meta(pattern=f"^{NAME_PATTERN.pattern}$")]
    labels: dict[str, str | list[str]] = {}
    annotations: dict[str, str] = {}


class OpenSloDocument(msgspec.Struct, frozen=True, rename="camel"):
    """Any document, or one inside another."""

    metadata: OpenSloMetadata
    spec: dict[str, Any]
    kind: Text = ""
    api_version: Text = ""


class MeasuredSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The measurement in a metric source of type ``thriftgate``, in this gateway's own words."""

    sli: Metric
    le: float | str | None = None
    team: Text | None = None
    feature: Text | None = None
    calls: RequestKind | None = None
    min_prompt: int = 1024


class MetricSource(msgspec.Struct, frozen=True):
    """Where a metric comes from."""

    spec: dict[str, Any]
    type: str = ""


class RatioPart(msgspec.Struct, frozen=True, rename="camel"):
    """The good events, or all."""

    metric_source: MetricSource


class RatioMetric(msgspec.Struct, frozen=True):
    """Good events of all."""

    good: RatioPart
    total: RatioPart


class IndicatorSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of an SLI."""

    ratio_metric: RatioMetric


class SloTarget(msgspec.Struct, frozen=True, rename="camel"):
    """One objective of an SLO: a share, or percents."""

    target: float | None = None
    target_percent: float | None = None


class ErrorBudgetWindow(msgspec.Struct, frozen=True, rename="camel"):
    """The time window of an error budget."""

    duration: str
    is_rolling: bool = False


class SloSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of an SLO."""

    objectives: Annotated[list[SloTarget], Meta(min_length=1, max_length=1)]
    budgeting_method: Literal["Occurrences", "RatioTimeslices"] = "Occurrences"
    indicator: OpenSloDocument | None = None
    indicator_ref: str = ""
    time_window: list[ErrorBudgetWindow] = []
    alert_policies: Annotated[list[dict[str, Any]], Meta(max_length=10)] = []


class AlertPolicySpec(msgspec.Struct, frozen=True):
    """The spec of an AlertPolicy."""

    conditions: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=1)]


class BurnCondition(msgspec.Struct, frozen=True, rename="camel"):
    """When a condition holds."""

    op: Literal["gte", "gt", "lte", "lt"]
    threshold: float
    lookback_window: str
    kind: Literal["burnrate"] = "burnrate"
    alert_after: str = "0m"


class AlertConditionSpec(msgspec.Struct, frozen=True):
    """The spec of an AlertCondition."""

    severity: Severity
    condition: BurnCondition


def convert_document(said: object, shape: type[T]) -> T:
    """The parsed document in this shape.

    Raises:
        Unsound: If it has another.
    """
    try:
        return msgspec.convert(said, shape)
    except msgspec.ValidationError as error:
        raise InvalidOpenSlo(f"is not as OpenSLO has it: {single_line(str(error))}") from None


def single_line(text: str) -> str:
    """The text on one line of at most 200 characters."""
    return "".join(each if each.isprintable() else " " for each in text)[:_MAX_LINE_CHARS]
