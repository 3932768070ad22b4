"""The page of budgets and alerts, and its forms."""

from dataclasses import dataclass
from typing import Final

from fastapi import Request
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.board import BudgetRefusals
from dashboards.views.alerts import AlertCalls, AlertView
from proxy.pages.operation_pages import Operations
from proxy.pages.resources.alerts import SnoozeRequest
from proxy.pages.resources.budgets.budget_requests import BudgetRequest, requested_budget
from proxy.pages.resources.ledger.calls import Calls, CallsQuery
from proxy.pages.resources.policies.policy_pages import policy_setup
from proxy.pages.resources.teams import TeamsResource
from proxy.pages.site import FormCheck, Pages, form, redirect, validated_request
from proxy.pages.viewing import FormFields, SignedIn, form_fields, route
from slo.budgets.budget import EVERY, SCOPES, BudgetUnit
from slo.policies.toml_text import toml_difference
from slo.window import Window

#: Choices of a budget's form, by field.
_CHOICES: Final = {
    "scopes": [*SCOPES, "label:project"],
    "units": list(BudgetUnit),
    "windows": list(Window),
}
#: Hours of a snooze, by their text in a form.
_HOURS: Final = {"0": 0, "1": 1, "24": 24}


@dataclass(eq=False)
class BudgetPages(Pages):
    """The page of budgets and alerts, whose form offers the names of teams."""

    operations: Operations
    teams: TeamsResource
    calls: Calls

    @route("GET", "/budgets")
    async def budgets(self, viewer: SignedIn) -> Response:
        """Alerts that go on, and budgets."""
        operations, stored = self.operations, self.operations.stored_budgets
        counters = await operations.budgets.budgets(viewer)
        alerts = await operations.alerts.list(viewer)
        may_set = viewer.may(Action.CHANGE_BUDGETS)
        may_send = viewer.may(Action.SEND_MESSAGES)
        return await self.site.html(
            "budgets.html",
            viewer,
            counters=counters.counters,
            sees_calls=viewer.may(Action.SEE_CALLS),
            alerts=alerts,
            sinks=await operations.alert_sinks.list(viewer) if may_send else None,
            stored=(await stored.list(viewer)).budgets,
            are_kept=stored.are_kept,
            file_budgets=stored.file_budgets,
            sees_settings=viewer.may(Action.CHANGE_CONFIGURATION),
            may_set=may_set,
            removed=await stored.removals(viewer) if stored.are_kept else (),
            teams=await self.teams.list(viewer) if may_set and stored.are_kept else (),
            choices=_CHOICES,
            setup=await policy_setup(operations.policies, viewer, "budgets"),
        )

    @route("GET", "/alerts/{alert_id}")
    async def alert(self, viewer: SignedIn, alert_id: str) -> Response:
        """One alert: its measurement, its calls, what was done and can be done, its history."""
        operations = self.operations
        shown = await operations.alerts.get(viewer, alert_id)
        listed = await operations.objectives.list(viewer) if shown.objective else None
        objectives = () if listed is None else listed.objectives or ()
        stored = await operations.stored_budgets.list(viewer) if shown.budget else None
        may_see_calls = viewer.may(Action.SEE_CALLS)
        budgets = () if stored is None else stored.budgets or ()
        return await self.site.html(
            "alert.html",
            viewer,
            section="budgets",
            shown=shown,
            objective=next((one for one in objectives if one.name == shown.objective), None),
            stored=next((one for one in budgets if one.name == shown.budget), None),
            file_budgets=operations.stored_budgets.file_budgets,
            may_pin=viewer.may(Action.CHANGE_OBJECTIVES),
            may_see_calls=may_see_calls,
            calls=await self._calls(viewer, shown) if may_see_calls else None,
            refusals=await self._refusals(viewer, shown),
            may_answer=viewer.may(Action.ANSWER_ALERTS),
            sees_settings=viewer.may(Action.CHANGE_CONFIGURATION),
        )

    async def _refusals(self, viewer: Viewer, shown: AlertView) -> BudgetRefusals | None:
        """Calls refused by the counter that an open alert is about."""
        if not shown.budget or shown.ended is not None:
            return None
        whose = {name: shown.costs[name] for name in shown.costs if name not in {"from", "to"}}
        calls = {**whose, "refused_by": shown.budget}
        counters = (await self.operations.budgets.budgets(viewer)).counters or ()
        refusals = (counter.refusals for counter in counters if counter.refusals)
        return next((one for one in refusals if one.calls == calls), None)

    async def _calls(self, viewer: Viewer, shown: AlertView) -> AlertCalls | None:
        """An alert's calls; with their errors, up to now, where it is about a route or errors."""
        counted, failed = CallsQuery.model_validate(shown.calls), None
        if shown.kind in {"route", "burn"}:
            failed = counted if shown.ended else counted.model_copy(update={"ended_to": None})
        return await self.calls.of_alert(
            viewer, counted, failed, shown.calls.get("failed_route", "")
        )

    @route("POST", "/alerts/{alert_id}/acknowledge")
    async def acknowledge(self, viewer: SignedIn, alert_id: str) -> Response:
        """Says that the viewer looks at an alert."""
        shown = await self.operations.alerts.acknowledge(viewer, alert_id)
        return redirect(f"/alerts/{shown.id}")

    @route("POST", "/alerts/{alert_id}/snooze")
    async def snooze(self, request: Request, viewer: SignedIn, alert_id: str) -> Response:
        """Snoozes an alert, or ends that."""
        hours = (await form_fields(request))["hours"]
        snooze = validated_request(SnoozeRequest, hours=_HOURS.get(hours))
        shown = await self.operations.alerts.snooze(viewer, alert_id, snooze)
        return redirect(f"/alerts/{shown.id}")

    @form("/budgets/preview")
    async def preview_budget(self, viewer: Viewer, fields: FormFields) -> Response:
        """Shows a budget as the file would say it, with its trial on yesterday's calls."""
        name = fields["name"]
        request = _checked_request(name, fields)
        preview = await self.operations.stored_budgets.preview(viewer, name, request)
        return await self.site.html(
            "policy_preview.html",
            viewer,
            section="budgets",
            noun="budget",
            name=name,
            preview=preview,
            difference=toml_difference(preview.toml_in_force, preview.toml),
            fields=fields,
            action="/budgets/set",
            back="/budgets#set-budgets",
        )

    @form("/budgets/undo", back="/budgets#set-budgets")
    async def undo_budget(self, viewer: Viewer, fields: FormFields) -> None:
        """Takes the last change of a budget back."""
        await self.operations.stored_budgets.undo(viewer, fields["name"], fields.get("seen"))

    @form("/budgets/set", back="/budgets#set-budgets")
    async def set_budget(self, viewer: Viewer, fields: FormFields) -> None:
        """Sets a budget."""
        name, request = fields["name"], _checked_request(fields["name"], fields)
        await self.operations.stored_budgets.set(viewer, name, request, fields.get("seen"))

    @form("/budgets/remove", back="/budgets#set-budgets")
    async def remove_budget(self, viewer: Viewer, fields: FormFields) -> None:
        """Removes a budget."""
        await self.operations.stored_budgets.remove(viewer, fields["name"], fields.get("seen"))

    @form("/budgets/test-sink")
    async def test_sink(self, viewer: Viewer, fields: FormFields) -> Response:
        """Sends a sink a test alert, and says if it took it."""
        return await self.site.html(
            "sent.html",
            viewer,
            section="budgets",
            title="Test alert",
            results=[await self.operations.alert_sinks.test(viewer, fields["name"])],
            back="/budgets#sinks",
        )


def _checked_request(name: str, fields: FormFields) -> BudgetRequest:
    """The request of a form; raises CallerError with all its faults."""
    check = FormCheck()
    budget = check.read(lambda: _budget_request(fields))
    # What is no percent is named already; the other fields are checked without it.
    checked = budget or check.read(lambda: _budget_request(FormFields(fields, alerts="")))
    if checked is not None:
        check.read(lambda: requested_budget(name, checked))
    check.finish()
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
