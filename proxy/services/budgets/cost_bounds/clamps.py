"""Lowers a request's output limit; pure."""

import msgspec

from proxy.calls.eligibility.output_limits import LIMIT_FIELDS, positive_count, read_fields
from proxy.catalog.entries import Route
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call
from proxy.records.request_fields import replace_fields


def endpoint(prepared: PreparedRequest) -> str:
    """Endpoint of a request, such as ``messages``."""
    return prepared.endpoint or prepared.path.partition("?")[0].removeprefix("/")


def is_limitable(prepared: PreparedRequest) -> bool:
    """True if the request's output limit can be lowered: it has one, or may be given one."""
    names = LIMIT_FIELDS.get(endpoint(prepared), ())
    fields = read_fields(prepared.body)
    limits = [value for name in names if (value := getattr(fields, name)) is not None]
    return bool(names) and all(map(positive_count, limits))


def with_output_limit(prepared: PreparedRequest, route: Route, tokens: int) -> PreparedRequest:
    """The request with this output limit, of each choice; all else as it was.

    It stands in the field that the request uses already, else in the one its upstream knows.
    """
    fields = read_fields(prepared.body)
    names = LIMIT_FIELDS[endpoint(prepared)]
    used = [name for name in names if getattr(fields, name) is not None]
    limit = msgspec.json.encode(tokens)
    body = replace_fields(
        prepared.body, dict.fromkeys(used or [_upstream_field(names, route)], limit)
    )
    return msgspec.structs.replace(prepared, body=body)


def output_limit_field(call: Call, route: Route) -> str:
    """The field that a caller knows the output limit by, such as ``max_output_tokens``.

    "" where a call has none.
    """
    names = LIMIT_FIELDS.get(call.endpoint)
    if names is None:
        return ""
    fields = read_fields(call.body)
    return next(
        (name for name in names if positive_count(getattr(fields, name))),
        _upstream_field(names, route),
    )


def clamp_note(field: str, tokens: int, ceiling: str) -> str:
    """The note on a receipt that its output limit was lowered."""
    return f"lowered {field} to {tokens}: the ceiling {ceiling}"


def _upstream_field(names: tuple[str, ...], route: Route) -> str:
    """The field an upstream knows: OpenAI's own models know another than all the rest."""
    is_openai = route.upstream.provider == "openai" or route.regime.startswith("openai-")
    return names[0] if is_openai else names[-1]
