"""The budgets of a file of promises.

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
unpriced = "own"         # the default; what becomes of calls whose price nobody knows, of hard
                         # dollars: refuse, allow, or allow where the upstream asks for no key
alerts = [50, 80, 95]    # the default
"""

from slo.budget import EVERY, LABEL, SCOPES, Budget, Hold, OnLoss, Unit, Unpriced
from slo.decimals import plain
from slo.promises.table import DOLLARS, NAME, NANOS, Table, advice, dollars, spoken, whole
from slo.reservations import MOST
from slo.window import Window

_MOST_ALERTS = 10
#: What a table of a budget may say.
KEYS = (
    "name", "scope", "of", "unit", "window", "limit", "hard", "hold", "on_loss", "unpriced",
    "alerts",
)  # fmt: skip


def budget(table: Table) -> Budget:
    """The budget of a table, with stand-ins where it has mistakes."""
    scope = _scope(table)
    unit = table.chosen("unit", Unit)
    hard = table.flag("hard", default=True)
    return Budget(
        name=table.name("assistants-month"),
        scope=scope,
        of=_of(table, scope),
        unit=unit or Unit.REQUESTS,
        window=table.chosen("window", Window) or Window.MONTH,
        limit=_limit(table, unit),
        hard=hard,
        hold=_hold(table, unit),
        on_loss=_on_loss(table, hard=hard),
        unpriced=_unpriced(table, unit, hard=hard),
        alerts=_alerts(table),
    )


def _scope(table: Table) -> str:
    known = (*SCOPES, f"{LABEL}NAME")
    if "scope" not in table.entries:
        table.wrong("scope", "is missing", f"write one of {', '.join(known)}")
    scope = table.text("scope", "team")
    if scope is None or scope in SCOPES:
        return scope or ""
    if not scope.startswith(LABEL):
        table.wrong("scope", f"is {spoken(scope)}", advice(scope, known))
    elif not NAME.fullmatch(scope.removeprefix(LABEL)):
        table.wrong("scope", f"is {spoken(scope)}", f'name the label: "{LABEL}project"')
    return scope


def _of(table: Table, scope: str) -> str:
    of = table.text("of", EVERY)
    if of is None:
        return EVERY
    if scope == "organization" and of != EVERY:
        table.wrong("of", "picks one organization, and there is one", "leave it out")
    if scope in {"team", "key"} and not of:
        table.wrong("of", f"is empty, and every call has a {scope}", 'write a name, or "*"')
    return of


def _limit(table: Table, unit: Unit | None) -> int:
    """In nano-dollars, tokens or requests; 1 where it is wrong, or its unit is."""
    if "limit" not in table.entries:
        table.wrong("limit", "is missing", 'write limit = "500" for dollars, 500 for all else')
        return 1
    if unit is None:
        return 1
    value = table.entries["limit"].value
    exact = dollars(value) if unit is Unit.USD else whole(value)
    if exact is None:
        table.wrong("limit", f"is {spoken(value)}", _limit_mend(value, unit))
    elif not 1 <= exact <= MOST:
        most = f"{MOST // NANOS:,} dollars" if unit is Unit.USD else f"{MOST:,}"
        table.wrong("limit", f"is {spoken(value)}", f"write more than 0, and at most {most}")
    return exact or 1


def _limit_mend(value: object, unit: Unit) -> str:
    if unit is not Unit.USD:
        return "write a whole number"
    meant = plain(value)
    example = f'"{meant}"' if DOLLARS.fullmatch(meant) else '"500"'
    return f"write dollars of at most 9 decimals as a string: {example}"


def _hold(table: Table, unit: Unit | None) -> Hold:
    if unit is Unit.REQUESTS and "hold" in table.entries:
        table.wrong("hold", "says nothing of requests, which count 1 each", "leave it out")
    return table.chosen("hold", Hold, Hold.P95) or Hold.P95


def _on_loss(table: Table, *, hard: bool) -> OnLoss:
    default = OnLoss.CLOSED if hard else OnLoss.OPEN
    said = table.chosen("on_loss", OnLoss, default) or default
    if not hard and said is not OnLoss.OPEN:
        mend = "write hard = true, or leave on_loss out"
        table.wrong("on_loss", "refuses calls, and the budget is not hard", mend)
    return said


def _unpriced(table: Table, unit: Unit | None, *, hard: bool) -> Unpriced:
    if "unpriced" in table.entries and (unit in {Unit.TOKENS, Unit.REQUESTS} or not hard):
        table.wrong("unpriced", "says nothing but of hard dollars", "leave it out")
    return table.chosen("unpriced", Unpriced, Unpriced.OWN) or Unpriced.OWN


def _alerts(table: Table) -> tuple[int, ...]:
    if "alerts" not in table.entries:
        return (50, 80, 95)
    said = [whole(place.value) for place in table.array("alerts")]
    percents = [percent for percent in said if percent is not None and 1 <= percent <= 100]
    is_sound = len(percents) == len(said) <= _MOST_ALERTS and percents == sorted(set(percents))
    if not is_sound:
        mend = f"write up to {_MOST_ALERTS} percents from 1 to 100, ascending: [50, 80, 95]"
        table.wrong("alerts", "is no list of percents", mend)
    return tuple(percents)
