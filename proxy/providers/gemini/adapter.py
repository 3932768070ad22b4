"""Google's wire: chat completions and Responses in, ``generateContent`` out, and back.

Messages calls come as chat calls.
Source: Google, Gemini API, generateContent, streamGenerateContent, API keys (2026-11).
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import CallerError, UpstreamError
from proxy.providers.failures import openai_failure
from proxy.providers.function_calls import FunctionCallReader, has_functions, with_tools
from proxy.providers.gemini.answer import WholeCompletion
from proxy.providers.gemini.request import GenerateRequest, generate_body
from proxy.providers.gemini.stream import ChunkStream
from proxy.providers.gemini.usage import gemini_usage
from proxy.providers.port import PreparedRequest, Reader
from proxy.providers.responses.reader import responses_reader
from proxy.providers.responses.request import chat_body
from proxy.providers.tiers import price_tier
from proxy.records.call import Call
from slo.price import BillingTerms
from slo.usage import Usage

_CHAT: Final = "chat/completions"
_RESPONSES: Final = "responses"
_ENDPOINTS: Final = frozenset({_CHAT, _RESPONSES})
_HEADERS: Final = {"content-type": "application/json"}
#: Paths that callers may put before a model's name.
_PREFIX: Final = "models/"


class GeminiWire:
    """Any upstream that speaks Google's ``generateContent``."""

    key_header = "x-goog-api-key"

    def request(self, call: Call, route: Route) -> PreparedRequest:
        """The call in Google's format, always made from the caller's own bytes.

        Raises:
            CallerError: If it cannot be said without changing its meaning.
        """
        if call.endpoint not in _ENDPOINTS or call.method != "POST":
            raise CallerError(
                f"This model serves no {call.endpoint[:100]}: ask a model of another provider.",
                code="unsupported_endpoint",
                param="model",
            )
        model = (route.model or call.model).removeprefix(_PREFIX)
        said, reader = _translate(call, route, model)
        way = "streamGenerateContent?alt=sse" if call.is_streaming else "generateContent"
        return PreparedRequest(
            method="POST",
            path=f"/{_PREFIX}{quote(model, safe='')}:{way}",
            headers=_HEADERS,
            body=said.body,
            reader=reader,
            notes=said.notes,
        )

    def usage(self, reported: Mapping[str, Any], provider: str = "") -> Usage | None:
        """The usage object in disjoint buckets."""
        return gemini_usage(reported)

    def terms(
        self, asked: str, answered: str, usage: Mapping[str, Any], region: str
    ) -> BillingTerms:
        """The tier by the answer, else by the request.

        Source: Google, Gemini API, service tiers (2026-11).
        """
        return BillingTerms(service_tier=price_tier(answered or asked), region=region)

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Translate an error of Google's into the caller's."""
        return openai_failure(status, headers, body)


def _translate(call: Call, route: Route, model: str) -> tuple[GenerateRequest, Reader]:
    """The request in Google's format, and the way back to the caller's."""
    if call.endpoint == _RESPONSES:
        drops = route.upstream.drops_server_tools
        asked = chat_body(call.body, drops_hosted=drops, takes_custom=False)
        try:
            said = generate_body(asked.body, route, model)
        except CallerError as error:
            raise asked.names.translate_error(error) from None
        notes = (*asked.notes, *map(asked.names.translate_note, said.notes))
        inner = _chat_reader(call, wants_usage=True)
        reader = responses_reader(inner, call.body, call.is_streaming, call.arrived)
        return msgspec.structs.replace(said, notes=notes), reader
    said = generate_body(with_tools(call.body), route, model)
    wants_usage = call.fields is not None and call.fields.wants_usage
    reader = _chat_reader(call, wants_usage=wants_usage)
    return said, FunctionCallReader(reader) if has_functions(call.body) else reader


def _chat_reader(call: Call, *, wants_usage: bool) -> Reader:
    created, model = int(call.arrived), call.substitute or call.model
    if not call.is_streaming:
        return WholeCompletion(model=model, created=created)
    return ChunkStream(model=model, created=created, wants_usage=wants_usage)
