"""Pages of money and speed: overview, costs, reports, savings, latency."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Final, get_args
from urllib.parse import urlencode

from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.board import fullest_budget
from dashboards.cost_reports import DIMENSIONS, next_month
from dashboards.report_summary.read_report import ReadReport
from dashboards.report_summary.summary import report_summary
from dashboards.reports import ReportPeriod, is_tag
from dashboards.views.costs import FixedCostDimension
from dashboards.views.latency import LatencyDimension, LatencyWindow
from dashboards.views.minutes import WINDOW_SECONDS, MinutesDimension, MinutesWindow
from proxy.errors import Unready
from proxy.pages.operation_pages import Operations
from proxy.pages.resources.api import API_PATH
from proxy.pages.resources.fast_path_switches import SwitchRequest
from proxy.pages.resources.ledger.costs import CostsQuery
from proxy.pages.resources.ledger.latency import LatencyQuery, MinutesQuery
from proxy.pages.resources.ledger.ledger_resources import LedgerResources
from proxy.pages.resources.ledger.queries import CallQuery, FilterQuery
from proxy.pages.resources.ledger.reports import REPORT_DEADLINE_S, ReportQuery
from proxy.pages.resources.ledger.savings import SavingsQuery
from proxy.pages.resources.policies.policy_pages import policy_setup
from proxy.pages.resources.report_sending import SendRequest
from proxy.pages.site import Pages, form, html_response, redirect, validated_request
from proxy.pages.store_questions import view_itself
from proxy.pages.viewing import (
    FormFields,
    SignedIn,
    base_url,
    form_fields,
    route,
    unknown_form_error,
)
from proxy.services.reports.background_reports import KEEP_S, PendingReport
from proxy.store.sql.views.latency import HealthQuestion, health_view
from proxy.store.sql.views.savings import (
    OverviewQuestion,
    OverviewView,
    SavingsQuestion,
    overview_view,
)
from slo.policies.fast_path_switches import SwitchedPart
from slo.policies.reports import ReportInterval

_METRICS: Final = {
    "ttft": "time to the first token",
    "duration": "whole duration",
    "itl": "time between tokens",
}
#: Rows of a report that a page shows; its files have all.
_MAX_ROWS: Final = 1_000
#: Rows of a report that a sheet of paper has room for.
_PRINTED_ROWS: Final = 36
#: Steps not taken yet that the first page shows.
_NEXT_SHOWN: Final = 3
#: Dimensions that reports are often read by.
_REPORT_PRESETS: Final = (
    ("Teams", "team"),
    ("Teams by month", "month,team"),
    ("Features", "team,feature"),
    ("Models", "provider,model"),
    ("Days", "day"),
)
#: Seconds between two looks of a page at a report that is being made.
_REFRESH_S: Final = 3
#: Seconds after which the page of the last minutes loads itself again, by its window.
_LIVE_REFRESH_S: Final[dict[MinutesWindow, int]] = {"15m": 15, "1h": 15, "6h": 60}
#: Parameters that costs and calls share: the period and the filters.
_CALL_PARAMETERS: Final = frozenset(FilterQuery.model_fields) - {"first", "last"} | {"from", "to"}
#: The dimension that a value of another leads to.
_NEXT_DIMENSION: Final = {
    "provider": "model",
    "team": "feature",
    "feature": "model",
    "model": "route",
    "route": "feature",
    "upstream": "model",
    "key": "feature",
    "user": "feature",
}


@dataclass(eq=False)
class CostPages(Pages):
    """Pages of money and speed."""

    ledger: LedgerResources
    operations: Operations

    @route("GET", "")
    async def overview(self, request: Request, viewer: SignedIn) -> Response:
        """Spend, savings, health, and the largest steps not taken yet."""
        operations, ledger = self.operations, self.ledger
        by = "feature" if viewer.teams is not None and len(viewer.teams) == 1 else "team"
        query = CostsQuery.model_validate({"by": by})
        alerts, objectives, events, budgets = await asyncio.gather(
            operations.alerts.list(viewer),
            operations.objectives.list(viewer),
            operations.events.list(viewer, query),
            operations.budgets.budgets(viewer),
        )
        page = self.site.page_around(
            "overview.html",
            viewer,
            alerts=alerts,
            objectives=objectives.objectives,
            events=events,
            disabled_routes=await operations.disabled_routes.list(viewer),
            budget=fullest_budget(budgets.counters or ()),
            base_url=base_url(request),
            sees_calls=viewer.may(Action.SEE_CALLS),
        )
        costs = ledger.costs.question(viewer, query)
        question = OverviewQuestion(
            costs=costs,
            savings=ledger.savings.question(
                viewer,
                SavingsQuery.model_validate({"next": _NEXT_SHOWN}),
                budgets.counters or (),
            ),
            health=HealthQuestion(now=self.site.now(), only=costs.only),
        )

        async def read(savings: SavingsQuestion) -> bytes:
            changed = replace(question, savings=savings)
            return await ledger.ask.view("overview", overview_view, changed, page)

        try:
            html = await ledger.savings.read_measured(question.savings, read)
        except Unready:
            health = None
            with suppress(Unready):
                health = await ledger.ask.view("health", health_view, question.health, view_itself)
            html = await run_in_threadpool(page, OverviewView(health=health))
        return html_response(html)

    @route("GET", "/costs")
    async def costs(
        self, request: Request, viewer: SignedIn, query: Annotated[CostsQuery, Query()]
    ) -> Response:
        """Costs by any two dimensions, over time and in a table."""
        params = dict(request.query_params)
        filters = {name: value for name, value in params.items() if name in _CALL_PARAMETERS}
        page = self.site.page_around(
            "costs.html",
            viewer,
            params=params,
            dimensions=await self._cost_dimensions(viewer, query),
            api=API_PATH,
            next_dimension=_NEXT_DIMENSION,
            call_filters=filters if viewer.may(Action.SEE_CALLS) else None,
            events=await self.operations.events.list(viewer, query),
        )
        try:
            html = await self.ledger.costs.costs(viewer, query, page)
        except Unready:
            if not query.reads_receipts:
                raise
            period = query.period(self.site.now())
            return await self.site.html(
                "slow_costs.html",
                viewer,
                section="costs",
                params=params,
                period=period,
                last=period.days[-1].first,
                by=query.by,
                across=query.across or "",
            )
        return html_response(html)

    async def _cost_dimensions(self, viewer: Viewer, query: CostsQuery) -> list[str]:
        """Dimensions that a viewer may ask for, with tags of own teams and those asked for."""
        tags = await self.operations.scheduled_reports.tag_dimensions(viewer)
        shown = {query.by, query.across or ""}
        return [*get_args(FixedCostDimension), *sorted({*tags, *filter(is_tag, shown)})]

    @route("GET", "/reports")
    async def reports(
        self, request: Request, viewer: SignedIn, query: Annotated[ReportQuery, Query()]
    ) -> Response:
        """A cost report, to read, print or download, and the reports that are sent by schedule."""
        read = await self.ledger.reports.report(viewer, query)
        if isinstance(read, PendingReport):
            return await self._pending_report(viewer, read)
        report = read.report
        tags = await self.operations.scheduled_reports.tag_dimensions(viewer)
        return await self.site.html(
            "reports.html",
            viewer,
            report=report,
            summary=await run_in_threadpool(report_summary, read, 0, query.filters),
            names=read.names,
            read_at=read.read_at,
            last=report.period.days[-1].first,
            params={**request.query_params, "by": ",".join(report.by)},
            dimensions=[*DIMENSIONS, *sorted({*tags, *filter(is_tag, report.by)})],
            presets=_REPORT_PRESETS,
            api=f"{API_PATH}/reports/cost",
            rows=report.rows[:_MAX_ROWS],
            scheduled=await self.operations.scheduled_reports.list(viewer),
            may_send=viewer.may(Action.SEND_MESSAGES),
            setup=await policy_setup(
                self.operations.policies,
                viewer,
                "reports",
                schedule=_schedule_texts(read, query.filters),
            ),
            unscheduled=[name for name in query.filters if name != "team"],
            is_odd_period=_is_odd_period(report.period),
        )

    @route("GET", "/reports/print")
    async def print_view(
        self, request: Request, viewer: SignedIn, query: Annotated[ReportQuery, Query()]
    ) -> Response:
        """A cost report for two sheets of paper: figures, chart and words; the dearest rows."""
        read = await self.ledger.reports.report(viewer, query)
        if isinstance(read, PendingReport):
            return await self._pending_report(viewer, read)
        return await self.site.html(
            "report_print.html",
            viewer,
            section="reports",
            summary=await run_in_threadpool(report_summary, read, _PRINTED_ROWS, query.filters),
            params=dict(request.query_params),
        )

    async def _pending_report(self, viewer: Viewer, pending: PendingReport) -> Response:
        """A page that loads again by itself until the report is there."""
        page = await self.site.html(
            "report_pending.html",
            viewer,
            status=HTTPStatus.ACCEPTED,
            section="reports",
            pending=pending,
            deadline_minutes=round(REPORT_DEADLINE_S / 60),
            kept_minutes=round(KEEP_S / 60),
        )
        page.headers["refresh"] = str(_REFRESH_S)
        return page

    @form("/reports/send")
    async def send_report(self, viewer: Viewer, fields: FormFields) -> Response:
        """Sends a scheduled report now, and says who took it."""
        request = validated_request(SendRequest, period=fields["period"])
        sent = await self.operations.report_sending.send(viewer, fields["name"], request)
        return await self.site.html(
            "sent.html",
            viewer,
            section="reports",
            title=f"Report {sent.name} of {sent.period}",
            results=sent.results,
            back="/reports#scheduled",
        )

    @route("GET", "/savings")
    async def savings(
        self, request: Request, viewer: SignedIn, query: Annotated[SavingsQuery, Query()]
    ) -> Response:
        """Savings as a signed waterfall, measured and estimated, and steps not taken yet."""
        page = self.site.page_around(
            "savings.html",
            viewer,
            params=dict(request.query_params),
            quality=await self.ledger.fast_path.quality_bounds(viewer, query.filters),
        )
        return html_response(await self.ledger.savings.savings(viewer, query, page))

    @route("GET", "/fast-path")
    async def fast_path(
        self, request: Request, viewer: SignedIn, query: Annotated[CallQuery, Query()]
    ) -> Response:
        """Rules in force, calls by what served them, savings, and what is proved."""
        params = dict(request.query_params)
        page = self.site.page_around(
            "fast_path.html",
            viewer,
            section="fast-path",
            switched=params.pop("switched", "").split(":", 2),
            change=params.pop("change", ""),
            params=params,
            may_see_audit=viewer.may(Action.SEE_ALL_CHANGES),
            may_switch=viewer.may(Action.CHANGE_TEAM_SETTINGS),
        )
        return html_response(await self.ledger.fast_path.fast_path(viewer, query, page))

    @route("POST", "/fast-path")
    async def switch_fast_path(self, request: Request, viewer: SignedIn) -> Response:
        """Turns a part of the fast path off for a feature, or on again; the page says which."""
        fields = await form_fields(request)
        if fields["part"] not in set(SwitchedPart):
            raise unknown_form_error()
        part, team, feature = fields["part"], fields["team"], fields["feature"]
        switch = validated_request(SwitchRequest, is_on=fields["is_on"])
        change = await self.operations.fast_path_switches.set_switch(
            viewer, (team, feature), SwitchedPart(part), switch, fields.get("seen")
        )
        switched = {"switched": f"{part}:{team}:{feature}", "change": change}
        parameters = {**request.query_params, **switched}
        return redirect(f"/fast-path?{urlencode(parameters)}")

    @route("GET", "/now")
    async def last_minutes(
        self, request: Request, viewer: SignedIn, query: Annotated[MinutesQuery, Query()]
    ) -> Response:
        """Calls, errors, cost and percentiles of the last minutes; it loads itself again."""
        params = dict(request.query_params)
        now, (length, _) = self.site.now(), WINDOW_SECONDS[query.window]
        page = self.site.page_around(
            "now.html",
            viewer,
            params=params,
            windows=get_args(MinutesWindow),
            dimensions=get_args(MinutesDimension),
            next_dimension=_NEXT_DIMENSION,
            sees_calls=viewer.may(Action.SEE_CALLS),
            events=await self.operations.events.events_between(viewer, (now - length, now)),
            disabled_routes=await self.operations.disabled_routes.list(viewer),
            may_disable=viewer.may(Action.CHANGE_CONFIGURATION),
            refresh_s=_LIVE_REFRESH_S[query.window],
        )
        return html_response(await self.ledger.latency.minutes(viewer, query, page))

    @route("GET", "/latency")
    async def latency(
        self, request: Request, viewer: SignedIn, query: Annotated[LatencyQuery, Query()]
    ) -> Response:
        """Percentiles over time, and calls by time and latency."""
        page = self.site.page_around(
            "latency.html",
            viewer,
            params=dict(request.query_params),
            metrics=_METRICS,
            dimensions=get_args(LatencyDimension),
            windows=get_args(LatencyWindow),
            next_dimension=_NEXT_DIMENSION,
            events=await self.operations.events.events_between(
                viewer, query.bounds(self.site.now())
            ),
        )
        return html_response(await self.ledger.latency.latency(viewer, query, page))


def _is_odd_period(period: ReportPeriod) -> bool:
    """True where it is neither a week nor a month, or one so far."""
    is_week = period.end - period.first == timedelta(days=7)
    return not is_week and (period.first.day > 1 or period.end > next_month(period.first))


def _schedule_texts(read: ReadReport, filters: Mapping[str, str]) -> Mapping[str, str]:
    """The texts of the form that schedules the report that is shown: whose, by what, how often."""
    period, team = read.report.period, filters.get("team", "")
    is_week = period.end - period.first == timedelta(days=7)
    return {
        "team": read.names.get(team, team),
        "by": ", ".join(read.report.by),
        "every": ReportInterval.WEEK if is_week else ReportInterval.MONTH,
        "time_zone": period.zone,
    }
