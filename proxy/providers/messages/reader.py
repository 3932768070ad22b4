"""Translates chat answers, whole or streamed, into answers of Anthropic's Messages API.

::

    first chunk                message_start
    reasoning, words, calls    content_block_start ─ content_block_delta … ─ content_block_stop
    a comment                  ping; before the first content_block_start, a comment
    [DONE]                     message_delta with stop reason and usage ─ message_stop
    an error                   error; nothing follows

Source: Anthropic, Messages API, streaming messages, the message object, usage, stop reasons; OpenAI
API reference, Chat Completions; vLLM, OpenAI-compatible server, ``stop_reason`` (2026-11).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from proxy.errors import UpstreamError, messages_envelope
from proxy.providers.answers.google_finish import failed_chat_finish
from proxy.providers.answers.usage import believable_usage, merge_usage
from proxy.providers.chat.answer_reader import Event, answer_reader
from proxy.providers.chat.chat_chunk import ChatChoice, Chunk
from proxy.providers.chat.message_order import in_order
from proxy.providers.failures import failure_of_object
from proxy.providers.messages.body import Json
from proxy.providers.messages.names import message_id
from proxy.providers.messages.output import MessageOutput
from proxy.providers.messages.settings import AnswerSettings
from proxy.providers.port import Reader

#: Stop reasons by chat's ``finish_reason``; any other ends the turn.
_STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_TIERS: Final = {"default": "standard", "priority": "priority"}


def final_delta(finish: str | None, stop: str | None, *, calls: bool, refused: bool) -> Json:
    """Stop reason and sequence, as ``message_delta`` has them.

    Args:
        finish: Chat's reason.
        stop: The stop sequence that ended it; None where it is unknown or was none.
        calls: True if tools are called, which some upstreams do not give as the reason.
        refused: True if the model refused in words of its own.
    """
    reason = _STOP_REASONS.get(finish or "", "end_turn")
    if reason == "end_turn" and (calls or refused):
        reason = "tool_use" if calls else "refusal"
    if reason != "end_turn" or stop is None:
        return {"stop_reason": reason, "stop_sequence": None}
    return {"stop_reason": "stop_sequence", "stop_sequence": stop}


def opening_message(name: str, model: str, prompt_tokens: int = 0) -> Json:
    """The message before anything is said, with estimated usage, as chat counts at the end."""
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": messages_counts({}) | {"input_tokens": prompt_tokens},
    }


def messages_counts(reported: Mapping[str, Any], tier: str | None = None) -> Json:
    """Chat's usage object as Anthropic's, whose input excludes what a cache read or stored.

    OpenAI's 30 minutes are counted with the shorter lifetime, its 12 hours with the longer.
    """
    usage = believable_usage(reported)
    if usage is None:
        return {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        }
    short, long = usage.write_5m + usage.write_30m, usage.write_1h + usage.write_12h
    counts: Json = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": short + long,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.generated_tokens,
    }
    if short + long:
        counts["cache_creation"] = {
            "ephemeral_5m_input_tokens": short,
            "ephemeral_1h_input_tokens": long,
        }
    if usage.reasoning:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    if tier in _TIERS:
        counts["service_tier"] = _TIERS[tier]
    return counts


_PING: Final[Event] = {"type": "ping"}
_AWAKE: Final = b": ping\n\n"


class MessageWriter:
    """One answer while it unfolds; a whole completion unfolds in one piece."""

    def __init__(self, settings: AnswerSettings) -> None:
        self.answered = self.has_ended = False
        self._finish: str | None = None
        self._stop: str | None = None
        self._output = MessageOutput(settings, settings.digest)
        self._name = ""
        self._has_pinged = False
        self._settings = settings
        self._usage: dict[str, object] = {}
        self._tier: str | None = None

    @property
    def is_finished(self) -> bool:
        """True if the model has said why it stopped."""
        return self._finish is not None

    def take(self, answer: Chunk) -> Iterator[Event]:
        """The events of a chunk or of a completion."""
        if answer.error is not None:
            yield from self.fail(failure_of_object(answer.error))
            return
        yield from self._begin(answer.id or "")
        if isinstance(answer.usage, dict):
            merge_usage(self._usage, answer.usage)
        self._tier = answer.service_tier or self._tier
        for choice in answer.choices or ():
            if choice.index == 0:
                yield from self._gain(choice)

    def _begin(self, chat_id: str) -> Iterator[Event]:
        """The event that opens the message, once."""
        if self._name:
            return
        tail = chat_id.removeprefix("chatcmpl-") or self._settings.digest
        self._name = message_id(tail)
        self._output = MessageOutput(self._settings, tail)
        yield {"type": "message_start", "message": self._opening()}

    def end(self) -> Iterator[Event]:
        """The events of a good end."""
        yield from self._output.end()
        yield {"type": "message_delta", "delta": self._final_delta(), "usage": self._counts()}
        yield {"type": "message_stop"}
        self.has_ended = True

    def fail(self, error: UpstreamError) -> Iterator[Event]:
        """The event that ends a message which cannot go on."""
        self.has_ended = True
        yield orjson.loads(messages_envelope(error))

    def frame(self, event: Event) -> bytes:
        """An event as bytes; a ping follows the start of the first block."""
        kind: str = event["type"]
        framed = b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(event))
        if kind == "content_block_start" and not self._has_pinged:
            self._has_pinged = True
            return framed + self.frame(_PING)
        return framed

    def ping(self) -> bytes:
        """A ping; before the message begins, when clients expect no event, a comment."""
        return self.frame(_PING) if self._name else _AWAKE

    def whole(self) -> dict[str, object]:
        """The message object, once it has ended."""
        opened = self._opening()
        ended = {"content": self._output.content(), "usage": self._counts()}
        return opened | ended | self._final_delta()

    def _gain(self, choice: ChatChoice) -> Iterator[Event]:
        self.answered = True
        if (failure := failed_chat_finish(choice.finish_reason)) is not None:
            raise failure
        self._finish = choice.finish_reason or self._finish
        if isinstance(choice.stop_reason, str) and choice.stop_reason in self._settings.stops:
            self._stop = choice.stop_reason
        whole = () if choice.message is None else in_order(choice.message)
        for delta in whole if choice.delta is None else (choice.delta,):
            yield from self._output.gain(delta)

    def _final_delta(self) -> dict[str, object]:
        calls, refused = self._output.calls_tools, self._output.refused
        return final_delta(self._finish, self._stop, calls=calls, refused=refused)

    def _opening(self) -> dict[str, object]:
        settings = self._settings
        return opening_message(self._name, settings.model, settings.prompt_tokens)

    def _counts(self) -> dict[str, object]:
        """The upstream's usage; estimated where it reports none, so that callers' meters run."""
        counts = messages_counts(self._usage, self._tier)
        if any(self._usage.values()) and believable_usage(self._usage) is not None:
            return counts
        prompt, generated = self._settings.prompt_tokens, self._output.estimated_tokens
        return counts | {"input_tokens": prompt, "output_tokens": generated}


def messages_reader(inner: Reader, settings: AnswerSettings, *, streamed: bool) -> Reader:
    """A reader that gives Messages bytes where ``inner`` gives chat bytes.

    Args:
        inner: Turns the upstream's bytes into chat's.
    """
    return answer_reader(inner, MessageWriter(settings), streamed=streamed)
