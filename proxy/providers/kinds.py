"""The wire format of each kind of upstream; a new kind is a new folder and a line here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from proxy.catalog.entries import Kind, Upstream
from proxy.providers.anthropic.adapter import AnthropicWire
from proxy.providers.cloud_platforms.cloud_wires import BedrockWire, VertexWire
from proxy.providers.gemini.adapter import GeminiWire
from proxy.providers.openai.adapter import OpenAIWire
from proxy.providers.port import Wire

WIRES: Final[Mapping[Kind, Wire]] = MappingProxyType(
    {
        "openai": OpenAIWire(),
        "anthropic": AnthropicWire(),
        "anthropic-bedrock": BedrockWire(),
        "anthropic-vertex": VertexWire(),
        "gemini": GeminiWire(),
    }
)


def credentials(upstream: Upstream, key: str) -> tuple[str, str]:
    """The header that carries the key to this upstream, and its value."""
    name = upstream.key_header or WIRES[upstream.kind].key_header
    return name, f"Bearer {key}" if name == "authorization" else key
