"""Request fields, besides the blocks, whose change loses what was cached.

Source: OpenAI, prompt caching guide (2026-09); Anthropic, prompt caching, what invalidates the
cache (2026-08); vLLM 0.33.0 and Mistral, prompt caching (2026-11).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.prompts.objects import members
from proxy.prefix.prompts.prompt import Fingerprint, Prompt

#: Fields that choose which cache is asked rather than what it holds.
KEYS: Final = frozenset({"prompt_cache_key", "cache_salt"})
_SHORT: Final = 8
_OPENAI: Final = (
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning.effort",
    "reasoning_effort",
    "response_format",
    "service_tier",
    "text.format",
    "text.verbosity",
    "verbosity",
)
_ENGINE: Final = ("cache_salt", "chat_template_kwargs", "prompt_cache_key", "reasoning_effort")
_EARLY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "anthropic-breakpoint": ("reasoning_effort", "response_format", "speed"),
        "openai-breakpoint": _OPENAI,
        "openai-interval": _OPENAI,
    }
)
_LATE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"anthropic-breakpoint": ("parallel_tool_calls", "thinking", "tool_choice")}
)


class PrefixParameters(msgspec.Struct, frozen=True):
    """Fingerprints of the fields that a prefix depends on, by name.

    Attributes:
        early: Those that shape all of it.
        late: Those that shape the messages only.
    """

    early: dict[str, bytes]
    late: dict[str, bytes]


def prefix_parameters(
    prompt: Prompt, regime: Regime, fingerprint: Fingerprint, model: str = ""
) -> PrefixParameters:
    """Fingerprint the fields that the prefix depends on; a field left out counts as null.

    Args:
        prompt: What is sent.
        regime: The cache it meets.
        fingerprint: The team's.
        model: The name the upstream knows it by; "" for the one in the prompt.
    """
    early = _digests(prompt, _EARLY.get(regime.name, _ENGINE), fingerprint)
    named = model.encode("utf8", "surrogatepass") if model else prompt.fields.get("model", b"")
    early["model"] = fingerprint(named)[:_SHORT]
    return PrefixParameters(early, _digests(prompt, _LATE.get(regime.name, ()), fingerprint))


def _digests(prompt: Prompt, names: tuple[str, ...], fingerprint: Fingerprint) -> dict[str, bytes]:
    found = {name: _field_value(prompt.fields, name) for name in names}
    return {name: fingerprint(raw)[:_SHORT] for name, raw in found.items() if raw != b"null"}


def _field_value(fields: Mapping[str, bytes], name: str) -> bytes:
    """The value of a field, or of one within it; null where there is none."""
    outer, _, inner = name.partition(".")
    found = fields.get(outer, b"null")
    if inner and found[:1] == b"{":
        return members(found).get(inner, b"null")
    return b"null" if inner else found
