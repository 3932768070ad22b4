"""(call, route) → the request for one upstream; always from the caller's own bytes."""

from typing import Final

import msgspec

from proxy.call import Call
from proxy.catalog.entries import Route
from proxy.plannable import ENDPOINT
from proxy.prefix.arrangement import stripped
from proxy.prefix.planned import Planned, Unplanned
from proxy.wire.kinds import WIRES
from proxy.wire.port import Prepared

_AS_IT_CAME: Final = Unplanned()


def prepare(call: Call, route: Route, planned: Planned | Unplanned = _AS_IT_CAME) -> Prepared:
    """The attempt at this call on this route.

    Args:
        call: The call.
        route: Where it goes.
        planned: The body that is sent in place of the caller's, or why the caller's is.

    Raises:
        InvalidCall: If the call cannot be said on the route's wire without changing its meaning.
    """
    wire = WIRES[route.upstream.kind]
    if isinstance(planned, Unplanned):
        body = stripped(call.body) if call.endpoint == ENDPOINT else call.body
        if body is not call.body:
            call = msgspec.structs.replace(call, body=body)
        return _noted(wire.request(call, route), (planned.why,) if planned.why else ())
    changed = planned.body is not call.body
    sent = msgspec.structs.replace(call, body=planned.body) if changed else call
    prepared = _noted(wire.request(sent, route), planned.notes)
    if not planned.headers:
        return prepared
    return msgspec.structs.replace(prepared, headers={**prepared.headers, **planned.headers})


def _noted(prepared: Prepared, notes: tuple[str, ...]) -> Prepared:
    if not notes:
        return prepared
    return msgspec.structs.replace(prepared, notes=(*prepared.notes, *notes))
