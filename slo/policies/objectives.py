"""The objectives of a policies file."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from slo.alert import Severity
from slo.budgets.counter import MAX_AMOUNT
from slo.budgets.stages import Stage, StageBudget
from slo.decimals import nanos_of_dollars, whole_number
from slo.objectives.ladder_levels import ELSEWHERE, SHED, effective_ladder, is_name
from slo.objectives.objective import (
    STAGE_METRICS,
    BurnAlert,
    Enforce,
    Metric,
    Objective,
    RequestKind,
)
from slo.objectives.objective_validation import alert_problem, target_key, validate_objective
from slo.policies.entries import FEATURE, TEAM, duration, name_field
from slo.toml.fields import Field, keys, one_of, read_fields
from slo.toml.table_reader import TableReader, describe_value

_MAX_ALERTS: Final = 10
#: Stand-ins, each of them sound with whatever else is said.
_SHARE, _FLOOR, _SECONDS, _NANOS, _BURN = 0.99999, 0.01, 600.0, 1, 1.0
#: Keys of a target in the file; the rest of a metric's fields has the objective's own names.
_TARGETS: Final = ("p", "at_most", "floor")


def objective(table: TableReader) -> Objective:
    """The objective of a table, with stand-ins where it has problems."""
    values = read_fields(table, _COMMON)
    metric: Metric | None = values["metric"]
    default = RequestKind.STREAMS if metric is Metric.TTFT else RequestKind.ALL
    values["calls"] = values["calls"] or default
    values["ladder"] = effective_ladder(values["enforce"], values["ladder"])
    if metric is None:
        return Objective(**values | {"metric": Metric.ERRORS, "target": _SHARE})
    fields = _METRIC_FIELDS[metric]
    for key in table.nodes.keys() & set(keys(FIELDS)) - set(keys((*_COMMON, *fields))):
        table.add_problem(key, f"says nothing of {metric}", "leave it out")
    for field in fields:
        if field is not _ALERT_AT:
            name = "target" if field.key in _TARGETS else field.key
            values["under_nanos" if field is _UNDER_COST else name] = field.read(table)
    candidate = Objective(**values)
    problems = validate_objective(candidate)
    for problem in problems:
        table.add_problem(*problem)
    if _ALERT_AT not in fields or any(problem.key == target_key(metric) for problem in problems):
        return candidate
    return replace(candidate, alerts=_alerts(table, candidate))


def _stages(table: TableReader, field: Field) -> tuple[StageBudget, ...]:
    """Budgets of stages, in the order of the stages."""
    inner = TableReader(table.nodes[field.key], tuple(Stage), table.problems)
    return tuple(
        StageBudget(stage, Field(stage, duration, _SECONDS, "", example="100ms").read(inner))
        for stage in Stage
        if stage in inner.nodes
    )


def _share(table: TableReader, field: Field) -> float | None:
    """A number as a share of good events; ``1%`` is 0.01."""
    value = table.nodes[field.key].value
    is_percent = isinstance(value, str) and value.endswith("%")
    number = _number(value[:-1] if is_percent else value, is_text=is_percent)
    if number is None:
        table.add_problem(field.key, f"is {describe_value(value)}", f"write {field.example}")
        return None
    share = number / (100 if is_percent or field.key == "p" else 1)
    return float(1 - share if field.key == "at_most" else share)


def _number(value: object, *, is_text: bool = False) -> Decimal | None:
    """A number that is not beyond all measure; None of anything else.

    Args:
        is_text: True if it is the text of a number.
    """
    if isinstance(value, bool) or not isinstance(value, str if is_text else int | float | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return None
    return number if number.is_finite() and abs(number) <= 10**6 else None


def _nanos(table: TableReader, field: Field) -> int | None:
    value = table.nodes[field.key].value
    nanos = nanos_of_dollars(value)
    if nanos is None or not 1 <= nanos <= MAX_AMOUNT:
        fix = 'write dollars above 0 of at most 9 decimals as a string: under = "0.05"'
        table.add_problem(field.key, f"is {describe_value(value)}", fix)
        return None
    return nanos


def _min_prompt(table: TableReader, field: Field) -> int | None:
    value = table.nodes[field.key].value
    tokens = whole_number(value)
    if tokens is None or not 1 <= tokens <= MAX_AMOUNT:
        table.add_problem(field.key, f"is {describe_value(value)}", "write tokens, 1 or more")
        return None
    return tokens


def _ladder(table: TableReader, field: Field) -> tuple[str, ...]:
    levels = [node.value for node in table.elements(field.key)]
    is_array = isinstance(table.nodes[field.key].value, list)
    if is_array and all(isinstance(level, str) and is_name(level) for level in levels):
        return tuple(levels)
    if is_array:
        fix = 'write "elsewhere", models, "shed"'
        table.add_problem(field.key, "has a level without a name", fix)
    return ELSEWHERE, SHED


def _alerts(table: TableReader, candidate: Objective) -> tuple[BurnAlert, ...]:
    tables = table.tables("alert_at", keys(ALERT_FIELDS))
    if len(tables) > _MAX_ALERTS:
        table.add_problem("alert_at", f"has over {_MAX_ALERTS} alerts", "leave some out")
    alerts = []
    for alert_table in tables[:_MAX_ALERTS]:
        alert = BurnAlert(**read_fields(alert_table, ALERT_FIELDS))
        for problem in alert_problem(alert, candidate):
            alert_table.add_problem(*problem)
        alerts.append(alert)
    return tuple(alerts)


def _burn(table: TableReader, field: Field) -> float | None:
    value = table.nodes[field.key].value
    number = _number(value)
    if number is None:
        table.add_problem(field.key, f"is {describe_value(value)}", "write a number: burn = 6")
    return None if number is None else float(number)


def _target(key: str, example: str, stand_in: float, meaning: str) -> Field:
    return Field(key, _share, stand_in, meaning, missing=f"write {example}", example=example)


_COMMON: Final = (
    name_field("chat-ttft"),
    TEAM,
    FEATURE,
    Field(
        "calls",
        RequestKind,
        None,
        "`all`, `streams`, `whole` (answers that are not streamed)",
        shown='`"streams"` for `ttft`, else `"all"`',
    ),
    Field("metric", Metric, None, f"`{'`, `'.join(Metric)}`", missing=one_of(Metric)),
    Field(
        "enforce",
        Enforce,
        Enforce.ALERT,
        "`observe`, `alert`, `degrade`, `shed`; for `cache` only the first two",
    ),
    Field(
        "ladder",
        _ladder,
        (),
        "fallback levels, at most 8, such as `elsewhere`",
        shown='none; `["shed"]` for `enforce = "shed"`',
    ),
)
_P: Final = _target("p", "p = 95", _SHARE, "of times and `cost`: percent of calls, 1 to 99.999")
_UNDER: Final = Field(
    "under",
    duration,
    _SECONDS,
    "of times: a time up to a day: `ms`, `s`, `m`, `h`, `d`",
    missing='write under = "500ms"',
    example="500ms",
)
_UNDER_COST: Final = Field(
    "under",
    _nanos,
    _NANOS,
    "of `cost`: US dollars a call, a string",
    missing='write dollars as a string: under = "0.05"',
)
_STAGES: Final = Field(
    "stages",
    _stages,
    (),
    "of `ttft`, `total`: a time for each of `gateway`, `queue`, `prefill`, `decode`, `transfer`,"
    " see [below](#stages)",
)
_ALERT_AT: Final = Field(
    "alert_at",
    list,
    (),
    "of all but `cache`: burn alerts, at most 10, see [below](#burn-alerts)",
    shown="by target",
)
_TIMED: Final = (_P, _UNDER, _ALERT_AT)
_METRIC_FIELDS: Final[Mapping[Metric, tuple[Field, ...]]] = {
    Metric.TTFT: (_P, _UNDER, _STAGES, _ALERT_AT),
    Metric.TOTAL: (_P, _UNDER, _STAGES, _ALERT_AT),
    **dict.fromkeys(STAGE_METRICS, _TIMED),
    Metric.COST: (_P, _UNDER_COST, _ALERT_AT),
    Metric.ERRORS: (
        _target(
            "at_most", 'at_most = "1%"', _SHARE, "of `errors`: share of calls, 0.001 % to 99 %"
        ),
        _ALERT_AT,
    ),
    Metric.CACHE: (
        _target(
            "floor",
            "floor = 0.70",
            _FLOOR,
            "of `cache`: share of input tokens read from a cache, 0.01 to 0.99",
        ),
        Field(
            "clear",
            _share,
            None,
            "of `cache`: share from which a missed floor counts as kept again, above `floor`,"
            " at most 0.99",
            shown="`floor` + 0.03",
            example="clear = 0.73",
        ),
        Field("min_prompt", _min_prompt, 1024, "of `cache`: tokens; shorter prompts do not count"),
    ),
}
FIELDS: Final = (
    *_COMMON,
    *dict.fromkeys(field for fields in _METRIC_FIELDS.values() for field in fields),
)
ALERT_FIELDS: Final = (
    Field("burn", _burn, _BURN, "1 to 1 / (1 - target)", missing="write burn = 6"),
    Field(
        "over",
        duration,
        _SECONDS,
        "whole minutes, `2m` to `3d`",
        missing='write over = "30m"',
        example="30m",
    ),
    Field("severity", Severity, Severity.PAGE, "`page`, `ticket`, `note`"),
)
