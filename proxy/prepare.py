"""(call, route) → the request for one upstream; always from the caller's own bytes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from proxy.call import Call
from proxy.catalog.entries import Kind, Route
from proxy.wire.anthropic import AnthropicWire
from proxy.wire.openai import OpenAIWire
from proxy.wire.port import Prepared, Wire

#: How each kind of upstream speaks; a new kind is a new file in ``proxy.wire`` and a line here.
WIRES: Final[Mapping[Kind, Wire]] = MappingProxyType(
    {"openai": OpenAIWire(), "anthropic": AnthropicWire()}
)


def prepare(call: Call, route: Route) -> Prepared:
    """The attempt at this call on this route.

    Raises:
        InvalidCall: If the call cannot be said on the route's wire without changing its meaning.
    """
    return WIRES[route.upstream.kind].request(call, route)
