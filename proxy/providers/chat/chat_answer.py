"""Writes answers in the chat completions format, whole or as chunks, from other APIs' answers.

Source: OpenAI API reference, the chat completion object, chat completion chunks (2026-11).
"""

from typing import Any, Final

import msgspec

from proxy.errors import UpstreamError
from proxy.providers.stream_endings import error_event
from proxy.records.call import Call
from slo.usage import Usage

Json = dict[str, Any]
_DONE: Final = b"data: [DONE]\n\n"
_encode: Final = msgspec.json.Encoder().encode


class ChatReply(msgspec.Struct, frozen=True):
    """The fields of a call that its answer repeats.

    Attributes:
        created: Arrival of the call, in whole seconds since the epoch.
        wants_usage: True if the caller asked for a usage chunk at the end of its stream.
    """

    model: str
    created: int
    wants_usage: bool = False

    def completion(self, answer_id: str, choices: list[Json], **more: object) -> Json:
        """A whole completion; further fields are left out if None."""
        known_fields = {field: value for field, value in more.items() if value is not None}
        return self.frame(answer_id, "chat.completion") | {"choices": choices} | known_fields

    def frame(self, answer_id: str, kind: str) -> Json:
        """The fields that come first in a completion or chunk."""
        return {"id": answer_id, "object": kind, "created": self.created, "model": self.model}


def chat_reply(call: Call) -> ChatReply:
    """The fields of a chat call that its answer repeats."""
    wants_usage = call.fields is not None and call.fields.wants_usage
    return ChatReply(call.substitute or call.model, int(call.arrived), wants_usage)


class ChunkWriter:
    """Writes the chunks of one stream; fields that all chunks repeat are encoded once."""

    __slots__ = ("_answer_id", "_head", "_open_head", "_open_tail", "_reply", "_tail")

    def __init__(self, reply: ChatReply) -> None:
        self._reply = reply
        self._tail = b',"usage":null}\n\n' if reply.wants_usage else b"}\n\n"
        self._open_tail = b',"logprobs":null,"finish_reason":null}]' + self._tail
        self.answer_id = ""

    @property
    def answer_id(self) -> str:
        """The id of the answer."""
        return self._answer_id

    @answer_id.setter
    def answer_id(self, answer_id: str) -> None:
        self._answer_id = answer_id
        frame = _encode(self._reply.frame(answer_id, "chat.completion.chunk"))
        self._head = b"data: " + frame[:-1] + b',"choices":['
        self._open_head = self._head + b'{"index":0,"delta":'

    def begin(self, index: int = 0) -> bytes:
        """The first chunk of a choice."""
        return self.chunk({"role": "assistant", "content": "", "refusal": None}, index)

    def chunk(
        self, delta: Json, index: int = 0, reason: str | None = None, **more: object
    ) -> bytes:
        """A chunk with one choice; further fields are left out if None."""
        if not (index or reason or more):  # nearly all chunks
            return self._open_head + _encode(delta) + self._open_tail
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        further = {field: value for field, value in more.items() if value is not None}
        fields = b"," + _encode(further)[1:-1] if further else b""
        return self._head + _encode(choice) + b"]" + fields + self._tail

    def end(self, usage: Json | None) -> bytes:
        """The usage, if it was asked for and is known, and the end of the stream."""
        if not self._reply.wants_usage or usage is None:
            return _DONE
        return self._head + b'],"usage":' + _encode(usage) + b"}\n\n" + _DONE

    def error(self, error: UpstreamError) -> bytes:
        """The error event that ends a stream."""
        return error_event("chat/completions", error)


def chat_choice(message: Json, reason: str, index: int = 0) -> Json:
    """A choice of a whole completion."""
    return {"index": index, "message": message, "logprobs": None, "finish_reason": reason}


def chat_message(
    words: str, calls: list[Json], *, refusal: str | None = None, **more: object
) -> Json:
    """The assistant's message; calls and further fields are left out if empty."""
    content = words or (None if calls else "")
    filled = {field: value for field, value in (more | {"tool_calls": calls}).items() if value}
    return {"role": "assistant", "content": content, "refusal": refusal} | filled


def function_call(call_id: str, function: str, arguments: str) -> Json:
    """A call of a function.

    Args:
        arguments: JSON text.
    """
    called = {"name": function, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": called}


def usage_object(usage: Usage | None, *, has_writes: bool) -> Json | None:
    """A completion's usage, whose prompt tokens include cached tokens; None if unknown.

    Args:
        has_writes: True if the provider counts what it writes to its cache.
    """
    if usage is None:
        return None
    details = {"cached_tokens": usage.cache_read}
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.generated_tokens,
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
        "prompt_tokens_details": details
        | ({"cache_write_tokens": usage.cache_write_tokens} if has_writes else {}),
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
