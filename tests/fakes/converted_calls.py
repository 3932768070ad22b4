"""Requests of calls that are said in chat first, as an attempt makes them."""

from proxy.calls.translation.converted_calls import convert_call
from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import Route
from proxy.errors import CallerError
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call


def prepare_converted(call: Call, route: Route) -> PreparedRequest:
    """The request whose reader answers in the caller's API; errors name the caller's fields."""
    converted = convert_call(call, route)
    if converted is None:
        return prepare(call, route)
    try:
        return converted.with_reader(prepare(converted.call, route))
    except CallerError as error:
        raise converted.translate_error(error) from None
