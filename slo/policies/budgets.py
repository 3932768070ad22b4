"""The budgets of a policies file."""

from typing import Final

from slo.budgets.budget import (
    EVERY,
    LABEL_PREFIX,
    SCOPES,
    Budget,
    BudgetUnit,
    HoldPolicy,
    OnStoreLoss,
)
from slo.budgets.counter import MAX_AMOUNT
from slo.decimals import whole_number
from slo.policies.entries import NAME_PATTERN, UNPRICED, dollars, name_field
from slo.toml.fields import Field, flag, one_of, read_fields
from slo.toml.table_reader import TableReader, describe_value
from slo.window import Window

_MAX_ALERTS = 10
_SCOPES = (*SCOPES, f"{LABEL_PREFIX}NAME")


def budget(table: TableReader) -> Budget:
    """The budget of a table, with stand-ins where it has problems."""
    values = read_fields(table, FIELDS)
    values["on_loss"] = values["on_loss"] or (
        OnStoreLoss.CLOSED if values["hard"] else OnStoreLoss.OPEN
    )
    budget = Budget(**values)
    for key, what, fix in _contradictions(budget):
        if key in table.nodes:
            table.add_problem(key, what, fix)
    return budget


def _contradictions(budget: Budget) -> list[tuple[str, str, str]]:
    """Fields that say nothing beside the others: key, problem and fix."""
    problems = []
    if budget.scope == "organization" and budget.of != EVERY:
        problems.append(("of", "picks one organization, and there is one", "leave it out"))
    if budget.scope in {"team", "key"} and not budget.of:
        what = f"is empty, and every call has a {budget.scope}"
        problems.append(("of", what, 'write a name, or "*"'))
    if budget.unit is BudgetUnit.REQUESTS:
        problems.append(("hold", "says nothing of requests, which count 1 each", "leave it out"))
    if not budget.hard and budget.on_loss is not OnStoreLoss.OPEN:
        fix = "write hard = true, or leave on_loss out"
        problems.append(("on_loss", "refuses calls, and the budget is not hard", fix))
    if budget.unit in {BudgetUnit.TOKENS, BudgetUnit.REQUESTS} or not budget.hard:
        problems.append(("unpriced", "says nothing but of hard dollars", "leave it out"))
    return problems


def _scope(table: TableReader, field: Field) -> str | None:
    scope = table.text(field.key, "team")
    if scope is None or not scope.startswith(LABEL_PREFIX):
        return None if scope is None else table.choice(field.key, _SCOPES)
    if not NAME_PATTERN.fullmatch(scope.removeprefix(LABEL_PREFIX)):
        fix = f'name the label: "{LABEL_PREFIX}project"'
        table.add_problem(field.key, f"is {describe_value(scope)}", fix)
    return scope


def _limit(table: TableReader, field: Field) -> int | None:
    """In nano-dollars, tokens or requests; None where it is wrong, or its unit is."""
    unit, value = table.nodes.get("unit"), table.nodes[field.key].value
    if unit is None or unit.value not in tuple(BudgetUnit):
        return None
    if unit.value == BudgetUnit.USD:
        return dollars(table, field)
    count = whole_number(value)
    if count is None:
        table.add_problem(field.key, f"is {describe_value(value)}", "write a whole number")
    elif not 1 <= count <= MAX_AMOUNT:
        fix = f"write more than 0, and at most {MAX_AMOUNT:,}"
        table.add_problem(field.key, f"is {describe_value(value)}", fix)
    return count


def _alerts(table: TableReader, field: Field) -> tuple[int, ...]:
    numbers = [whole_number(node.value) for node in table.elements(field.key)]
    percents = [percent for percent in numbers if percent is not None and 1 <= percent <= 100]
    is_sound = len(percents) == len(numbers) <= _MAX_ALERTS and percents == sorted(set(percents))
    if not is_sound:
        fix = f"write up to {_MAX_ALERTS} percents from 1 to 100, ascending: [50, 80, 95]"
        table.add_problem(field.key, "is no list of percents", fix)
    return tuple(percents)


FIELDS: Final = (
    name_field("assistants-month"),
    Field(
        "scope",
        _scope,
        "",
        "`organization`, `team`, `key`, `feature`, `user`, `label:NAME`",
        missing=f"write one of {', '.join(_SCOPES)}",
    ),
    Field(
        "of",
        str,
        EVERY,
        'a name; `"*"`: each name has a counter of its own; `""`: calls that name none',
        example=EVERY,
    ),
    Field("unit", BudgetUnit, None, "`usd`, `tokens`, `requests`", missing=one_of(BudgetUnit)),
    Field(
        "window", Window, None, "`minute`, `hour`, `day`, `month`, in UTC", missing=one_of(Window)
    ),
    Field(
        "limit",
        _limit,
        1,
        "a whole number of tokens or requests; dollars as a string of at most 9 decimals,"
        " at most 9,007,199",
        missing='write limit = "500" for dollars, 500 for all else',
        example="500",
    ),
    flag("hard", "`false` only counts and alerts", default=True),
    Field("hold", HoldPolicy, HoldPolicy.P95, "`p95`, `worst`; not for `requests`"),
    Field(
        "on_loss",
        OnStoreLoss,
        None,
        "`open`, `local_quota`, `closed`; only `open` where not hard",
        shown='`"closed"` if hard, else `"open"`',
    ),
    UNPRICED,
    Field("alerts", _alerts, (50, 80, 95), "percent of the limit, 1 to 100, ascending, at most 10"),
)
