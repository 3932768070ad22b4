"""A policy before it is set: its table, its difference to what is in force, and its trial."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from dashboards.report_periods import current_period, last_period, period_name
from dashboards.reports import ReportPeriod
from proxy.errors import Unready
from proxy.pages.store_questions import StoreQuestions, view_itself
from proxy.services.alerts.configured_sinks import configured_sinks, environment_variables
from proxy.services.reports.report_delivery import SETTLE_S, configured_senders
from proxy.settings import Settings, upstream_keys
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.dry_runs import DryRun
from slo.budgets.budget import EVERY
from slo.policies.reports import ScheduledReport
from slo.policies.sinks import Sink

Q = TypeVar("Q")
V = TypeVar("V")

_SENDS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSend:
    """A report that a schedule will send: its period, and when in seconds since the epoch."""

    period: str
    due: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSchedule:
    """The next sends of a scheduled report, and the report of the last period.

    Attributes:
        recipients: Those that can be reached.
        sends: The next ones.
        last_period: Name of the last whole period.
        last_query: Parameters of the page that shows the report of it.
    """

    recipients: Sequence[str]
    sends: Sequence[ReportSend]
    last_period: str
    last_query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPreview:
    """A policy before it is set.

    Attributes:
        toml: Its table, as the policies file would have it.
        toml_in_force: That of the policy of this name that people set, or of the budget in force;
            "" for none.
        dry_run: Its trial on the calls of yesterday; None for kinds that have none, and while the
            ledger is away.
        schedule: Its next sends; None where it is no scheduled report.
        seen: Id of the last change of it in the audit log, which setting it must not lose; "" for
            none.
        problems: Reasons that nothing can be sent, in sentences.
    """

    policy: Any
    toml: str
    toml_in_force: str
    seen: str
    dry_run: DryRun | None = None
    schedule: ReportSchedule | None = None
    problems: Sequence[str] = ()


async def answer_or_none(
    ask: StoreQuestions, dry_run: Callable[[Readers, Q], V], question: Q
) -> V | None:
    """An answer about the calls of yesterday; None while the ledger is away."""
    try:
        return await ask.view("dry run", dry_run, question, view_itself)
    except Unready:
        return None


def sink_problems(sink: Sink) -> Sequence[str]:
    """The reasons that a sink gets no alerts."""
    return configured_sinks([sink], upstream_keys(environment_variables([sink])))[1]


def report_schedule(
    report: ScheduledReport, settings: Settings, now: float, team_ids: Mapping[str, str]
) -> tuple[ReportSchedule, Sequence[str]]:
    """The next sends of a report, and why some recipients get nothing.

    Args:
        team_ids: By the teams' names.
    """
    (senders,), problems = configured_senders([report], settings)
    last = last_period(report.every, report.time_zone, now)
    schedule = ReportSchedule(
        recipients=senders.recipients,
        sends=[
            ReportSend(period=period_name(period), due=period.bounds[1] + SETTLE_S)
            for period in islice(_periods(report, now - SETTLE_S), _SENDS_SHOWN)
        ],
        last_period=period_name(last),
        last_query=_page_query(report, last, team_ids),
    )
    return schedule, problems


def _periods(report: ScheduledReport, moment: float) -> Iterator[ReportPeriod]:
    """The periods of a report from the one that a moment is in."""
    while True:
        period = current_period(report.every, report.time_zone, moment)
        yield period
        moment = period.bounds[1]


def _page_query(report: ScheduledReport, period: ReportPeriod, team_ids: Mapping[str, str]) -> str:
    parameters = {
        "by": ",".join(report.by),
        "from": period.first.isoformat(),
        "to": (period.end - timedelta(days=1)).isoformat(),
        "tz": period.zone,
    }
    if report.team != EVERY:
        parameters["team"] = team_ids.get(report.team, report.team)
    return urlencode(parameters)
