"""The Anthropic wire: OpenAI chat completions in, Anthropic Messages out, and back.

Calls of Anthropic's own API pass through. Of translated ones the API version is pinned: the later
one refuses parameters that older models still take. The caller's beta features go along, and those
that its body needs. Source: Anthropic, versioning (2026-11).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import CallerError, UpstreamError
from proxy.providers.answers.tiers import price_tier
from proxy.providers.anthropic.answer import WholeAnswer
from proxy.providers.anthropic.failure import messages_failure
from proxy.providers.anthropic.passthrough import DEFAULT_VERSION, passthrough_request
from proxy.providers.anthropic.request import messages_body
from proxy.providers.anthropic.stream import AnswerStream
from proxy.providers.anthropic.usage import messages_usage
from proxy.providers.chat.chat_answer import chat_reply
from proxy.providers.chat.compaction_blocks import HEADER, merge_betas
from proxy.providers.chat.function_calls import with_functions, with_tools
from proxy.providers.lenient import UNREADABLE
from proxy.providers.port import PreparedRequest
from proxy.providers.readers import HeldReader
from proxy.records.call import MODELS_PREFIX, Call
from slo.price import BillingTerms
from slo.usage import Usage

_CHAT: Final = "chat/completions"
#: Regions to which processing may be bound; anything else that the usage names binds nothing.
_REGIONS: Final = frozenset({"us", "eu"})


class AnthropicWire:
    """Any upstream that speaks the Messages API.

    Source: Anthropic API, headers (2026-11).
    """

    key_header = "x-api-key"

    def request(self, call: Call, route: Route) -> PreparedRequest:
        """The call in Anthropic's format, always made from the caller's own bytes."""
        if call.speaks_messages:
            return passthrough_request(call, route)
        if call.method == "GET" and call.path_model:
            return _model_request(call, route)
        if call.endpoint != _CHAT or call.method != "POST":
            raise _unsupported_endpoint(call.endpoint)
        translated = messages_body(with_tools(call.body), route)
        reply = chat_reply(call)
        reader = AnswerStream(reply) if call.is_streaming else WholeAnswer(reply)
        return PreparedRequest(
            method="POST",
            path="/messages",
            headers=_headers(call.headers, translated.betas, route),
            body=translated.body,
            reader=with_functions(reader, call.body),
            notes=translated.notes,
        )

    def usage(self, reported: Mapping[str, Any], provider: str = "") -> Usage | None:
        """The usage object in disjoint buckets; its input excludes cached tokens."""
        return messages_usage(reported)

    def terms(
        self, requested: str, answered: str, usage: Mapping[str, Any], region: str
    ) -> BillingTerms:
        """Tier, region and speed of an answer, by its usage object alone.

        Source: Anthropic, Messages API, usage (2026-11).
        """
        served = usage.get("inference_geo")
        return BillingTerms(
            service_tier=price_tier(usage.get("service_tier")),
            region=served if isinstance(served, str) and served in _REGIONS else region,
            fast=usage.get("speed") == "fast",
        )

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Translate an Anthropic error into the caller's."""
        return messages_failure(status, headers, body)


def _headers(given: Mapping[str, str], needed: tuple[str, ...], route: Route) -> dict[str, str]:
    """The headers of a request; of the caller's own only the beta features it asks for."""
    headers = {"content-type": "application/json", "anthropic-version": DEFAULT_VERSION}
    if needed:
        return headers | {HEADER: merge_betas(route.upstream.headers, given, needed)}
    return headers | {HEADER: given[HEADER]} if HEADER in given else headers


def _model_request(call: Call, route: Route) -> PreparedRequest:
    """The question for one model."""
    return PreparedRequest(
        method="GET",
        path=f"/{MODELS_PREFIX}{quote(route.model or call.path_model, safe=':')}",
        headers=_headers(call.headers, (), route),
        body=b"",
        reader=_ModelReader(route.upstream.provider or route.upstream.name),
    )


class _Model(msgspec.Struct):
    """A model as Anthropic shows one.

    Source: Anthropic API, get a model (2026-11).
    """

    id: str
    created_at: datetime | None = None


_model = msgspec.json.Decoder(_Model).decode


class _ModelReader(HeldReader):
    """Turns a model as Anthropic shows one into the object that OpenAI's API has."""

    def __init__(self, owner: str) -> None:
        super().__init__()
        self._owner = owner

    def end(self) -> bytes:
        """The model; unmodified where it cannot be read."""
        try:
            model = _model(self._body)
        except UNREADABLE:
            return bytes(self._body)
        created = int(model.created_at.timestamp()) if model.created_at is not None else 0
        shown = {"id": model.id, "object": "model", "created": created, "owned_by": self._owner}
        return msgspec.json.encode(shown)


def _unsupported_endpoint(endpoint: str) -> CallerError:
    return CallerError(
        f"Anthropic serves no {endpoint[:100]}: ask a model of another provider.",
        code="unsupported_endpoint",
        param="model",
    )
