"""An alert to people: a problem, its facts, the gateway's action and a fix.

Names of teams, features and labels are callers' text, so every text is bounded and on one line,
wherever the alert is made. No text of a prompt or an answer ever stands in one.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from hashlib import sha256
from typing import Final

import msgspec

from slo import window
from slo.budgets.budget import Budget, BudgetUnit, counter_key

NANOS: Final = 1_000_000_000
_MAX_SUBJECT_CHARS: Final = 160
_MAX_TITLE_CHARS: Final = 200
_MAX_TEXT_CHARS: Final = 400
_MAX_NAME_CHARS: Final = 40
_MAX_FACTS: Final = 16
_MARK_HEX_DIGITS: Final = 8
TEST_KIND: Final = "test"
"""Kind of alerts that try a sink; they are kept nowhere."""
#: From here on titles write dollars with two decimals.
_CENTS_FROM: Final = NANOS // 10

#: Names in Alertmanager, by kind of alert: those of the rules for Prometheus, so that one route or
#: silence matches both. Other kinds are called after themselves.
RULE_NAMES: Final = {
    "budget": "ThriftgateBudgetSpent",
    "burn": "ThriftgateBudgetBurns",
    "drift": "ThriftgateBudgetDrifts",
    "floor": "ThriftgateFloorMissed",
}


class Severity(StrEnum):
    """The urgency of an alert, the most urgent first."""

    PAGE = "page"  # somebody has to act now
    TICKET = "ticket"  # somebody has to act, within days
    NOTE = "note"  # no action needed


_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem that began, and in time ends.

    Attributes:
        id: The same for the same event, whichever process sends it; by default made of kind,
            subject, severity and beginning.
        kind: ``budget`` (nearly spent), ``burn`` (of an objective's error budget), ``floor``
            (missed), ``move`` (calls fall back), ``route`` (it fails), ``store`` (counters do not
            answer, or files of the journal are removed), ``drift`` (counters and ledger differ),
            ``planning`` (of a feature suspended), ``compaction`` (of a feature reduced) or
            ``test``.
        subject: The budget, objective or route, and whose.
        title: All of it in one sentence.
        facts: Names and values: limit, spent, burn, budget left, top contributors.
        action: Action of the gateway: "12 % of chat fell back to small since 14:02".
        fix: Advice for people: pin a level, raise a limit.
        since: Beginning of the time whose calls were counted, in seconds since the epoch; None
            where none were. It ends where the alert begins.
        began: Time at which it began, in seconds since the epoch.
        ended: Time at which it ended, likewise; None while it goes on.
        expires: Time at which it ends by itself, as a budget's does with its window; None where a
            process ends it.
        cost_nanos: Cost in nano-dollars; None where that is unknown, or not known yet.
    """

    id: str = ""
    kind: str
    subject: str
    severity: Severity
    title: str
    facts: tuple[tuple[str, str], ...] = ()
    action: str = ""
    fix: str = ""
    since: float | None = None
    began: float
    ended: float | None = None
    expires: float | None = None
    cost_nanos: int | None = None

    def __post_init__(self) -> None:
        """Bound every text; the id is made of the full texts before that."""
        cleaned = {
            "id": self.id or stable_id(self.kind, self.subject, self.severity, f"{self.began:.3f}"),
            "kind": single_line(self.kind, _MAX_NAME_CHARS),
            "subject": single_line(self.subject, _MAX_SUBJECT_CHARS),
            "title": single_line(self.title, _MAX_TITLE_CHARS),
            "facts": tuple(
                (single_line(n, _MAX_NAME_CHARS), single_line(v, _MAX_SUBJECT_CHARS))
                for n, v in self.facts[:_MAX_FACTS]
            ),
            "action": single_line(self.action, _MAX_TEXT_CHARS),
            "fix": single_line(self.fix, _MAX_TEXT_CHARS),
        }
        for name, text in cleaned.items():
            msgspec.structs.force_setattr(self, name, text)

    @property
    def is_open(self) -> bool:
        """True if it goes on."""
        return self.ended is None


def stable_id(*parts: str) -> str:
    """An id of 32 hexadecimal digits; different parts never share one."""
    encoded = msgspec.json.encode([part.encode(errors="surrogatepass") for part in parts])
    return sha256(encoded).hexdigest()[:32]


def single_line(text: str, max_chars: int) -> str:
    """The text on one line of at most ``max_chars`` characters, all printable.

    Control characters, line ends, direction marks and surrogates become spaces; runs of spaces
    become one.
    """
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * max_chars])
    line = " ".join(shown.split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def is_at_least(severity: Severity, least: Severity) -> bool:
    """True if the first severity is as urgent as the second, or more."""
    return _RANKS[severity] <= _RANKS[least]


def urgency_key(severity: Severity, began: float) -> tuple[int, float]:
    """A key that sorts alerts by urgency, the newest of each first."""
    return _RANKS[severity], -began


def resolve_alert(
    alert: Alert, end_time: float, action: str = "", cost_nanos: int | None = None
) -> Alert:
    """The alert with its end.

    Args:
        end_time: Time at which it ended; taken to be no earlier than it began.
        action: Action of the gateway in all; "" keeps the alert's own.
        cost_nanos: Cost in nano-dollars; None keeps the alert's own.
    """
    cost = alert.cost_nanos if cost_nanos is None else cost_nanos
    return msgspec.structs.replace(
        alert, ended=max(end_time, alert.began), action=action or alert.action, cost_nanos=cost
    )


def reached_threshold(budget: Budget, before_spent: int, after_spent: int) -> int | None:
    """The highest of the budget's alert percents reached in between; None if none was."""
    reached = [
        percent
        for percent in budget.alerts
        if before_spent * 100 < percent * budget.limit <= after_spent * 100
    ]
    return max(reached, default=None)


def budget_alert(
    budget: Budget, whose: str, percent: int, spent: int, now: float, ends: float
) -> Alert:
    """The alert that so many percent of a budget are spent.

    Its id is made of counter, limit and percent, so it is the same in each process and after a
    restart. A changed limit makes a new alert.

    Args:
        percent: Of the limit, as it was reached.
        spent: In the budget's unit.
    """
    counted = counter_key(budget, whose, ends - 1)
    return Alert(
        id=_budget_digest(budget) + stable_id(counted, str(percent))[_MARK_HEX_DIGITS:],
        kind="budget",
        subject=f"{budget.name} of {_owner(budget, whose)}",
        severity=budget_severity(budget, percent),
        title=_spend_title(budget, whose, spent),
        facts=(
            ("budget", budget.name),
            ("reached", f"{percent} %"),
            ("limit", f"{_full_amount(budget.unit, budget.limit)} a {budget.window.value}"),
            ("spent", f"{_full_amount(budget.unit, spent)}, {spent * 100 // budget.limit} %"),
            ("left", _full_amount(budget.unit, max(budget.limit - spent, 0))),
            ("window", window.window_name(budget.window, ends - 1)),
            ("starts anew", format_time(ends)),
        ),
        action=_action(budget, spent),
        fix=f"Raise the limit of {budget.name}, or spend less until it starts anew.",
        since=window.window_start(budget.window, ends - 1),
        began=now,
        expires=ends,
    )


def outdated_alerts(alerts: Iterable[Alert], budgets: Iterable[Budget]) -> list[Alert]:
    """The open alerts about budgets that were removed or have another limit."""
    marks = {_budget_digest(budget) for budget in budgets}
    return [
        alert
        for alert in alerts
        if alert.kind == "budget" and alert.is_open and alert.id[:_MARK_HEX_DIGITS] not in marks
    ]


def problem_key(alert: Alert) -> tuple[str, ...]:
    """Alike for alerts of one problem.

    These are the stages of one counter of a budget in one window, and an objective's burn alerts.
    """
    if alert.kind == "burn":
        return alert.kind, alert.subject
    if alert.kind != "budget":
        return (alert.id,)
    return alert.kind, alert.id[:_MARK_HEX_DIGITS], alert.subject, str(alert.expires)


def alerting_budget(alert: Alert, budgets: Iterable[Budget]) -> Budget | None:
    """The budget with the limit that an alert is about; None for none of these."""
    if alert.kind != "budget":
        return None
    mark = alert.id[:_MARK_HEX_DIGITS]
    return next((budget for budget in budgets if _budget_digest(budget) == mark), None)


def alerting_owner(alert: Alert, budget: Budget) -> str:
    """Name of whose counter of a budget an alert is about; "" where it names nobody."""
    start = f"{budget.name} of {budget.scope.removeprefix('label:')} "
    return alert.subject.removeprefix(start) if alert.subject.startswith(start) else ""


def format_amount(unit: BudgetUnit, of: int) -> str:
    """The amount with its unit, for people; dollars in full."""
    if unit is not BudgetUnit.USD:
        return f"{of:,} {unit.value.removesuffix('s') if of == 1 else unit.value}"
    sign, (whole, part) = "-" if of < 0 else "", divmod(abs(of), NANOS)
    return f"{sign}${whole:,}" + f".{part:09d}".rstrip("0").rstrip(".")


def rounded_usd(nanos: int) -> str:
    """Dollars to read at a glance: cents from ten cents on, below that three digits."""
    dollars = Decimal(nanos).scaleb(-9)
    if nanos >= _CENTS_FROM:
        return f"${dollars:,.2f}"
    return f"${round(dollars, 2 - dollars.adjusted()):f}" if nanos else "$0"


def format_time(time: float) -> str:
    """A time to the minute, in UTC."""
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def format_rough_duration(seconds: float) -> str:
    """A time span in its two largest units: ``2 d 3 h``, ``4 min``, ``7 s``."""
    left = max(int(seconds), 0)
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def alert_lines(alert: Alert, gateway_url: str = "") -> list[str]:
    """The lines below an alert's title: facts, time, cost, action, fix, page.

    Args:
        gateway_url: URL at which browsers reach the gateway; "" where it is unknown.
    """
    lines = [f"{name}: {value}" for name, value in alert.facts]
    if alert.ended is None:
        lines.append(f"since: {format_time(alert.began)}")
    else:
        span = format_rough_duration(alert.ended - alert.began)
        lines.append(f"lasted: {span}, until {format_time(alert.ended)}")
    if alert.cost_nanos is not None:
        lines.append(f"cost: {format_amount(BudgetUnit.USD, alert.cost_nanos)}")
    if alert.action:
        lines.append(f"done: {alert.action}")
    if alert.fix and alert.ended is None:
        lines.append(f"to do: {alert.fix}")
    if gateway_url and alert.kind != TEST_KIND:
        lines.append(f"page: {alert_page(alert, gateway_url)}")
    return lines


def alert_page(alert: Alert, gateway_url: str) -> str:
    """URL of an alert's page."""
    return f"{gateway_url}/admin/alerts/{alert.id}"


def _full_amount(unit: BudgetUnit, of: int) -> str:
    """The whole amount; of dollars two decimals at least."""
    text = format_amount(unit, of)
    if unit is not BudgetUnit.USD:
        return text
    whole, _, part = text.partition(".")
    return f"{whole}.{part:0<2}"


def _budget_digest(budget: Budget) -> str:
    """The first digits of the ids of all alerts about a budget with this limit."""
    parts = (budget.name, budget.scope, budget.of, budget.unit, budget.window, str(budget.limit))
    return stable_id(*parts)[:_MARK_HEX_DIGITS]


def budget_severity(budget: Budget, percent: int) -> Severity:
    """The urgency of an alert that so many percent of a budget are spent."""
    if percent < 80:
        return Severity.NOTE
    return Severity.PAGE if budget.hard and percent >= 95 else Severity.TICKET


def _spend_title(budget: Budget, whose: str, spent: int) -> str:
    """The spend beside the limit: ``Spend of team acme: $41.20 of $50.00 this month``."""
    unit, limit = budget.unit, budget.limit
    subject = "Spend" if unit is BudgetUnit.USD else unit.value.capitalize()
    if unit is BudgetUnit.USD:
        amounts = f"{rounded_usd(spent)} of {rounded_usd(limit)}"
    else:
        amounts = f"{spent:,} of {limit:,}"
    when = "today" if budget.window is window.Window.DAY else f"this {budget.window.value}"
    return f"{subject} of {_owner(budget, whose)}: {amounts} {when}"


def _owner(budget: Budget, whose: str) -> str:
    scope = budget.scope.removeprefix("label:")
    if scope == "organization":
        return "the organization"
    return f"{scope} {whose}" if whose else f"calls of no {scope}"


def _action(budget: Budget, spent: int) -> str:
    if not budget.hard:
        return "Nothing: this budget only counts."
    if spent >= budget.limit:
        return "Calls that count in it are refused until it starts anew."
    return "Nothing yet; calls that do not fit into what is left will be refused."
