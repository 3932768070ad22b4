"""Claude on Google's Vertex AI, by rawPredict: chat, Responses and Messages in, and back.

Source: Google, Vertex AI, Claude models, streamRawPredict, count-tokens; Anthropic, Claude on
Vertex AI (2026-11).
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.anthropic.adapter import AnthropicWire
from proxy.providers.cloud_platforms.bodies import (
    COUNT_TOKENS,
    CloudForm,
    cloud_request,
    served_model,
)
from proxy.providers.port import PreparedRequest
from proxy.records.call import MESSAGES, Call
from proxy.records.request_fields import replace_fields
from slo.price import BillingTerms

_VERSION: Final = b'"vertex-2023-10-16"'
_FORM: Final = CloudForm(title="Vertex AI", version=_VERSION, without=("model",))
_MODELS: Final = "/publishers/anthropic/models/"


class VertexWire(AnthropicWire):
    """Vertex AI, for Claude."""

    key_header = "authorization"

    def request(self, call: Call, route: Route) -> PreparedRequest:
        """The call as rawPredict takes it, always made from the caller's own bytes."""
        model = served_model(call, route, _FORM)
        own = super().request(call, route)
        cloud_form = cloud_request(
            own.body, own.headers, _FORM, route.upstream.headers, route.upstream.betas
        )
        body, name = cloud_form.body, model
        if call.endpoint == COUNT_TOKENS:  # the one path that has no model
            body = replace_fields(body, {"model": msgspec.json.encode(model)})
            name = "count-tokens"
        way = "streamRawPredict" if call.is_streaming else "rawPredict"
        return msgspec.structs.replace(
            own,
            path=f"{_MODELS}{quote(name, safe='@')}:{way}",
            headers=cloud_form.headers,
            body=body,
            notes=(*own.notes, *cloud_form.notes),
            endpoint=call.endpoint if call.endpoint == COUNT_TOKENS else MESSAGES,
        )

    def terms(
        self, requested: str, answered: str, usage: Mapping[str, Any], region: str
    ) -> BillingTerms:
        """The terms of an answer: the region is that of the upstream."""
        return BillingTerms(region=region)
