"""Compares what a call requires with what a model is capable of; pure."""

from typing import Final

from proxy.calls.eligibility.request_traits import request_traits
from proxy.catalog.entries import Model, Route
from proxy.providers.fitting.chat_forms import accepted_forms, required_form
from proxy.providers.fitting.substitution import accepted_traits
from proxy.records.call import MESSAGES, Call
from proxy.tokens.text_size import text_tokens
from slo.objectives.ladder import CallRequirements, Capabilities
from slo.objectives.ladder import missing_capability as lacking

#: Endpoints whose calls go to OpenAI's models by chat completions.
_CHAT_ENDPOINTS: Final = frozenset({"chat/completions", MESSAGES})
_DISABLED: Final = "It is disabled."


def call_requirements(call: Call, region: str = "") -> CallRequirements:
    """The capabilities that the call needs; when in doubt, it needs them.

    Args:
        region: Region that is to process it; "" for any.
    """
    traits = request_traits(call)
    form = required_form(frozenset(traits.needs), has_tools=traits.tools)
    return CallRequirements(
        tools=traits.tools,
        schema=traits.schema,
        vision=traits.vision,
        tokens=text_tokens(call.body, has_parts=traits.vision),
        output=traits.output,
        region=region,
        regions=call.regions,
        needs=(*traits.needs, form) if call.endpoint in _CHAT_ENDPOINTS else traits.needs,
    )


def missing_capability(call: Call, model: Model, region: str = "") -> str:
    """Reason that no route of the model can answer the call in another's place; "" if one can."""
    if call.fields is not None and call.fields.needs_kept_state:
        return "It goes on with what another upstream keeps."
    return missing_on_every_route(call_requirements(call, region), model)


def missing_on_every_route(required: CallRequirements, model: Model) -> str:
    """A capability that each route of the model lacks; "" if one route lacks none."""
    first_lack = ""
    for route in model.routes:
        lack = _DISABLED if route.is_disabled else lacking(required, route_capabilities(route))
        if not lack:
            return ""
        first_lack = first_lack or lack
    return first_lack


def route_capabilities(route: Route) -> Capabilities:
    """The capabilities of a route."""
    return Capabilities(
        can=route.can,
        window=route.window,
        max_output=route.max_output,
        region=route.upstream.region,
        takes=accepted_traits(route) | accepted_forms(route),
    )
