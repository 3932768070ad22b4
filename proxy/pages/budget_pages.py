"""The page of budgets and alerts, and its forms."""

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.pages import HOME
from proxy.pages.operation_pages import Operations
from proxy.pages.resources.budgets.budget_requests import BudgetRequest, requested_budget
from proxy.pages.resources.teams import TeamsResource
from proxy.pages.site import FormCheck, Site, validated_request
from proxy.pages.viewing import FormFields, SignedIn
from slo.budgets.budget import EVERY, SCOPES, BudgetUnit
from slo.window import Window

#: Choices of a budget's form, by field.
_CHOICES: Final = {
    "scopes": [*SCOPES, "label:project"],
    "units": list(BudgetUnit),
    "windows": list(Window),
}


def router(site: Site, operations: Operations, teams: TeamsResource) -> APIRouter:
    """The routes of the page, whose form offers the names of teams."""
    routes, stored = site.router(), operations.stored_budgets

    @routes.get(f"{HOME}/budgets")
    async def budgets_page(viewer: SignedIn) -> Response:
        """Alerts that go on, and budgets."""
        counters = await operations.budgets.budgets(viewer)
        alerts = await operations.budgets.alerts(viewer)
        may_set = viewer.may(Action.CHANGE_BUDGETS)
        may_send = viewer.may(Action.SEND_MESSAGES)
        return await site.html(
            "budgets.html",
            viewer,
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

    async def set_budget(viewer: Viewer, fields: FormFields) -> None:
        name = fields["name"]
        await stored.set(viewer, name, _checked_request(name, fields))

    async def test_sink(viewer: Viewer, fields: FormFields) -> Response:
        results = [await operations.alert_sinks.test(viewer, fields["name"])]
        back = "/budgets#sinks"
        return await site.html(
            "sent.html", viewer, section="budgets", title="Test alert", results=results, back=back
        )

    async def remove_budget(viewer: Viewer, fields: FormFields) -> None:
        await stored.remove(viewer, fields["name"])

    site.add_form(routes, "/budgets/set", set_budget, "/budgets#set-budgets")
    site.add_form(routes, "/budgets/remove", remove_budget, "/budgets#set-budgets")
    site.add_form(routes, "/budgets/test-sink", test_sink)
    return routes


def _checked_request(name: str, fields: FormFields) -> BudgetRequest:
    """The request of a form; raises CallerError with all its faults."""
    form = FormCheck()
    budget = form.read(lambda: _budget_request(fields))
    # What is no percent is named already; the other fields are checked without it.
    checked = budget or form.read(lambda: _budget_request(FormFields(fields, alerts="")))
    if checked is not None:
        form.read(lambda: requested_budget(name, checked))
    form.finish()
    assert budget is not None  # noqa: S101 - a form without faults
    return budget


def _budget_request(fields: FormFields) -> BudgetRequest:
    """The request of a form, whose empty fields mean the default."""
    plain = {name: fields[name] for name in ("scope", "unit", "window", "limit")}
    chosen = {name: fields[name] or None for name in ("hold", "on_loss", "unpriced")}
    return validated_request(
        BudgetRequest,
        **plain,
        **chosen,
        of=fields["of"] or EVERY,
        hard=fields["hard"] == "yes",
        alerts=_percents(fields["alerts"]),
    )


def _percents(text: str) -> list[str] | None:
    """The percents of a field such as ``50, 80``: None for no text, none for ``none``."""
    texts = [percent.strip().removesuffix("%").strip() for percent in text.split(",")]
    if texts == ["none"]:
        return []
    return texts if text.strip() else None
