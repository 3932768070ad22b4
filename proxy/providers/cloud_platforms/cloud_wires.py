"""Claude on Amazon Bedrock and on Google's Vertex AI: chat, Responses and Messages in, and back.

Bedrock's streams come in AWS's binary frames, which the transport turns into server-sent events.

Source: AWS, Bedrock runtime, InvokeModel, InvokeModelWithResponseStream, CountTokens; Google,
Vertex AI, Claude models, streamRawPredict, count-tokens; Anthropic, Claude on Amazon Bedrock, on
Vertex AI (2026-11).
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from proxy.errors import UpstreamError
from proxy.providers.anthropic.failure import messages_failure
from proxy.providers.cloud_platforms.aws_errors import error_type, status_of_type
from proxy.providers.cloud_platforms.bodies import COUNT_TOKENS, CloudForm, CloudWire
from proxy.providers.lenient import UNREADABLE
from proxy.providers.port import PreparedRequest
from proxy.providers.readers import HeldReader
from proxy.providers.stream_endings import malformed_answer
from proxy.records.call import Call
from proxy.records.request_fields import replace_fields

#: Models by their own ids, which regions' profiles precede: ``us.anthropic.claude-…``.
_OWN_ID: Final = "anthropic."
_VERTEX_MODELS: Final = "/publishers/anthropic/models/"


class BedrockWire(CloudWire):
    """Amazon Bedrock's runtime, for Claude."""

    form = CloudForm(
        title="Amazon Bedrock",
        version=b'"bedrock-2023-05-31"',
        without=("model", "stream"),
        betas_in_body=True,
        places_marks=True,
    )

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Translate an error of Bedrock's into the caller's, by the type in its headers."""
        return messages_failure(status_of_type(error_type(headers), status), headers, body)

    def _with_path(self, prepared: PreparedRequest, call: Call, model: str) -> PreparedRequest:
        if call.endpoint == COUNT_TOKENS:
            return _count_request(prepared.body, model)
        way = "invoke-with-response-stream" if call.is_streaming else "invoke"
        return msgspec.structs.replace(prepared, path=f"/model/{quote(model, safe='')}/{way}")


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


class VertexWire(CloudWire):
    """Vertex AI, for Claude."""

    form = CloudForm(title="Vertex AI", version=b'"vertex-2023-10-16"', without=("model",))

    def _with_path(self, prepared: PreparedRequest, call: Call, model: str) -> PreparedRequest:
        if call.endpoint == COUNT_TOKENS:  # the one path that has no model
            named = replace_fields(prepared.body, {"model": msgspec.json.encode(model)})
            prepared = msgspec.structs.replace(prepared, body=named, endpoint=COUNT_TOKENS)
            model = "count-tokens"
        way = "streamRawPredict" if call.is_streaming else "rawPredict"
        path = f"{_VERTEX_MODELS}{quote(model, safe='@')}:{way}"
        return msgspec.structs.replace(prepared, path=path)
