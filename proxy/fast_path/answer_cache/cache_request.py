"""A call that may be answered from the cache: its key, and what its caller says about it; pure.

Two calls share a key if they are of one team and feature, ask one endpoint in one way, and their
bodies hold the same JSON without the fields that the policy ignores. The key names the routes of
the model, too: an answer of another model, or of another provider, is another answer.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from blake3 import blake3

from proxy.catalog.entries import Route
from proxy.fast_path.answer_cache.cache_control import ANYTHING, CacheControl
from proxy.records.call import Call
from slo.policies.answer_cache import AnswerCachePolicy

#: Endpoints whose answers are kept.
CACHED_ENDPOINTS: Final = frozenset(
    {"chat/completions", "completions", "embeddings", "messages", "responses"}
)
#: Bodies from this length on take long to read, so that other calls should not wait for it.
LARGE_BODY_BYTES: Final = 128 * 1024
#: The longest body that is read.
_MAX_BODY_BYTES: Final = 8 * 2**20
_KEY_BYTES: Final = 16
#: Headers for the upstream that may make an answer another one.
_KEY_HEADERS: Final = (
    "anthropic-beta",
    "anthropic-version",
    "openai-beta",
    "openai-organization",
    "openai-project",
)

#: Fields that offer tools, in any API.
#: Sources: OpenAI API reference, chat and responses; Anthropic API reference, messages (2026-11).
_TOOL_FIELDS: Final = ("tools", "functions", "mcp_servers")

_decode = msgspec.json.Decoder().decode


class CacheRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call that may be answered from the cache.

    Attributes:
        key: Equal for equal calls of one team and feature alone.
        body: Its JSON, without the ignored fields.
        tags: Names by which its answer may be purged.
        offers_tools: True if its answer may call a tool.
    """

    call: Call
    key: str
    body: dict[str, Any]
    policy: AnswerCachePolicy
    control: CacheControl = ANYTHING
    tags: tuple[str, ...] = ()
    offers_tools: bool = False

    @property
    def flight_key(self) -> str:
        """The key of its answer under way: its own where equal calls may not share a tool call."""
        is_shared = self.policy.reusable or not self.offers_tools
        return self.key if is_shared else self.call.id

    def accepts(self, age_s: float) -> bool:
        """True if an answer of this age may be given."""
        limit = self.control.max_age
        return age_s < self.policy.ttl and (limit is None or age_s <= limit)


def may_be_cached(call: Call) -> bool:
    """True if equal calls of this form have equal answers, should its policy or its body say so.

    Not those that go on from what a provider keeps, that are answered later, or that only warm.
    """
    fields = call.fields
    return (
        call.method == "POST"
        and call.endpoint in CACHED_ENDPOINTS
        and fields is not None
        and not fields.needs_kept_state
        and not call.is_unattended
        and len(call.body) <= _MAX_BODY_BYTES
    )


def read_request(
    call: Call,
    policy: AnswerCachePolicy,
    routes: Iterable[Route],
    control: CacheControl = ANYTHING,
    tags: tuple[str, ...] = (),
) -> CacheRequest | None:
    """The request of a call that may be cached; None where its answer need not be the same again.

    Args:
        routes: Those of the model that it asks for.
    """
    try:
        body = _decode(call.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(body, dict) or not (policy.reusable or _repeats(call, body)):
        return None
    offers_tools = _offers_tools(call, body)
    for path in policy.ignore_fields:
        _remove(body, path)
    return CacheRequest(
        call=call,
        key=request_key(call, body, routes),
        body=body,
        policy=policy,
        control=control,
        tags=tags,
        offers_tools=offers_tools,
    )


def _offers_tools(call: Call, body: dict[str, Any]) -> bool:
    """True if a body offers tools, or names a stored prompt that may."""
    has_stored_prompt = call.endpoint == "responses" and bool(body.get("prompt"))
    return has_stored_prompt or any(body.get(name) for name in _TOOL_FIELDS)


def _repeats(call: Call, body: dict[str, Any]) -> bool:
    """True if a call asks for an answer that repeats."""
    if call.endpoint == "embeddings":
        return True
    if call.offers_hosted:
        return False
    temperature = body.get("temperature")
    is_zero = isinstance(temperature, int | float) and temperature == 0
    return (is_zero and temperature is not False) or body.get("seed") is not None


def _remove(body: dict[str, Any], path: Sequence[str]) -> None:
    """Take a field out of a body, where it is there; the objects around it stay."""
    inner: Any = body
    for name in path[:-1]:
        inner = inner.get(name) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner.pop(path[-1], None)


def request_key(call: Call, body: dict[str, Any], routes: Iterable[Route]) -> str:
    """The hash of all that makes a call this one.

    Both parts are JSON, which holds no line end as it is written here: no two of them that differ
    are the same bytes behind each other.
    """
    around = (
        call.key.team,
        call.feature,
        call.endpoint,
        call.query,
        call.compaction,
        sorted(call.regions) if call.regions is not None else None,
        [call.headers.get(name) for name in _KEY_HEADERS],
        sorted({_answerer(route) for route in routes}),
    )
    canonical = msgspec.json.encode(body, order="sorted")
    whole = msgspec.json.encode(around) + b"\n" + canonical
    return blake3(whole).hexdigest(_KEY_BYTES)


def _answerer(route: Route) -> tuple[str, str, str]:
    """The one who answers on a route; the replicas of an engine are one."""
    upstream = route.upstream
    where = upstream.engine or f"{upstream.name} {upstream.base_url}"
    return upstream.kind, where, route.model
