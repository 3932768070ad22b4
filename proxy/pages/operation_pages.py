"""Pages of objectives, layouts, models, engines and settings, and their forms."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from compaction.policy import CompactionMode
from dashboards.access import Action, Viewer
from dashboards.board import AdminBoard, ObjectiveStatus
from dashboards.views.alerts import ended_between
from proxy.errors import CallerError
from proxy.pages.resources.alert_sinks import AlertSinksResource
from proxy.pages.resources.alerts import AlertsResource
from proxy.pages.resources.budgets.budget_counters import BudgetsResource
from proxy.pages.resources.budgets.stored_budgets import StoredBudgetsResource
from proxy.pages.resources.configuration import ConfigurationResource
from proxy.pages.resources.fast_path_switches import FastPathSwitchesResource
from proxy.pages.resources.ledger.events import EventsResource
from proxy.pages.resources.ledger.features import (
    CompactionModeRequest,
    FeatureName,
    FeaturesResource,
    LayoutDecision,
    ModeRequest,
)
from proxy.pages.resources.ledger.savings import SavingsResource
from proxy.pages.resources.models import ModelsResource
from proxy.pages.resources.objectives import ObjectivesResource, PinRequest
from proxy.pages.resources.policies.disabled_routes import (
    DisabledRoutesResource,
    DisableRequest,
    EnableRequest,
)
from proxy.pages.resources.policies.policy_pages import policy_setup
from proxy.pages.resources.policies.stored_policies import StoredPoliciesResource
from proxy.pages.resources.report_deliveries import ReportDeliveriesResource
from proxy.pages.resources.report_sending import ReportSending
from proxy.pages.site import FormCheck, Pages, form, html_response, redirect, validated_request
from proxy.pages.viewing import FormFields, SignedIn, form_fields, route, unknown_form_error
from proxy.records.feature_mode import LayoutScope, PlanningMode
from slo.duration import parse_duration
from slo.objectives.verdict import VERDICT_MEANINGS

_COMPACTION_FIELDS: Final = ("keep_turns", "target_tokens")
#: Stands for a time with a fault while the other fields of its form are checked.
_ANY_SECONDS: Final = 3_600.0
#: Hours that something is disabled for, by a form's words.
_HOURS: Final = {"": 0, "0": 0, "1": 1, "4": 4}
_FEATURE_PATH: Final = "/layouts/{team}/{feature:path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Resources that these pages show."""

    objectives: ObjectivesResource
    events: EventsResource
    budgets: BudgetsResource
    stored_budgets: StoredBudgetsResource
    scheduled_reports: ReportDeliveriesResource
    report_sending: ReportSending
    alert_sinks: AlertSinksResource
    alerts: AlertsResource
    features: FeaturesResource
    fast_path_switches: FastPathSwitchesResource
    disabled_routes: DisabledRoutesResource
    policies: StoredPoliciesResource
    models: ModelsResource
    configuration: ConfigurationResource

    def routers(self) -> list[APIRouter]:
        """Their routes of the API."""
        return [getattr(self, field.name).router() for field in fields(self)]


@dataclass(eq=False)
class OperationPages(Pages):
    """The pages; the board knows calls that fell back, savings what control arms measured."""

    operations: Operations
    board: AdminBoard
    savings: SavingsResource

    @route("GET", "/objectives")
    async def objectives(self, viewer: SignedIn) -> Response:
        """Objectives, reroutes and calls that fell back."""
        shown = await self.operations.objectives.list(viewer)
        sees_all_calls = viewer.teams is None and viewer.may(Action.SEE_CALLS)
        return await self.site.html(
            "objectives.html",
            viewer,
            shown=shown,
            rerouted_calls=await self.board.rerouted_calls() if sees_all_calls else (),
            open_alerts=await self.operations.alerts.of_objectives(viewer),
            pin_changes=await self.operations.objectives.pin_changes(viewer),
            verdicts=VERDICT_MEANINGS,
            sees_calls=viewer.may(Action.SEE_CALLS),
            calls_of=_missed_calls(shown.objectives or (), self.site.now()),
            setup=await policy_setup(self.operations.policies, viewer, "objectives"),
            may_pin=viewer.may(Action.CHANGE_OBJECTIVES),
        )

    @form("/objectives/pin", back="/objectives")
    async def pin(self, viewer: Viewer, fields: FormFields) -> None:
        """Pins an objective."""
        request, seen = _pin_request(fields), fields.get("seen")
        await self.operations.objectives.pin(viewer, fields["name"], request, seen)

    @form("/objectives/pin/preview")
    async def preview_pin(self, viewer: Viewer, fields: FormFields) -> Response:
        """Shows what a pin would do."""
        name, pin = fields["name"], _pin_request(fields)
        objective, seen = await self.operations.objectives.previewed_pin(viewer, name, pin)
        return await self.site.html(
            "pin_preview.html",
            viewer,
            section="objectives",
            objective=objective,
            pin=pin,
            until=self.site.now() + pin.seconds,
            fields={**{key: fields[key] for key in ("name", "level", "for", "why")}, "seen": seen},
        )

    @form("/objectives/undo", back="/objectives")
    async def undo_pin(self, viewer: Viewer, fields: FormFields) -> None:
        """Takes the last pin or release of an objective back."""
        await self.operations.objectives.undo(viewer, fields["name"], fields.get("seen"))

    @form("/objectives/release", back="/objectives")
    async def release(self, viewer: Viewer, fields: FormFields) -> None:
        """Ends a pin."""
        await self.operations.objectives.release(viewer, fields["name"], fields.get("seen"))

    @route("GET", "/layouts")
    async def layouts(self, viewer: SignedIn) -> Response:
        """Planning and compaction of each feature."""
        page = self.site.page_around("layouts.html", viewer)
        return html_response(await self.operations.features.list(viewer, page))

    @route("GET", _FEATURE_PATH)
    async def feature(self, viewer: SignedIn, team: str, feature: FeatureName) -> Response:
        """One feature, with each version of its layout."""
        shown = await self.operations.features.get(viewer, team, feature)
        measured = await self.savings.measurement_of(viewer, team, shown.team_name, shown.feature)
        return await self.site.html(
            "feature.html",
            viewer,
            section="layouts",
            shown=shown,
            measured=measured,
            modes=[mode.value for mode in PlanningMode],
            compaction_modes=[mode.value for mode in CompactionMode],
            may_change=viewer.may(Action.CHANGE_TEAM_SETTINGS, team),
        )

    @route("POST", _FEATURE_PATH)
    async def change_feature(
        self, request: Request, viewer: SignedIn, team: str, feature: FeatureName
    ) -> Response:
        """Changes one setting of a feature, as the form's ``change`` says."""
        fields, features = await form_fields(request), self.operations.features
        await _change_feature(features, viewer, (team, feature), fields)
        return redirect(f"/layouts/{quote(team)}/{quote(feature) or '-'}")

    @route("GET", "/models")
    async def models(self, request: Request, viewer: SignedIn) -> Response:
        """Models and prices."""
        search = request.query_params.get("q", "")[:100].lower()
        listed = [
            model
            for model in await self.operations.models.models(viewer)
            if search in model.id.lower() or any(search in one.name.lower() for one in model.routes)
        ]
        disabled_routes = await self.operations.disabled_routes.list(viewer)
        is_unpriced = request.query_params.get("unpriced") == "true"
        if is_unpriced:
            listed = [model for model in listed if not all(one.is_priced for one in model.routes)]
        return await self.site.html(
            "models.html",
            viewer,
            models=listed,
            wanted=search,
            is_unpriced=is_unpriced,
            disabled_routes={f"{one.kind} {one.name}": one for one in disabled_routes},
            all_disabled=disabled_routes,
            failing=await self.operations.disabled_routes.failures(viewer),
            may_disable=viewer.may(Action.CHANGE_CONFIGURATION),
            setup=await policy_setup(
                self.operations.policies,
                viewer,
                "models",
                priced=request.query_params.get("price", ""),
            ),
        )

    @form("/models/disable/preview")
    async def preview_disable(self, viewer: Viewer, fields: FormFields) -> Response:
        """Shows what disabling a route or model would do."""
        request = validated_request(DisableRequest, kind=fields["kind"], name=fields["name"])
        return await self.site.html(
            "disable_preview.html",
            viewer,
            section="models",
            request=request,
            preview=await self.operations.disabled_routes.preview(viewer, request),
        )

    @form("/models/disable")
    async def disable_route(self, viewer: Viewer, fields: FormFields) -> Response:
        """Disables a route or model, and leads back to it."""
        values = {name: fields[name] for name in ("kind", "name", "why", "seen")}
        request = validated_request(
            DisableRequest,
            **values,
            hours=_HOURS.get(fields["hours"]),
            refuses_calls=fields["refuses_calls"] == "yes",
        )
        await self.operations.disabled_routes.disable(viewer, request)
        return redirect(f"/models?{urlencode({'q': request.name})}")

    @form("/models/enable")
    async def enable_route(self, viewer: Viewer, fields: FormFields) -> Response:
        """Enables a route or model again, and leads back to it."""
        request = validated_request(
            EnableRequest, **{name: fields[name] for name in ("kind", "name", "seen")}
        )
        await self.operations.disabled_routes.enable(viewer, request)
        return redirect(f"/models?{urlencode({'q': request.name})}")

    @route("GET", "/engines")
    async def engines(self, viewer: SignedIn) -> Response:
        """Replicas of self-hosted engines, their speculation, and what they read ahead."""
        models = self.operations.models
        return await self.site.html(
            "engines.html",
            viewer,
            replicas=await models.engines(viewer),
            speculation=await models.speculation(viewer),
            warming=await models.warming(viewer),
        )

    @route("GET", "/settings")
    async def settings(self, viewer: SignedIn) -> Response:
        """Settings, and what the files hold."""
        shown = await self.operations.configuration.get(viewer)
        return await self.site.html("settings.html", viewer, shown=shown)

    @form("/settings/reload", back="/settings")
    async def reload(self, viewer: Viewer, _fields: FormFields) -> None:
        """Reads catalog, policies and engines files again."""
        await self.operations.configuration.reload(viewer)


def _missed_calls(
    objectives: Iterable[ObjectiveStatus], now: float
) -> dict[str, Mapping[str, str]]:
    """Filters of the calls that missed each objective in the window that its fact tells of."""
    return {
        objective.name: {
            "missed": objective.name,
            **ended_between(now - objective.fact_seconds, None),
        }
        for objective in objectives
    }


def _pin_request(fields: FormFields) -> PinRequest:
    """The request of a form; raises CallerError with all its faults."""
    check, level, why = FormCheck(), fields["level"], fields["why"]
    lasts = check.read(lambda: _pin_seconds(fields["for"]))
    seconds = _ANY_SECONDS if lasts is None else lasts
    pin = check.read(lambda: validated_request(PinRequest, level=level, seconds=seconds, why=why))
    check.finish()
    assert pin is not None  # noqa: S101 - a form without faults
    return pin


def _pin_seconds(text: str) -> float:
    """The seconds of a time such as 4h."""
    lasts = parse_duration(text)
    if lasts is None:
        raise CallerError(
            "Write how long as a number and a unit, such as 30m, 4h or 2d.", code="invalid_form"
        )
    return lasts


async def _change_feature(
    features: FeaturesResource, viewer: Viewer, place: tuple[str, str], fields: FormFields
) -> None:
    change, family = fields["change"], fields["family"]
    if change == "mode":
        mode_request = validated_request(ModeRequest, mode=fields["mode"], family=family)
        await features.set_mode(viewer, *place, mode_request)
    elif change == "approve":
        version = validated_request(LayoutDecision, version=fields["version"], family=family)
        await features.decide(viewer, *place, version)
    elif change == "rollback":
        await features.decide(viewer, *place, LayoutDecision(version=None, family=family))
    elif change == "resume":
        await features.resume(viewer, LayoutScope(*place, family), ["planning"])
    elif change == "resume compaction":
        await features.resume(viewer, LayoutScope(*place), ["compaction"])
    elif change == "compaction":
        named = {name: fields[name] for name in _COMPACTION_FIELDS if name in fields}
        mode = validated_request(CompactionModeRequest, mode=fields["compaction"], **named)
        await features.set_compaction(viewer, *place, mode)
    else:
        raise unknown_form_error()
