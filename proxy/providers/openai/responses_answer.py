"""A response of the Responses API as a chat completion.

Source: OpenAI API reference, the response object, the chat completion object (2026-11).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from proxy.errors import UpstreamError
from proxy.providers.failures import openai_failure, status_of
from proxy.providers.lenient import to_strict_json
from proxy.providers.messages.signatures import reasoning_signature
from proxy.providers.stream_endings import malformed_answer

Json = dict[str, Any]

#: Chat's reasons by those of an incomplete response; any other ends the answer.
_REASONS: Final[Mapping[str, str]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
#: Names of usage, which both APIs have.
_COUNTS: Final = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "total_tokens": "total_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ResponsePart(msgspec.Struct):
    """A part of a message, or of a summary of reasoning."""

    type: str = ""
    text: str = ""
    refusal: str = ""


class ResponseItem(msgspec.Struct):
    """An item of the output; which fields matter depends on its type."""

    type: str = ""
    id: str = ""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    input: str = ""
    content: list[ResponsePart] | None = None
    summary: list[ResponsePart] = []
    encrypted_content: str | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class Response(msgspec.Struct):
    """A response, whole or as far as it has come."""

    id: str = ""
    status: str = ""
    output: list[ResponseItem] | None = None
    usage: dict[str, Any] | None = None
    incomplete_details: _Incomplete | None = None
    service_tier: str | None = None
    error: Any = None

    def finish_reason(self, *, calls: bool) -> str:
        """Chat's reason for the end."""
        why = self.incomplete_details.reason if self.incomplete_details is not None else None
        return _REASONS.get(why or "", "tool_calls" if calls else "stop")

    @property
    def chat_usage(self) -> Json | None:
        """The usage object by chat's names; None for none."""
        if self.usage is None:
            return None
        return {chat: self.usage[name] for name, chat in _COUNTS.items() if name in self.usage}


class ResponsesReply(msgspec.Struct, frozen=True):
    """The facts of a call that its answer repeats.

    Attributes:
        model: The name that the answer gives as its model's.
        created: Arrival of the call, in whole seconds since the epoch.
        maker: Upstream and model that can read the encrypted reasoning; "" leaves it out.
    """

    model: str
    created: int
    maker: str

    def frame(self, response_id: str, kind: str, choices: list[Json]) -> Json:
        """A completion, or a chunk of one."""
        return {
            "id": f"chatcmpl-{response_id.removeprefix('resp_')}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }

    def reasoning_blocks(self, item: ResponseItem) -> list[Json]:
        """An item of reasoning as ``thinking_blocks``: it is sealed, so that it can come back."""
        if not self.maker or not item.encrypted_content:
            return []
        kept = {
            "type": item.type,
            "id": item.id,
            "summary": [{"type": part.type, "text": part.text} for part in item.summary],
            "encrypted_content": item.encrypted_content,
        }
        words = "\n\n".join(part.text for part in item.summary)
        signature = reasoning_signature(kept, self.maker)
        return [{"type": "thinking", "thinking": words, "signature": signature}]


def tool_call(item: ResponseItem) -> Json | None:
    """The call of a tool that an item makes; None where it makes none."""
    if item.type == "function_call":
        function = {"name": item.name, "arguments": item.arguments}
        return {"id": item.call_id, "type": "function", "function": function}
    if item.type == "custom_tool_call":
        custom = {"name": item.name, "input": item.input}
        return {"id": item.call_id, "type": "custom", "custom": custom}
    return None


def response_failure(error: object) -> UpstreamError:
    """The caller's error of an error object in an answer."""
    found = error if isinstance(error, dict) else {"message": str(error or "The model failed.")}
    return openai_failure(status_of(found), {}, msgspec.json.encode({"error": found}))


class WholeResponse:
    """Turns the body of a response into a chat completion's."""

    def __init__(self, reply: ResponsesReply) -> None:
        self._reply = reply

    def feed(self, piece: bytes) -> bytes:
        """The chat completion for the whole body.

        Raises:
            UpstreamError: If the body is no answer, or says that there is none.
        """
        response = _read(piece)
        if response.error is not None:
            raise response_failure(response.error)
        if response.output is None:
            raise malformed_answer()
        message = self._message(response.output)
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": response.finish_reason(calls="tool_calls" in message),
        }
        completion = self._reply.frame(response.id, "chat.completion", [choice])
        if response.service_tier is not None:
            completion["service_tier"] = response.service_tier
        if (counted := response.chat_usage) is not None:
            completion["usage"] = counted
        return msgspec.json.encode(completion)

    def end(self) -> bytes:
        """Nothing is held back."""
        return b""

    def _message(self, output: list[ResponseItem]) -> Json:
        said = [item.content or [] for item in output if item.type == "message"]
        texts = ["".join(part.text for part in parts) for parts in said]
        refusal = "".join(part.refusal for parts in said for part in parts)
        calls = [call for item in output if (call := tool_call(item)) is not None]
        blocks = [
            block
            for item in output
            if item.type == "reasoning"
            for block in self._reply.reasoning_blocks(item)
        ]
        words = "\n\n".join(filter(None, texts))
        message: Json = {"role": "assistant", "content": words or (None if calls else "")}
        message["refusal"] = refusal or None
        if blocks:
            message["thinking_blocks"] = blocks
        return message | ({"tool_calls": calls} if calls else {})


def _read(piece: bytes) -> Response:
    try:
        return msgspec.json.decode(piece, type=Response)
    except msgspec.DecodeError:
        pass
    except (UnicodeDecodeError, RecursionError):
        raise malformed_answer() from None
    try:
        return msgspec.json.decode(to_strict_json(piece) or b"", type=Response)
    except _UNREADABLE:
        raise malformed_answer() from None
