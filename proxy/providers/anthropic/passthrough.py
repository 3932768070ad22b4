"""Calls of Anthropic's own API to an upstream that speaks it: the caller's bytes, there and back.

Only the model's name is another where the catalog says so, and thinking that the gateway signed for
another provider's model is left out: Anthropic would refuse it. The caller's API version and beta
features go along; credentials and all other headers are the gateway's. The address of a batch's
results, which the SDKs call with their key, leads back to the gateway.

Source: Anthropic API, headers, versioning and beta headers, retrieve a message batch (2026-11).
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import CallerError
from proxy.prefix.layouts.agent_shapes import without_attribution
from proxy.providers.chat.compaction_blocks import HEADER, merge_betas
from proxy.providers.messages.signatures import without_own_thinking
from proxy.providers.port import PreparedRequest
from proxy.providers.readers import PassthroughReader
from proxy.records.amounts import quantity
from proxy.records.call import MESSAGES, MODELS_PREFIX, Call
from proxy.records.request_fields import replace_fields

#: The API version where the caller names none, and of translated calls.
DEFAULT_VERSION: Final = "2023-06-01"
#: Providers whose Messages API is Anthropic's own; unnamed ones are taken for it.
_OWN_PROVIDERS: Final = frozenset({"", "anthropic"})
#: Endpoints whose bodies hold a conversation.
_ASKED: Final = frozenset({MESSAGES, f"{MESSAGES}/count_tokens"})
_VERSION: Final = "anthropic-version"
_BATCHES: Final = f"{MESSAGES}/batches"
#: The provider's own address before the path of a batch's results in an answer.
_RESULTS: Final = re.compile(
    rb'(?P<name>"results_url"\s*:\s*")https?:[^"]*?(?P<path>(?:\\?/)v1\\?/messages\\?/batches\\?/)'
)
#: The caller's headers that go along; beta features do, too, beside the operator's own.
_PASSED: Final = ("accept", "content-type", "idempotency-key", _VERSION)


def passthrough_request(call: Call, route: Route) -> PreparedRequest:
    """The caller's own request for an upstream that speaks Anthropic's API."""
    is_own = route.upstream.provider in _OWN_PROVIDERS or call.endpoint != MESSAGES
    body = call.body if is_own else without_attribution(call.body)
    body, left_out = without_own_thinking(body) if call.endpoint in _ASKED else (body, 0)
    if route.model and call.fields is not None and call.fields.model not in ("", route.model):
        body = replace_fields(body, {"model": msgspec.json.encode(route.model)})
    return PreparedRequest(
        method=call.method,
        path=upstream_path(call, route),
        headers=_headers(call.headers, route),
        body=body,
        reader=_reader(call.endpoint),
        notes=(f"left out {quantity(left_out, 'thinking block')} of other models",)
        if left_out
        else (),
    )


def foreign_upstream(call: Call, route: Route) -> CallerError:
    """The refusal of a call of Anthropic's API whose upstream speaks another."""
    return CallerError(
        f"`{call.model or route.upstream.name}` is served by an upstream that does not speak"
        f" Anthropic's API, so it cannot take /v1/{call.endpoint[:100]}. Ask a Claude model, or"
        " send the call to /v1/chat/completions.",
        code="unsupported_endpoint",
        param="model",
    )


class BatchReader(PassthroughReader):
    """Makes the addresses of batches' results lead to the gateway; all else stays as it is.

    The SDKs get such an address with the caller's key. A path alone is resolved against the base
    URL that the client has.
    """

    def feed(self, piece: bytes) -> bytes:
        """The answer with paths in place of addresses."""
        return _RESULTS.sub(rb"\g<name>\g<path>", piece)


def _reader(endpoint: str) -> BatchReader | None:
    """The reader of answers that name batches; None for the results themselves and all else."""
    is_batch = endpoint == _BATCHES or endpoint.startswith(f"{_BATCHES}/")
    return BatchReader() if is_batch and not endpoint.endswith("/results") else None


def upstream_path(call: Call, route: Route) -> str:
    """The caller's path and query, with the model's name upstream where the path names it."""
    path = f"/{call.endpoint}"
    if route.model and call.path_model:
        path = f"/{MODELS_PREFIX}{quote(route.model, safe=':')}"
    return f"{path}?{call.query}" if call.query else path


def _headers(given: Mapping[str, str], route: Route) -> dict[str, str]:
    headers = {name: given[name] for name in _PASSED if name in given}
    headers.setdefault(_VERSION, DEFAULT_VERSION)
    if HEADER in given:
        has_own = any(name.lower() == HEADER for name in route.upstream.headers)
        merged = merge_betas(route.upstream.headers, given, ()) if has_own else given[HEADER]
        headers[HEADER] = merged
    return headers
