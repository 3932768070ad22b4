"""Leaves out the routes that people have disabled; pure."""

from proxy.calls.eligibility.requirements import missing_capability
from proxy.calls.eligibility.retry_policy import GENERATING_ENDPOINTS
from proxy.calls.residency import allowed_choices
from proxy.calls.route_choice import RouteChoice, substitute_routes
from proxy.catalog.catalog import Catalog
from proxy.errors import Unready
from proxy.records.call import Call

#: The reason that the answer of a fallback model gives.
_REASON = "fallback: route disabled"
#: Seconds after which a call that was refused may be tried again.
_RETRY_AFTER_S = 60.0


def enabled_choices(
    call: Call, catalog: Catalog, choices: tuple[RouteChoice, ...]
) -> tuple[RouteChoice, ...]:
    """The choices whose routes are enabled; where none is, those of the model's fallbacks.

    Raises:
        Unready: There is none.
    """
    if not any(choice.route.is_disabled for choice in choices):
        return choices
    enabled = tuple(choice for choice in choices if not choice.route.is_disabled)
    return enabled or _fallback_choices(call, catalog, choices[0])


def _fallback_choices(call: Call, catalog: Catalog, asked: RouteChoice) -> tuple[RouteChoice, ...]:
    model = catalog.find(call.model) if call.model else None
    has_fallbacks = model is not None and call.endpoint in GENERATING_ENDPOINTS
    choices: tuple[RouteChoice, ...] = ()
    for name in model.fallbacks if model is not None and has_fallbacks else ():
        fallback = catalog.models.get(name)
        if fallback is None or missing_capability(call, fallback, asked.route.upstream.region):
            continue
        choices += allowed_choices(call, substitute_routes(fallback, _REASON))
    if not choices:
        model_name = f"The model `{call.model[:100]}`" if call.model else "The route of this call"
        raise Unready(
            f"{model_name} is disabled at this gateway, and no other"
            " may answer in its place. Try again later, or ask for another model.",
            code="route_disabled",
            retry_after=_RETRY_AFTER_S,
        )
    return choices
