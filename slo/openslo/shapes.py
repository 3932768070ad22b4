"""What is read of OpenSLO's documents, by their shapes; the rest of them is left alone."""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from slo.alert import Severity
from slo.objective import Calls, Metric
from slo.policies.table import NAME_PATTERN

_LONGEST = 200
T = TypeVar("T")
Text = Annotated[str, Meta(max_length=256)]


class Unsound(Exception):
    """A document that cannot be read, and why: the rest of a sentence about it."""


class Metadata(msgspec.Struct, frozen=True):
    """Whose name others refer to."""

    name: Annotated[str, Meta(pattern=f"^{NAME_PATTERN.pattern}$")]
    labels: dict[str, str | list[str]] = {}
    annotations: dict[str, str] = {}


class Document(msgspec.Struct, frozen=True, rename="camel"):
    """Any document, or one inside another."""

    metadata: Metadata
    spec: dict[str, Any]
    kind: Text = ""
    api_version: Text = ""


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What our metric sources measure; every word of it is ours."""

    sli: Metric
    le: float | str | None = None
    team: Text | None = None
    feature: Text | None = None
    calls: Calls | None = None
    min_prompt: int = 1024


class Source(msgspec.Struct, frozen=True):
    """Where a metric comes from."""

    spec: dict[str, Any]
    type: str = ""


class Half(msgspec.Struct, frozen=True, rename="camel"):
    """The good events, or all."""

    metric_source: Source


class Ratio(msgspec.Struct, frozen=True):
    """Good events of all."""

    good: Half
    total: Half


class Indicator(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of an SLI."""

    ratio_metric: Ratio


class Target(msgspec.Struct, frozen=True, rename="camel"):
    """One objective of an SLO: a share, or percents."""

    target: float | None = None
    target_percent: float | None = None


class Window(msgspec.Struct, frozen=True, rename="camel"):
    """How long an error budget lasts."""

    duration: str
    is_rolling: bool = False


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of an SLO."""

    objectives: Annotated[list[Target], Meta(min_length=1, max_length=1)]
    budgeting_method: Literal["Occurrences", "RatioTimeslices"] = "Occurrences"
    indicator: Document | None = None
    indicator_ref: str = ""
    time_window: list[Window] = []
    alert_policies: Annotated[list[dict[str, Any]], Meta(max_length=10)] = []


class Policy(msgspec.Struct, frozen=True):
    """The spec of an AlertPolicy."""

    conditions: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=1)]


class Burn(msgspec.Struct, frozen=True, rename="camel"):
    """When a condition holds."""

    op: Literal["gte", "gt", "lte", "lt"]
    threshold: float
    lookback_window: str
    kind: Literal["burnrate"] = "burnrate"
    alert_after: str = "0m"


class Condition(msgspec.Struct, frozen=True):
    """The spec of an AlertCondition."""

    severity: Severity
    condition: Burn


def converted(said: object, shape: type[T]) -> T:
    """What a parser gave, in this shape.

    Raises:
        Unsound: If it has another.
    """
    try:
        return msgspec.convert(said, shape)
    except msgspec.ValidationError as error:
        raise Unsound(f"is not as OpenSLO has it: {line(str(error))}") from None


def line(text: str) -> str:
    """The text on one line of at most 200 characters."""
    return "".join(each if each.isprintable() else " " for each in text)[:_LONGEST]
