"""Keeps teams out of each other's prompt caches, where the upstream takes a key or salt.

=====================  =======================================  ============================
upstream               said in                                  where the caller said nothing
=====================  =======================================  ============================
OpenAI, Azure          ``prompt_cache_key``                     the team's
vLLM, SGLang           ``cache_salt``                           the team's
TensorRT-LLM           ``cache_salt``, in chat alone            the team's
Mistral                ``prompt_cache_key``                     nothing: it shares nothing
Fireworks              the header of its isolation key          the team's
=====================  =======================================  ============================

What the caller said is kept apart from what others say: it is hashed together with the team's.
Others offer nothing of the kind, and upstreams with ``shares_cache`` are sent nothing. OpenAI's
models before GPT-5.6 only send calls to machines by it.

Source: OpenAI and Mistral, prompt caching; vLLM 0.33.0 and SGLang 0.5.23, requests; TensorRT-LLM,
release notes of 1.1 and ``openai_protocol.py``; Fireworks, prompt caching (2026-11).
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import msgspec

from proxy.catalog.entries import Route
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.call import Call
from proxy.records.request_fields import raw_field

_KEY: Final = "prompt_cache_key"
_SALT: Final = "cache_salt"
_ISOLATION: Final = "prompt_cache_isolation_key"
_HEADER: Final = "x-prompt-cache-isolation-key"
_GENERATING: Final = frozenset({"chat/completions", "completions", "responses"})
#: Endpoints that know the field and several teams may call. Source: OpenAI API reference (2026-11).
_KEYED: Final = frozenset({"chat/completions", "responses", "responses/compact"})
#: Endpoints whose requests have the salt, for engines that refuse unknown fields elsewhere.
_SALTED: Final[Mapping[str, frozenset[str]]] = {"tensorrt-llm": frozenset({"chat/completions"})}
#: Purpose of the pseudonym that a team's salt is.
_CACHE: Final = b"prompt cache"
_NOTHING: Final = frozenset({b"null", b'""'})
#: Providers of whose caches the field is known.
_FIELDS: Final[Mapping[str, str]] = {
    "openai": _KEY,
    "mistral": _KEY,
    "vllm": _SALT,
    "sglang": _SALT,
    "tensorrt-llm": _SALT,
    "fireworks": _ISOLATION,
}
#: For upstreams whose provider is not said, or has several kinds of caches.
_BY_REGIME: Final[Mapping[tuple[str, str], str]] = {
    ("openai-breakpoint", ""): _KEY,
    ("openai-breakpoint", "azure"): _KEY,
    ("openai-interval", ""): _KEY,
    ("openai-interval", "azure"): _KEY,
    ("block-chain", ""): _SALT,
}


class CacheIsolation(msgspec.Struct, frozen=True):
    """The fields, as JSON, and headers that isolation adds to a request."""

    fields: Mapping[str, bytes] = {}
    headers: Mapping[str, str] = {}


_NOT_ISOLATED: Final = CacheIsolation()


def add_cache_salt(call: Call, teams: int, seal: Pseudonymizer) -> Call:
    """The call with what keeps it out of other teams' caches; as it is where there is one team.

    Args:
        teams: Number of teams that have a key.
    """
    if teams <= 1:
        return call
    return msgspec.structs.replace(call, salt=seal.pseudonym(call.key.team, _CACHE))


def isolate_cache(body: bytes, endpoint: str, route: Route, salt: str) -> CacheIsolation:
    """The fields and headers that keep a call in its team's cache; none where teams share it.

    Args:
        salt: The team's, of a fixed length; "" where no team is to be kept apart.
    """
    if not salt or route.upstream.shares_cache:
        return _NOT_ISOLATED
    provider = route.upstream.provider
    name = _FIELDS.get(provider) or _BY_REGIME.get((route.regime, provider), "")
    if not name or endpoint not in (_KEYED if name == _KEY else _SALTED.get(provider, _GENERATING)):
        return _NOT_ISOLATED
    own = raw_field(body, name)
    callers_key = own if own is not None and own.strip() not in _NOTHING else b""
    value = _hash(salt, callers_key) if callers_key else salt
    if name == _ISOLATION:  # as a header, for it refuses fields that it does not know
        fields = {name: msgspec.json.encode(value)} if callers_key else {}
        return CacheIsolation(fields, {_HEADER: value})
    if provider == "mistral" and not callers_key:
        return _NOT_ISOLATED
    return CacheIsolation({name: msgspec.json.encode(value)})


def _hash(salt: str, callers_key: bytes) -> str:
    return blake2b(salt.encode() + callers_key, digest_size=16).hexdigest()
