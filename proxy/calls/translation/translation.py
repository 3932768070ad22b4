"""(call, route) → the request for one upstream; always from the caller's own bytes."""

from typing import Final

import msgspec

from proxy.calls.eligibility.eligibility import PLANNABLE_ENDPOINTS, speaks_endpoint
from proxy.catalog.entries import Route
from proxy.prefix.arrangement import remove_body_tags
from proxy.prefix.planned import Passthrough, Planned
from proxy.providers.fitting.chat_schemas import chat_schema_rules
from proxy.providers.fitting.provider_fields import GENERATING_ENDPOINTS, apply_body_fields
from proxy.providers.fitting.substitution import translate_for_substitute
from proxy.providers.kinds import WIRES
from proxy.providers.openai.responses_request import ReasoningUse, send_by_responses
from proxy.providers.port import PreparedRequest
from proxy.providers.scheduling_hints import CallHints, add_hints
from proxy.records.call import MESSAGES, Call
from proxy.records.receipt import answering_model

_UNMODIFIED: Final = Passthrough()
#: Bodies from these sizes on take a millisecond or more: those that stay in their API, and those
#: that are said in another one.
_MIN_THREADED_BODY_BYTES: Final = 256 * 1024
_MIN_THREADED_TRANSLATION_BYTES: Final = 64 * 1024
#: Objects that take a millisecond to say in another API, however short they are.
_MIN_THREADED_OBJECTS: Final = 384
#: A schema of a few of these may become hundreds of KiB where definitions go in their place.
_REFERENCE: Final = b'"$ref"'


def needs_thread(call: Call, route: Route) -> bool:
    """True if a call's request for a route takes so long to make that other calls should go on."""
    size = len(call.body)
    if size < _MIN_THREADED_OBJECTS:
        return False
    fits = chat_schema_rules(route.upstream) is not None
    stays = not fits and (call.endpoint == MESSAGES or route.upstream.kind == "openai")
    if stays and speaks_endpoint(route, call.endpoint):
        return size >= _MIN_THREADED_BODY_BYTES
    if size >= _MIN_THREADED_TRANSLATION_BYTES:
        return True
    return call.body.count(b"{") >= _MIN_THREADED_OBJECTS or (fits and _REFERENCE in call.body)


def prepare(
    call: Call,
    route: Route,
    planned: Planned | Passthrough = _UNMODIFIED,
    *,
    is_substitute: bool = False,
    reasoning: ReasoningUse = "",
    hints: CallHints | None = None,
) -> PreparedRequest:
    """The attempt at this call on this route.

    Args:
        planned: The body that is sent in place of the caller's, or why the caller's is.
        is_substitute: True if the route's model answers in place of the one that was asked for, so
            that the request is translated to what it takes.
        reasoning: Fate of reasoning that a translation seals.
        hints: Said to the route's scheduler in its own words; None says nothing.

    Raises:
        CallerError: If the call cannot be said on the route's wire without changing its meaning.
    """
    if is_substitute:
        call = msgspec.structs.replace(call, substitute=answering_model(route.name, call.model))
    prepared = _prepare(call, route, planned)
    if is_substitute:
        prepared = translate_for_substitute(prepared, route)
        prepared = send_by_responses(prepared, call, route, reasoning=reasoning)
    prepared = _add_plan(prepared, call, planned)
    declared = route.upstream.body_fields
    if declared is not None and call.endpoint in GENERATING_ENDPOINTS and call.method == "POST":
        prepared = apply_body_fields(prepared, declared)
    return prepared if hints is None else add_hints(prepared, route.upstream.hints, hints)


def _prepare(call: Call, route: Route, planned: Planned | Passthrough) -> PreparedRequest:
    wire = WIRES[route.upstream.kind]
    if isinstance(planned, Passthrough):
        return wire.request(_without_tags(call), route)
    changed = planned.body is not call.body
    sent_call = msgspec.structs.replace(call, body=planned.body) if changed else call
    return wire.request(sent_call, route)


def _add_plan(
    prepared: PreparedRequest, call: Call, planned: Planned | Passthrough
) -> PreparedRequest:
    """The request with the plan's notes and headers."""
    if isinstance(planned, Passthrough):
        if not planned.why and not call.notes:
            return prepared
        return _with_notes(prepared, (*call.notes, *filter(None, (planned.why,))))
    prepared = _with_notes(prepared, (*call.notes, *planned.notes))
    if planned.headers:
        headers = {**prepared.headers, **planned.headers}
        prepared = msgspec.structs.replace(prepared, headers=headers)
    return prepared


def _without_tags(call: Call) -> Call:
    """The call without tags in its prompt; as it is where there are none."""
    if call.endpoint not in PLANNABLE_ENDPOINTS:
        return call
    body = remove_body_tags(call.body, is_native=call.endpoint == MESSAGES)
    return call if body is call.body else msgspec.structs.replace(call, body=body)


def _with_notes(prepared: PreparedRequest, notes: tuple[str, ...]) -> PreparedRequest:
    if not notes:
        return prepared
    return msgspec.structs.replace(prepared, notes=(*prepared.notes, *notes))
