"""(call, route) → the request for one upstream; always from the caller's own bytes."""

from proxy.call import Call
from proxy.catalog.entries import Route
from proxy.wire.kinds import WIRES
from proxy.wire.port import Prepared


def prepare(call: Call, route: Route) -> Prepared:
    """The attempt at this call on this route.

    Raises:
        InvalidCall: If the call cannot be said on the route's wire without changing its meaning.
    """
    return WIRES[route.upstream.kind].request(call, route)
