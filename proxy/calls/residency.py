"""Regions in which a call may be processed, by the policies and by the call itself; pure.

A region is that of an upstream in the catalog. An upstream without one is bound to none, so a call
that is bound to a region goes nowhere near it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from proxy.calls.route_choice import RouteChoice
from proxy.errors import CallerError
from proxy.records.call import Call
from slo.policies.residency import Residency, bound_regions

_MAX_NAMED_ROUTES = 8


def bind_call(call: Call, rules: Sequence[Residency]) -> Call:
    """The call with the regions where it may be processed by all rules, and by its own word.

    Raises:
        CallerError: If no region is left.
    """
    if not rules:
        return call
    allowed, names = bound_regions(rules, call.key.team_name, call.feature)
    if allowed is None:
        return call
    requested = call.regions
    regions = allowed if requested is None else allowed & requested
    if regions:
        return msgspec.structs.replace(call, regions=regions)
    where = _join_names(requested) if requested is not None else "no region"
    raise CallerError(
        f"This call may be processed in {where}, and the residency policies ({names}) allow"
        f" {_join_names(allowed) or 'no region in common'}. Ask for a region that they allow.",
        code="residency_unsatisfied",
        param="x-thriftgate-region",
        status=403,
    )


def allowed_choices(call: Call, choices: Iterable[RouteChoice]) -> tuple[RouteChoice, ...]:
    """The choices whose upstreams process in a region where the call may be processed."""
    regions = call.regions
    if regions is None:
        return tuple(choices)
    return tuple(choice for choice in choices if choice.route.upstream.region in regions)


def check_residency(call: Call, choices: tuple[RouteChoice, ...]) -> tuple[RouteChoice, ...]:
    """The allowed choices; at least one.

    Raises:
        CallerError: If there is none.
    """
    allowed = choices if call.regions is None else allowed_choices(call, choices)
    if allowed:
        return allowed
    routes = ", ".join(_place(choice) for choice in choices[:_MAX_NAMED_ROUTES])
    raise CallerError(
        f"This call may be processed in {_join_names(call.regions or ())} only, and no route of"
        f" `{call.model[:100]}` is there: {routes}. Ask for a model with a route there; the"
        " gateway's operator can add one, with `region` of its upstream.",
        code="residency_unsatisfied",
        status=403,
    )


def _place(choice: RouteChoice) -> str:
    upstream = choice.route.upstream
    return f"{upstream.name} ({upstream.region or 'bound to no region'})"


def _join_names(regions: Iterable[str]) -> str:
    return ", ".join(sorted(regions))
