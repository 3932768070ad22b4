"""The page of budgets and alerts, and its forms."""

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from dashboards.access import Action
from dashboards.pages import HOME
from proxy.pages.operation_pages import Operations
from proxy.pages.resources.alert_sinks import AlertSinksResource
from proxy.pages.resources.budgets.budget_requests import BudgetRequest, requested_budget
from proxy.pages.resources.teams import TeamsResource
from proxy.pages.site import FormCheck, Site, page_router, redirect, validated_request
from slo.budgets.budget import EVERY, SCOPES, BudgetUnit
from slo.window import Window

#: Choices of a budget's form, by field.
_CHOICES: Final = {
    "scopes": [*SCOPES, "label:project"],
    "units": list(BudgetUnit),
    "windows": list(Window),
}


def router(site: Site, operations: Operations, teams: TeamsResource) -> APIRouter:
    """The routes of the page.

    Args:
        site: Parts that all pages share.
        operations: Budgets and alerts.
        teams: Teams whose names the form offers.
    """
    routes, stored = page_router(), operations.stored_budgets

    @routes.get(f"{HOME}/budgets")
    async def budgets_page(request: Request) -> Response:
        """Alerts that go on, and budgets."""
        viewer = await site.viewer(request)
        counters = await operations.budgets.budgets(viewer)
        alerts = await operations.budgets.alerts(viewer)
        may_set = viewer.may(Action.CHANGE_BUDGETS)
        may_send = viewer.may(Action.SEND_MESSAGES)
        return await site.html(
            "budgets.html",
            viewer,
            section="budgets",
            counters=counters.counters,
            open_alerts=alerts.alerts,
            alert_count=alerts.total,
            sinks=await operations.alert_sinks.list(viewer) if may_send else None,
            stored=(await stored.list(viewer)).budgets,
            are_kept=stored.are_kept,
            may_set=may_set,
            teams=await teams.list(viewer) if may_set and stored.are_kept else (),
            choices=_CHOICES,
        )

    @routes.post(f"{HOME}/budgets/set")
    async def set_budget(request: Request) -> Response:
        """Sets a budget."""
        viewer, fields = await site.check_form(request)
        name = fields.get("name", "")
        await stored.set(viewer, name, _checked_request(name, fields))
        return redirect("/budgets#set-budgets")

    @routes.post(f"{HOME}/budgets/remove")
    async def remove_budget(request: Request) -> Response:
        """Removes a budget."""
        viewer, fields = await site.check_form(request)
        await stored.remove(viewer, fields.get("name", ""))
        return redirect("/budgets#set-budgets")

    _add_sink_test(routes, site, operations.alert_sinks)
    return routes


def _add_sink_test(routes: APIRouter, site: Site, sinks: AlertSinksResource) -> None:
    @routes.post(f"{HOME}/budgets/test-sink")
    async def test_sink(request: Request) -> Response:
        """Sends a sink a test alert, and says if it took it."""
        viewer, fields = await site.check_form(request)
        result = await sinks.test(viewer, fields.get("name", ""))
        return await site.html(
            "sent.html",
            viewer,
            section="budgets",
            title="Test alert",
            results=[result],
            back="/budgets#sinks",
        )


def _checked_request(name: str, fields: Mapping[str, str]) -> BudgetRequest:
    """The request of a form.

    Raises:
        CallerError: It has faults, all of which are named.
    """
    form = FormCheck()
    budget = form.read(lambda: _budget_request(fields))
    # What is no percent is named already; the other fields are checked without it.
    checked = budget or form.read(lambda: _budget_request({**fields, "alerts": ""}))
    if checked is not None:
        form.read(lambda: requested_budget(name, checked))
    form.finish()
    assert budget is not None  # noqa: S101 - a form without faults
    return budget


def _budget_request(fields: Mapping[str, str]) -> BudgetRequest:
    """The request of a form, whose empty fields mean the default."""
    plain = {name: fields.get(name, "") for name in ("scope", "unit", "window", "limit")}
    chosen = {name: fields.get(name) or None for name in ("hold", "on_loss", "unpriced")}
    return validated_request(
        BudgetRequest,
        **plain,
        **chosen,
        of=fields.get("of", "").strip() or EVERY,
        hard=fields.get("hard") == "yes",
        alerts=_percents(fields.get("alerts", "")),
    )


def _percents(text: str) -> list[str] | None:
    """The percents of a field such as ``50, 80``: None for no text, none for ``none``."""
    texts = [percent.strip().removesuffix("%").strip() for percent in text.split(",")]
    if texts == ["none"]:
        return []
    return texts if text.strip() else None
