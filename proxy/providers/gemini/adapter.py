"""Google's wire: chat completions in, ``generateContent`` out, and back.

Messages and Responses calls come as chat calls.
Source: Google, Gemini API, generateContent, streamGenerateContent, API keys (2026-11).
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from proxy.catalog.entries import Route
from proxy.errors import CallerError, UpstreamError
from proxy.providers.answers.tiers import price_tier
from proxy.providers.chat.chat_answer import chat_reply
from proxy.providers.chat.function_calls import with_functions, with_tools
from proxy.providers.failures import openai_failure
from proxy.providers.gemini.answer import WholeCompletion
from proxy.providers.gemini.request import generate_body
from proxy.providers.gemini.stream import ChunkStream
from proxy.providers.gemini.usage import gemini_usage
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call
from slo.price import BillingTerms
from slo.usage import Usage

_CHAT: Final = "chat/completions"
_HEADERS: Final = {"content-type": "application/json"}
#: Paths that callers may put before a model's name.
_PREFIX: Final = "models/"


class GeminiWire:
    """Any upstream that speaks Google's ``generateContent``."""

    key_header = "x-goog-api-key"

    def request(self, call: Call, route: Route) -> PreparedRequest:
        """The call in Google's format, always made from the caller's own bytes."""
        if call.endpoint != _CHAT or call.method != "POST":
            raise CallerError(
                f"This model serves no {call.endpoint[:100]}: ask a model of another provider.",
                code="unsupported_endpoint",
                param="model",
            )
        model = (route.model or call.model).removeprefix(_PREFIX)
        translated = generate_body(with_tools(call.body), route, model)
        reply = chat_reply(call)
        reader = ChunkStream(reply) if call.is_streaming else WholeCompletion(reply)
        way = "streamGenerateContent?alt=sse" if call.is_streaming else "generateContent"
        return PreparedRequest(
            method="POST",
            path=f"/{_PREFIX}{quote(model, safe='')}:{way}",
            headers=_HEADERS,
            body=translated.body,
            reader=with_functions(reader, call.body),
            notes=translated.notes,
        )

    def usage(self, reported: Mapping[str, Any], provider: str = "") -> Usage | None:
        """The usage object in disjoint buckets."""
        return gemini_usage(reported)

    def terms(
        self, requested: str, answered: str, usage: Mapping[str, Any], region: str
    ) -> BillingTerms:
        """The tier by the answer, else by the request.

        Source: Google, Gemini API, service tiers (2026-11).
        """
        return BillingTerms(service_tier=price_tier(answered or requested), region=region)

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Translate an error of Google's into the caller's."""
        return openai_failure(status, headers, body)
