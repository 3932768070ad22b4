"""Claude on Amazon Bedrock, by InvokeModel: chat, Responses and Messages in, and back.

A stream comes in AWS's binary frames, which the transport turns into server-sent events.

Source: AWS, Bedrock runtime, InvokeModel, InvokeModelWithResponseStream, CountTokens; Anthropic,
Claude on Amazon Bedrock (2026-11).
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import UpstreamError
from proxy.providers.anthropic.adapter import AnthropicWire
from proxy.providers.anthropic.failure import messages_failure
from proxy.providers.cloud_platforms.aws_errors import error_type, status_of_type
from proxy.providers.cloud_platforms.bodies import (
    COUNT_TOKENS,
    CloudForm,
    cloud_request,
    served_model,
)
from proxy.providers.lenient import UNREADABLE
from proxy.providers.port import PreparedRequest
from proxy.providers.readers import HeldReader
from proxy.providers.stream_endings import malformed_answer
from proxy.records.call import MESSAGES, Call
from proxy.records.request_fields import replace_fields
from slo.price import BillingTerms

_FORM: Final = CloudForm(
    title="Amazon Bedrock",
    version=b'"bedrock-2023-05-31"',
    without=("model", "stream"),
    betas_in_body=True,
    places_marks=True,
)
#: Models by their own ids, which regions' profiles precede: ``us.anthropic.claude-…``.
_OWN_ID: Final = "anthropic."


class BedrockWire(AnthropicWire):
    """Amazon Bedrock's runtime, for Claude."""

    key_header = "authorization"

    def request(self, call: Call, route: Route) -> PreparedRequest:
        """The call as InvokeModel takes it, always made from the caller's own bytes."""
        model = served_model(call, route, _FORM)
        own = super().request(call, route)
        cloud_form = cloud_request(
            own.body, own.headers, _FORM, route.upstream.headers, route.upstream.betas
        )
        if call.endpoint == COUNT_TOKENS:
            return _count_request(cloud_form.body, model)
        way = "invoke-with-response-stream" if call.is_streaming else "invoke"
        return msgspec.structs.replace(
            own,
            path=f"/model/{quote(model, safe='')}/{way}",
            headers=cloud_form.headers,
            body=cloud_form.body,
            notes=(*own.notes, *cloud_form.notes),
            endpoint=MESSAGES,
        )

    def terms(
        self, requested: str, answered: str, usage: Mapping[str, Any], region: str
    ) -> BillingTerms:
        """The terms of an answer: the region is that of the upstream."""
        return BillingTerms(region=region)

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Translate an error of Bedrock's into the caller's, by the type in its headers."""
        return messages_failure(status_of_type(error_type(headers), status), headers, body)


def _count_request(body: bytes, model: str) -> PreparedRequest:
    """The question for a prompt's tokens, of the model itself: profiles count none."""
    if model.rfind(_OWN_ID) >= 0 and not model.startswith("arn:"):
        model = model[model.rfind(_OWN_ID) :]
    counted = replace_fields(body, {"max_tokens": b"1"})
    question = {"input": {"invokeModel": {"body": b64encode(counted).decode()}}}
    return PreparedRequest(
        method="POST",
        path=f"/model/{quote(model, safe='')}/count-tokens",
        headers={"content-type": "application/json"},
        body=msgspec.json.encode(question),
        reader=_CountReader(),
    )


class _Count(msgspec.Struct, rename="camel"):
    input_tokens: int


class _CountReader(HeldReader):
    """Turns a count of Bedrock's into Anthropic's."""

    def end(self) -> bytes:
        """The count."""
        try:
            count = msgspec.json.decode(self._body, type=_Count)
        except UNREADABLE:
            raise malformed_answer() from None
        return msgspec.json.encode({"input_tokens": count.input_tokens})
