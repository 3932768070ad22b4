"""Writes answers of chat completions, whole or as chunks, for the wires of other APIs.

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
    """The facts of a call that its answer repeats.

    Attributes:
        created: Arrival of the call, in whole seconds since the epoch.
        wants_usage: True if the caller asked for a usage chunk at the end of its stream.
    """

    model: str
    created: int
    wants_usage: bool = False

    def completion(self, name: str, choices: list[Json], **more: object) -> Json:
        """A whole completion; of the further fields those that are not None.

        Args:
            name: Its id.
        """
        known_fields = {name: value for name, value in more.items() if value is not None}
        return self.frame(name, "chat.completion") | {"choices": choices} | known_fields

    def frame(self, name: str, kind: str) -> Json:
        """The fields that come first."""
        return {"id": name, "object": kind, "created": self.created, "model": self.model}


def chat_reply(call: Call) -> ChatReply:
    """The facts of a chat call that its answer repeats."""
    wants_usage = call.fields is not None and call.fields.wants_usage
    return ChatReply(call.substitute or call.model, int(call.arrived), wants_usage)


class ChunkWriter:
    """Writes the chunks of one stream; what all of them repeat is encoded once."""

    __slots__ = ("_head", "_name", "_open_head", "_open_tail", "_reply", "_tail")

    def __init__(self, reply: ChatReply) -> None:
        self._reply = reply
        self._tail = b',"usage":null}\n\n' if reply.wants_usage else b"}\n\n"
        self._open_tail = b',"logprobs":null,"finish_reason":null}]' + self._tail
        self.name = ""

    @property
    def name(self) -> str:
        """The id of the answer."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name
        frame = _encode(self._reply.frame(name, "chat.completion.chunk"))
        self._head = b"data: " + frame[:-1] + b',"choices":['
        self._open_head = self._head + b'{"index":0,"delta":'

    def begin(self, index: int = 0) -> bytes:
        """The first chunk of a choice."""
        return self.chunk({"role": "assistant", "content": "", "refusal": None}, index)

    def chunk(
        self, delta: Json, index: int = 0, reason: str | None = None, **more: object
    ) -> bytes:
        """A chunk with one choice; of the further fields those that are not None."""
        if not (index or reason or more):  # nearly all chunks
            return self._open_head + _encode(delta) + self._open_tail
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        further = {name: value for name, value in more.items() if value is not None}
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
    """The assistant's message; of calls and the further fields those that are not empty."""
    content = words or (None if calls else "")
    filled = {name: value for name, value in (more | {"tool_calls": calls}).items() if value}
    return {"role": "assistant", "content": content, "refusal": refusal} | filled


def function_call(name: str, function: str, arguments: str) -> Json:
    """A call of a function.

    Args:
        name: Id of the call.
        arguments: JSON text.
    """
    called = {"name": function, "arguments": arguments}
    return {"id": name, "type": "function", "function": called}


def usage_object(usage: Usage | None, *, has_writes: bool) -> Json | None:
    """A completion's usage, where prompt tokens include cached ones; None for none.

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
