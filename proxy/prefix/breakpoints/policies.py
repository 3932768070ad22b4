"""Chooses a call's cache marks and cache key, and writes the key into the call.

It never asks for a retention: OpenAI keeps prompts for up to a day by default, except for
organisations that agreed on zero retention, which only they may change. A retention that the caller
asks for counts.

Source: OpenAI, prompt caching guide (2026-09); Mistral and Fireworks, prompt caching (2026-11);
xAI, prompt caching, maximizing cache hits, chat completions (2026-11).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proxy.caches.outlook import regime_at_retention
from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.account import MAX_PLACES, PromptPlace
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.prediction.sent_call import PromptStart
from proxy.prefix.prompts.items import is_items
from proxy.prefix.prompts.objects import members
from proxy.prefix.prompts.prompt import Prompt, part_text

_OPTIONS: Final = "prompt_cache_options"
_RETENTION: Final = "prompt_cache_retention"
_KEY: Final = "prompt_cache_key"
#: Caches whose calls carry a key in the body, where they share nothing without one.
_KEYED: Final = frozenset({("block-chain", "mistral"), ("implicit", "fireworks")})
#: The same in the Responses API.
_KEYED_ITEMS: Final = _KEYED | {("block-chain", "xai")}
#: The header that carries it, elsewhere. Only here the key alone is where a call goes: OpenAI up to
#: GPT-5.5 and Azure join it to a hash of how the prompt begins, which brings equal prefixes
#: together by itself. One key for all changes nothing there; several send one prefix to cold
#: machines.
_HEADERS: Final = {("block-chain", "xai"): "x-grok-conv-id"}
#: The cache that has modes.
_OPENAI: Final = "openai-breakpoint"
#: Calls that all have to begin in another way before OpenAI's own choice is switched off.
_MIN_DIFFERENT_CALLS: Final = 6


def add_cache_key(prompt: Prompt, policy: BreakpointPolicy, regime: Regime) -> Prompt:
    """The prompt with the policy's key and mode, each where the caller said nothing.

    A key that an agent's sessions share stands in place of the caller's own.

    OpenAI refuses a retention beside options, so a caller's retention keeps the options away.
    """
    if not (policy.key or policy.explicit or policy.shared_key):
        return prompt
    fields = {name: raw for name, raw in prompt.fields.items() if raw != b"null"}
    policy_fields: dict[str, bytes] = {}
    keyed = _KEYED_ITEMS if is_items(fields) else _KEYED
    if policy.key and (regime.name, regime.provider) in keyed:
        policy_fields[_KEY] = msgspec.json.encode(policy.key)
    if policy.explicit and regime.name == _OPENAI and _RETENTION not in fields:
        policy_fields[_OPTIONS] = b'{"mode":"explicit"}'
    added = {one: raw for one, raw in policy_fields.items() if one not in fields}
    if policy.shared_key and _KEY in fields:
        added[_KEY] = msgspec.json.encode(policy.shared_key)
    return msgspec.structs.replace(prompt, fields={**prompt.fields, **added}) if added else prompt


def is_explicit(prompt: Prompt, regime: Regime) -> bool:
    """True if a prompt that is sent switches the provider's own choice of breakpoints off."""
    return _cache_options(prompt, regime).get("mode") == b'"explicit"'


def requested_lifetime(prompt: Prompt, regime: Regime) -> str:
    """The lifetime that a prompt asks for as a whole; "" for none that its cache sells."""
    lifetime = part_text(_cache_options(prompt, regime).get("ttl", b"")) or ""
    return lifetime if lifetime in regime.lifetimes else ""


def _cache_options(prompt: Prompt, regime: Regime) -> Mapping[str, bytes]:
    raw = prompt.fields.get(_OPTIONS, b"")
    return members(raw) if regime.name == _OPENAI and raw[:1] == b"{" else {}


def requested_regime(prompt: Prompt, regime: Regime) -> Regime:
    """The regime at the retention that a prompt asks for; the same where it asks for none."""
    raw = prompt.fields.get(_RETENTION)
    return regime if raw is None else regime_at_retention(regime, part_text(raw) or "")


def needs_key(regime: str, provider: str) -> bool:
    """True if calls share a cache only where all of them carry the same key, however short."""
    return (regime, provider) in _KEYED


def key_headers(policy: BreakpointPolicy, regime: Regime) -> dict[str, str]:
    """The headers that carry the policy's key, where a cache looks for it there."""
    name = _HEADERS.get((regime.name, regime.provider))
    return {name: policy.key} if name and policy.key else {}


def fixed_marks(
    regime: Regime,
    policy: BreakpointPolicy,
    *,
    left_out: int,
    explicit: bool = False,
    ends_early: bool = False,
    ttl: str = "",
) -> BreakpointPolicy:
    """The policy with a mark at each fixed place; none where writes are free.

    In OpenAI's implicit mode the provider writes the end by itself, and what it writes is charged
    once, so that marks before it cost nothing.

    ``policy`` holds the conversation's keys. Later calls do not repeat ``left_out`` blocks at the
    end; ``ends_early`` is true if a user's message behind the conversation holds what varies.

    Source: OpenAI, prompt caching guide, implicit and explicit mode (2026-09).
    """
    if not regime.takes_marks or not regime.writes:
        return policy
    ends_itself = regime.name == _OPENAI and (explicit or not (left_out or ends_early))
    return msgspec.structs.replace(
        policy,
        ttl=ttl or regime.usual_ttl,
        places=PromptPlace.FIRST_CALL if ends_itself else MAX_PLACES,
        back=left_out,
        explicit=explicit,
    )


def marks_up_to(policy: BreakpointPolicy, places: int) -> BreakpointPolicy:
    """The policy with the marks of so many places at most, in wire order."""
    return policy if policy.places <= places else msgspec.structs.replace(policy, places=places)


def writes_unread_ends(regime: Regime, before: Sequence[PromptStart], now: PromptStart) -> bool:
    """True if OpenAI's own choice of breakpoints would write what no later call reads.

    That is where no two of many calls of a conversation began alike, this one among them. Several
    agents that take turns, or a list of tools that grows, begin alike again.
    """
    firsts = {now.first, *(start.first for start in before)}
    is_anew = len(before) >= _MIN_DIFFERENT_CALLS and len(firsts) > len(before)
    return is_anew and regime.name == _OPENAI


def conversation_cache_key(regime: Regime, team: str, feature: str) -> str:
    """The key that brings calls of one prefix together: its team's or feature's; "" for none.

    What keeps teams apart is no matter of a plan: it holds for every call, planned or not.
    """
    if (regime.name, regime.provider) in _HEADERS:
        return feature
    return team if needs_key(regime.name, regime.provider) else ""
