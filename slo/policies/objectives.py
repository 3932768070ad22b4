"""The objectives of a policies file.

::

[[objectives]]
name = "chat-ttft"
team = "*"               # the default: every team; or one's name
feature = "chat"         # "*", the default: every feature; "": calls that name none
metric = "ttft"          # ttft, total, errors, cost, cache; queue, prefill, decode, transfer
p = 95                   # so many percent of the calls
under = "500ms"          # at or under this: "500ms", "2s", "1m"; of cost it is dollars: "0.05"
calls = "streams"        # all, streams, whole; of ttft streams is the default, of all else all
enforce = "degrade"      # observe, alert, degrade, shed; alert is the default
ladder = ["elsewhere", "gpt-small", "shed"]    # what calls get instead
alert_at = [{ burn = 6, over = "30m", severity = "page" }]    # the usual ones without
stages = { queue = "100ms", prefill = "300ms" }    # of ttft and total: names the stage that is late

[[objectives]]
name = "answers"
metric = "errors"
at_most = "1%"

[[objectives]]
name = "cache-floor"
metric = "cache"
floor = 0.70             # the share of input tokens that is read from caches
clear = 0.73             # the floor and 0.03, the default: from here on it is kept again
min_prompt = 1024        # the default; shorter prompts do not count
"""

from decimal import Decimal

from msgspec.structs import replace

from slo.alert import Severity
from slo.budgets.reservations import MAX_AMOUNT
from slo.budgets.stages import Stage, StageBudget
from slo.decimals import nanos_of_dollars, whole_number
from slo.duration import parse_duration
from slo.objectives.ladder_levels import ELSEWHERE, SHED, effective_ladder, is_name
from slo.objectives.objective import (
    EVERY,
    STAGE_METRICS,
    BurnAlert,
    Enforce,
    Metric,
    Objective,
    RequestKind,
)
from slo.objectives.objective_validation import alert_problem, target_key, validate_objective
from slo.policies.entries import entry_name
from slo.toml.table_reader import TableReader, describe_value

_COMMON = ("name", "team", "feature", "calls", "metric", "enforce", "ladder")
_TIMED = frozenset({"p", "under", "alert_at"})
#: Keys of its own that a metric has.
_METRIC_KEYS = {
    Metric.TTFT: _TIMED | {"stages"},
    Metric.TOTAL: _TIMED | {"stages"},
    **dict.fromkeys(STAGE_METRICS, _TIMED),
    Metric.COST: _TIMED,
    Metric.ERRORS: frozenset({"at_most", "alert_at"}),
    Metric.CACHE: frozenset({"floor", "clear", "min_prompt"}),
}
#: Keys of an objective's table.
KEYS = (*_COMMON, "p", "under", "at_most", "floor", "clear", "min_prompt", "alert_at", "stages")
_ALERT_KEYS = ("burn", "over", "severity")
_EXAMPLES = {"p": "p = 95", "at_most": 'at_most = "1%"', "floor": "floor = 0.70"}
_MAX_ALERTS = 10
#: Stand-ins, each of them sound with whatever else is said.
_SHARE, _FLOOR, _SECONDS, _NANOS, _BURN = 0.99999, 0.01, 600.0, 1, 1.0


def objective(table: TableReader) -> Objective:
    """The objective of a table, with stand-ins where it has problems."""
    metric = table.member("metric", Metric)
    common = _with_common_fields(table, metric)
    if metric is None:
        return common
    for key in table.nodes:
        if key in KEYS and key not in _METRIC_KEYS[metric] and key not in _COMMON:
            table.add_problem(key, f"says nothing of {metric}", "leave it out")
    candidate = _with_metric_fields(table, metric, common)
    problems = validate_objective(candidate)
    for flaw in problems:
        table.add_problem(flaw.key, flaw.what, flaw.fix)
    if metric is Metric.CACHE or any(flaw.key == target_key(metric) for flaw in problems):
        return candidate
    return replace(candidate, alerts=_alerts(table, candidate))


def _with_common_fields(table: TableReader, metric: Metric | None) -> Objective:
    """The objective with the fields that all metrics share, and placeholders for the rest."""
    default = RequestKind.STREAMS if metric is Metric.TTFT else RequestKind.ALL
    enforce = table.member("enforce", Enforce, Enforce.ALERT) or Enforce.ALERT
    return Objective(
        name=entry_name(table, "chat-ttft"),
        team=_team(table),
        feature=_name_or_every(table.text("feature", EVERY)),
        calls=table.member("calls", RequestKind, default) or default,
        metric=Metric.ERRORS,
        target=_SHARE,
        enforce=enforce,
        ladder=effective_ladder(enforce, _ladder(table)),
    )


def _with_metric_fields(table: TableReader, metric: Metric, common: Objective) -> Objective:
    """The objective with the fields of its metric."""
    base = replace(common, metric=metric, target=_target(table, target_key(metric)))
    if metric is Metric.CACHE:
        return replace(base, clear=_clear(table), min_prompt=_min_prompt(table))
    if metric is Metric.COST:
        return replace(base, under_nanos=_nanos(table))
    if metric is Metric.ERRORS:
        return base
    return replace(base, under=_seconds(table, "under", "500ms"), stages=_stages(table))


def _stages(table: TableReader) -> tuple[StageBudget, ...]:
    """Budgets of stages, in the order of the stages."""
    if "stages" not in table.nodes:
        return ()
    inner = TableReader(table.nodes["stages"], tuple(Stage), table.problems)
    return tuple(
        StageBudget(stage, _seconds(inner, stage, "100ms"))
        for stage in Stage
        if stage in inner.nodes
    )


def _team(table: TableReader) -> str:
    team = _name_or_every(table.text("team", EVERY))
    if not team:
        table.add_problem("team", "is empty, and every call has a team", 'write a name, or "*"')
    return team


def _name_or_every(name: str | None) -> str:
    return EVERY if name is None else name


def _target(table: TableReader, key: str) -> float:
    """The share of good events; a stand-in where the file has none that is a number."""
    if key not in table.nodes:
        table.add_problem(key, "is missing", f"write {_EXAMPLES[key]}")
        share = None
    else:
        share = _share(table, key, of=100 if key == "p" else 1)
    if share is None:
        return _FLOOR if key == "floor" else _SHARE
    return float(1 - share if key == "at_most" else share)


def _clear(table: TableReader) -> float | None:
    share = _share(table, "clear") if "clear" in table.nodes else None
    return None if share is None else float(share)


def _share(table: TableReader, key: str, of: int = 1) -> Decimal | None:
    """A number as a part of this; ``1%`` is 0.01 of 1."""
    value = table.nodes[key].value
    is_percent = isinstance(value, str) and value.endswith("%")
    number = _number(value[:-1] if is_percent else value, is_text=is_percent)
    if number is None:
        table.add_problem(
            key, f"is {describe_value(value)}", f"write {_EXAMPLES.get(key, f'{key} = 0.73')}"
        )
        return None
    return number / (100 if is_percent else of)


def _number(value: object, *, is_text: bool = False) -> Decimal | None:
    """A number that is not beyond all measure; None of anything else.

    Args:
        value: Value in TOML.
        is_text: True if it is the text of a number.
    """
    if isinstance(value, bool) or not isinstance(value, str if is_text else int | float | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return None
    return number if number.is_finite() and abs(number) <= 10**6 else None


def _seconds(table: TableReader, key: str, example: str) -> float:
    """A duration; a stand-in where the file has none."""
    if key not in table.nodes:
        table.add_problem(key, "is missing", f'write {key} = "{example}"')
        return _SECONDS
    value = table.nodes[key].value
    seconds = parse_duration(value) if isinstance(value, str) else None
    if seconds is None:
        fix = f'write a number and ms, s, m, h or d: {key} = "{example}"'
        table.add_problem(key, f"is {describe_value(value)}", fix)
    return _SECONDS if seconds is None else seconds


def _nanos(table: TableReader) -> int:
    """Dollars in nano-dollars; a stand-in where the file has none."""
    if "under" not in table.nodes:
        table.add_problem("under", "is missing", 'write dollars as a string: under = "0.05"')
        return _NANOS
    value = table.nodes["under"].value
    exact = nanos_of_dollars(value)
    if exact is None or not 1 <= exact <= MAX_AMOUNT:
        fix = 'write dollars above 0 of at most 9 decimals as a string: under = "0.05"'
        table.add_problem("under", f"is {describe_value(value)}", fix)
        return _NANOS
    return exact


def _min_prompt(table: TableReader) -> int:
    if "min_prompt" not in table.nodes:
        return 1024
    value = table.nodes["min_prompt"].value
    number = whole_number(value)
    if number is None or not 1 <= number <= MAX_AMOUNT:
        table.add_problem("min_prompt", f"is {describe_value(value)}", "write tokens, 1 or more")
        return 1024
    return number


def _ladder(table: TableReader) -> tuple[str, ...]:
    levels = [node.value for node in table.elements("ladder")]
    if all(isinstance(level, str) and is_name(level) for level in levels):
        is_array = "ladder" not in table.nodes or isinstance(table.nodes["ladder"].value, list)
        return tuple(levels) if is_array else (ELSEWHERE, SHED)
    table.add_problem("ladder", "has a level without a name", 'write "elsewhere", models, "shed"')
    return ELSEWHERE, SHED


def _alerts(table: TableReader, candidate: Objective) -> tuple[BurnAlert, ...]:
    tables = table.tables("alert_at", _ALERT_KEYS)
    if len(tables) > _MAX_ALERTS:
        table.add_problem("alert_at", f"has over {_MAX_ALERTS} alerts", "leave some out")
    return tuple(_alert(alert_table, candidate) for alert_table in tables[:_MAX_ALERTS])


def _alert(table: TableReader, candidate: Objective) -> BurnAlert:
    alert = BurnAlert(
        burn=_burn(table),
        over=_seconds(table, "over", "30m"),
        severity=table.member("severity", Severity, Severity.PAGE) or Severity.PAGE,
    )
    for flaw in alert_problem(alert, candidate):
        table.add_problem(flaw.key, flaw.what, flaw.fix)
    return alert


def _burn(table: TableReader) -> float:
    if "burn" not in table.nodes:
        table.add_problem("burn", "is missing", "write burn = 6")
        return _BURN
    value = table.nodes["burn"].value
    number = _number(value)
    if number is None:
        table.add_problem("burn", f"is {describe_value(value)}", "write a number: burn = 6")
    return _BURN if number is None else float(number)
