"""Lowers a request's output limit; pure."""

from proxy.calls.eligibility.output_limits import (
    LIMIT_FIELDS,
    positive_count,
    prepared_endpoint,
    read_fields,
    upstream_limit_field,
)
from proxy.catalog.entries import Route
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call


def is_limitable(prepared: PreparedRequest) -> bool:
    """True if the request's output limit can be lowered: it has one, or may be given one."""
    names = LIMIT_FIELDS.get(prepared_endpoint(prepared), ())
    fields = read_fields(prepared.body)
    limits = [value for name in names if (value := getattr(fields, name)) is not None]
    return bool(names) and all(map(positive_count, limits))


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
        upstream_limit_field(names, route),
    )


def clamp_note(field: str, tokens: int, ceiling: str) -> str:
    """The note on a receipt that its output limit was lowered."""
    return f"lowered {field} to {tokens}: the ceiling {ceiling}"
