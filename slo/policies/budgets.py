"""The budgets of a policies file.

::

[[budgets]]
name = "assistants-month"
scope = "team"           # organization, team, key, feature, user, label:NAME
of = "assistants"        # "*", the default: every team has its own; "": calls that name none
unit = "usd"             # usd, tokens, requests
window = "month"         # minute, hour, day, month
limit = "500"            # dollars, as a "string", never rounded; tokens and requests are whole
hard = true              # the default; false only counts and alerts
hold = "p95"             # the default; or worst
on_loss = "closed"       # open, local_quota, closed; closed where hard, else open
unpriced = "own"         # the default; what becomes of calls of unknown price, of hard
                         # dollars: refuse, allow, or allow where the upstream asks for no key
alerts = [50, 80, 95]    # the default
"""

from slo.budgets.budget import (
    EVERY,
    LABEL_PREFIX,
    SCOPES,
    Budget,
    BudgetUnit,
    HoldPolicy,
    OnStoreLoss,
    UnpricedPolicy,
)
from slo.budgets.reservations import MAX_AMOUNT
from slo.decimals import (
    DOLLARS_PATTERN,
    NANOS_PER_DOLLAR,
    nanos_of_dollars,
    normalize_decimal,
    whole_number,
)
from slo.policies.entries import NAME_PATTERN, entry_name
from slo.toml.table_reader import TableReader, describe_value
from slo.window import Window

_MAX_ALERTS = 10
#: Keys of a budget's table.
KEYS = (
    "name", "scope", "of", "unit", "window", "limit", "hard", "hold", "on_loss", "unpriced",
    "alerts",
)  # fmt: skip


def budget(table: TableReader) -> Budget:
    """The budget of a table, with stand-ins where it has problems."""
    scope = _scope(table)
    unit = table.member("unit", BudgetUnit)
    hard = table.flag("hard", default=True)
    return Budget(
        name=entry_name(table, "assistants-month"),
        scope=scope,
        of=_subject_filter(table, scope),
        unit=unit or BudgetUnit.REQUESTS,
        window=table.member("window", Window) or Window.MONTH,
        limit=_limit(table, unit),
        hard=hard,
        hold=_hold_policy(table, unit),
        on_loss=_on_loss(table, hard=hard),
        unpriced=_unpriced_policy(table, unit, hard=hard),
        alerts=_alerts(table),
    )


def _scope(table: TableReader) -> str:
    scopes = (*SCOPES, f"{LABEL_PREFIX}NAME")
    if "scope" not in table.nodes:
        table.add_problem("scope", "is missing", f"write one of {', '.join(scopes)}")
    scope = table.text("scope", "team")
    if scope is None or not scope.startswith(LABEL_PREFIX):
        return "" if scope is None else table.choice("scope", scopes)
    if not NAME_PATTERN.fullmatch(scope.removeprefix(LABEL_PREFIX)):
        table.add_problem(
            "scope", f"is {describe_value(scope)}", f'name the label: "{LABEL_PREFIX}project"'
        )
    return scope


def _subject_filter(table: TableReader, scope: str) -> str:
    of = table.text("of", EVERY)
    if of is None:
        return EVERY
    if scope == "organization" and of != EVERY:
        table.add_problem("of", "picks one organization, and there is one", "leave it out")
    if scope in {"team", "key"} and not of:
        table.add_problem("of", f"is empty, and every call has a {scope}", 'write a name, or "*"')
    return of


def _limit(table: TableReader, unit: BudgetUnit | None) -> int:
    """In nano-dollars, tokens or requests; 1 where it is wrong, or its unit is."""
    if "limit" not in table.nodes:
        table.add_problem(
            "limit", "is missing", 'write limit = "500" for dollars, 500 for all else'
        )
        return 1
    if unit is None:
        return 1
    value = table.nodes["limit"].value
    exact = nanos_of_dollars(value) if unit is BudgetUnit.USD else whole_number(value)
    if exact is None:
        table.add_problem("limit", f"is {describe_value(value)}", _limit_fix(value, unit))
    elif not 1 <= exact <= MAX_AMOUNT:
        maximum = (
            f"{MAX_AMOUNT // NANOS_PER_DOLLAR:,} dollars"
            if unit is BudgetUnit.USD
            else f"{MAX_AMOUNT:,}"
        )
        table.add_problem(
            "limit", f"is {describe_value(value)}", f"write more than 0, and at most {maximum}"
        )
    return exact or 1


def _limit_fix(value: object, unit: BudgetUnit) -> str:
    if unit is not BudgetUnit.USD:
        return "write a whole number"
    decimal = normalize_decimal(value)
    example = f'"{decimal}"' if DOLLARS_PATTERN.fullmatch(decimal) else '"500"'
    return f"write dollars of at most 9 decimals as a string: {example}"


def _hold_policy(table: TableReader, unit: BudgetUnit | None) -> HoldPolicy:
    if unit is BudgetUnit.REQUESTS and "hold" in table.nodes:
        table.add_problem("hold", "says nothing of requests, which count 1 each", "leave it out")
    return table.member("hold", HoldPolicy, HoldPolicy.P95) or HoldPolicy.P95


def _on_loss(table: TableReader, *, hard: bool) -> OnStoreLoss:
    default = OnStoreLoss.CLOSED if hard else OnStoreLoss.OPEN
    on_loss = table.member("on_loss", OnStoreLoss, default) or default
    if not hard and on_loss is not OnStoreLoss.OPEN:
        fix = "write hard = true, or leave on_loss out"
        table.add_problem("on_loss", "refuses calls, and the budget is not hard", fix)
    return on_loss


def _unpriced_policy(table: TableReader, unit: BudgetUnit | None, *, hard: bool) -> UnpricedPolicy:
    if "unpriced" in table.nodes and (unit in {BudgetUnit.TOKENS, BudgetUnit.REQUESTS} or not hard):
        table.add_problem("unpriced", "says nothing but of hard dollars", "leave it out")
    return table.member("unpriced", UnpricedPolicy, UnpricedPolicy.OWN) or UnpricedPolicy.OWN


def _alerts(table: TableReader) -> tuple[int, ...]:
    if "alerts" not in table.nodes:
        return (50, 80, 95)
    numbers = [whole_number(node.value) for node in table.elements("alerts")]
    percents = [percent for percent in numbers if percent is not None and 1 <= percent <= 100]
    is_sound = len(percents) == len(numbers) <= _MAX_ALERTS and percents == sorted(set(percents))
    if not is_sound:
        fix = f"write up to {_MAX_ALERTS} percents from 1 to 100, ascending: [50, 80, 95]"
        table.add_problem("alerts", "is no list of percents", fix)
    return tuple(percents)
