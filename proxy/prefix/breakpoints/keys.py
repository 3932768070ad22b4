"""The key and the mode that a policy asks for, where a provider looks for them.

No retention is asked for: OpenAI keeps prompts for a day by itself, but for organisations that
agreed on keeping nothing, and that is theirs to change.

Source: OpenAI, prompt caching guide (2026-09); Mistral and Fireworks, prompt caching (2026-11);
xAI, prompt caching, maximizing cache hits, chat completions (2026-11).
"""

from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.prompts.items import is_items
from proxy.prefix.prompts.objects import members
from proxy.prefix.prompts.prompt import Prompt

_OPTIONS: Final = "prompt_cache_options"
_RETENTION: Final = "prompt_cache_retention"
#: The cache that has modes.
_MODAL: Final = "openai-breakpoint"
_KEY: Final = "prompt_cache_key"
#: Caches whose calls carry a key in the body; "" for any other provider.
KEYED: Final = frozenset({("block-chain", "mistral"), ("implicit", "fireworks")})
#: The same in the Responses API.
_KEYED_ITEMS: Final = KEYED | {("block-chain", "xai")}
#: The header that carries it, elsewhere.
_HEADERS: Final = {("block-chain", "xai"): "x-grok-conv-id"}


def add_cache_key(prompt: Prompt, policy: BreakpointPolicy, regime: Regime) -> Prompt:
    """The prompt with the policy's key and mode, each where the caller said nothing.

    OpenAI refuses a retention beside options, so a caller's retention keeps the options away.
    """
    fields = {name: raw for name, raw in prompt.fields.items() if raw != b"null"}
    wanted: dict[str, bytes] = {}
    caches = {(regime.name, regime.provider), (regime.name, "")}
    keyed_by = _KEYED_ITEMS if is_items(fields) else KEYED
    if policy.key and not keyed_by.isdisjoint(caches):
        wanted[_KEY] = msgspec.json.encode(policy.key)
    if policy.explicit and regime.name == _MODAL and _RETENTION not in fields:
        wanted[_OPTIONS] = b'{"mode":"explicit"}'
    added = {one: raw for one, raw in wanted.items() if one not in fields}
    return msgspec.structs.replace(prompt, fields={**prompt.fields, **added}) if added else prompt


def is_explicit(prompt: Prompt, regime: Regime) -> bool:
    """True if a prompt that is sent switches the provider's own choice of breakpoints off."""
    raw = prompt.fields.get(_OPTIONS, b"")
    if regime.name != _MODAL or raw[:1] != b"{":
        return False
    return members(raw).get("mode") == b'"explicit"'


def needs_key(regime: str, provider: str) -> bool:
    """True if calls share a cache only where all of them carry the same key, however short."""
    return not KEYED.isdisjoint({(regime, provider), (regime, "")})


def key_headers(policy: BreakpointPolicy, regime: Regime) -> dict[str, str]:
    """The headers that carry the policy's key, where a cache looks for it there."""
    name = _HEADERS.get((regime.name, regime.provider))
    return {name: policy.key} if name and policy.key else {}
