"""(call, route) → the request for one upstream; always from the caller's own bytes."""

from typing import Final

import msgspec

from proxy.call import Call
from proxy.catalog.entries import Route
from proxy.chat import field, replaced
from proxy.plannable import ENDPOINTS
from proxy.prefix.arrangement import stripped
from proxy.prefix.diagnostics import Question
from proxy.prefix.objects import members, written
from proxy.prefix.planned import Planned, Unplanned
from proxy.wire.kinds import WIRES
from proxy.wire.port import Prepared
from proxy.wire.untold import Untold

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
        body = stripped(call.body) if call.endpoint in ENDPOINTS else call.body
        if body is not call.body:
            call = msgspec.structs.replace(call, body=body)
        return _noted(wire.request(call, route), (planned.why,) if planned.why else ())
    changed = planned.body is not call.body
    sent = msgspec.structs.replace(call, body=planned.body) if changed else call
    prepared = _noted(wire.request(sent, route), planned.notes)
    if planned.headers:
        headers = {**prepared.headers, **planned.headers}
        prepared = msgspec.structs.replace(prepared, headers=headers)
    if planned.question is None:
        return prepared
    return _asking(prepared, planned.question, streamed=call.streamed)


def _asking(prepared: Prepared, question: Question, *, streamed: bool) -> Prepared:
    """The request with a question to its provider; as it is where the caller asks the same.

    The caller sees nothing of it: an answer that is passed on is passed on without.
    """
    body, key = prepared.body, msgspec.json.encode(question.field)
    own = field(body, question.field) if body.rfind(key) >= 0 else None
    if own is None:
        body = body.rstrip()[:-1] + b"," + key + b":" + question.value + b"}"
    else:
        said = members(own) if own[:1] == b"{" else {}
        asked = {**members(question.value), **said}
        if asked == said or (not said and own != b"null"):
            return prepared
        body = replaced(body, {question.field: written(asked)})
    headers = dict(prepared.headers)
    for name, value in question.headers.items():
        given = [each.strip() for each in headers.get(name, "").split(",") if each.strip()]
        headers[name] = ",".join(dict.fromkeys([*given, value]))
    return msgspec.structs.replace(
        prepared,
        headers=headers,
        body=body,
        reader=prepared.reader or Untold(streamed=streamed),
    )


def _noted(prepared: Prepared, notes: tuple[str, ...]) -> Prepared:
    if not notes:
        return prepared
    return msgspec.structs.replace(prepared, notes=(*prepared.notes, *notes))
