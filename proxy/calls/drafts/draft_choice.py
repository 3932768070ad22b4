"""Chooses the route of a call's draft, by the call's header or by the policies; pure.

A header that asks for a draft which is not made leaves a note; a rule of the policies does not.
"""

from typing import Final

import msgspec

from proxy.calls.eligibility.continuable import may_be_continued
from proxy.calls.eligibility.request_traits import request_traits
from proxy.calls.eligibility.requirements import missing_capability
from proxy.calls.ports import CallContext
from proxy.calls.residency import allowed_choices
from proxy.calls.route_choice import RouteChoice, RoutingDecision, substitute_routes
from proxy.catalog.entries import Model
from proxy.providers.continuations.continuation_requests import CONTINUED_ENDPOINTS
from proxy.records.call import Call
from proxy.records.receipt import ServedBy
from slo.policies.drafts import drafting_model

#: Value of the header that turns the policies' draft off.
_OFF: Final = "off"
_REASON: Final = "draft"
_MAX_NAME_CHARS: Final = 100


def choose_draft(
    context: CallContext, decision: RoutingDecision, *, is_shared: bool
) -> tuple[CallContext, RouteChoice | None]:
    """The route of the call's draft, None for no draft; and the context, with a note why not.

    Args:
        is_shared: True if other calls may get the same answer.
    """
    call = context.call
    name = call.draft or drafting_model(context.deps.drafts, call.key.team_name, call.feature)
    if not name or name == _OFF:
        return context, None
    choice = (
        "other calls may get this answer" if is_shared else _draft_route(context, decision, name)
    )
    if isinstance(choice, RouteChoice):
        return context, choice
    if not call.draft:
        return context, None
    noted = msgspec.structs.replace(call, notes=(*call.notes, f"no draft: {choice}"))
    return msgspec.structs.replace(context, call=noted), None


def _draft_route(context: CallContext, decision: RoutingDecision, name: str) -> RouteChoice | str:
    """The route that drafts; or the reason that there is no draft."""
    call, deps, asked = context.call, context.deps, decision.choices[0]
    if why := _unfit_form(call):
        return why
    model = deps.catalog.find(name)
    if model is None:
        return f"the catalog has no model {name[:_MAX_NAME_CHARS]}"
    if why := _unfit_model(call, model, asked):
        return why
    routes = allowed_choices(call, substitute_routes(model, _REASON))
    now = context.timeline.now()
    ready = [choice for choice in routes if not deps.route_health.is_failing(choice.route, now)]
    if not ready:
        return f"no route to {model.id} may be taken just now"
    return msgspec.structs.replace(ready[0], served_by=ServedBy.DRAFT)


def _unfit_form(call: Call) -> str:
    """The reason that the form of the call's answer allows no draft; "" where it allows one."""
    if call.endpoint not in CONTINUED_ENDPOINTS or not call.is_streaming:
        return "the call asks for no stream of chat, Responses or Messages"
    if "forced_tools" in request_traits(call).needs:
        return "the answer is to be a tool call"
    if call.is_unattended or not may_be_continued(call):
        return "the answer is to have a format, several choices, or a beginning that is given"
    return ""


def _unfit_model(call: Call, model: Model, asked: RouteChoice) -> str:
    """The reason that the model may not draft for the call; "" where it may."""
    if model.id == asked.model:
        return f"{model.id} answers itself"
    if call.key.models is not None and model.id not in call.key.models:
        return f"the key may not ask for {model.id}"
    lack = missing_capability(call, model, asked.route.upstream.region)
    return f"{model.id} cannot take the call: {lack}" if lack else ""
