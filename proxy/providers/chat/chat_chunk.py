"""A chat answer as callers of other APIs get it: a chunk of a stream, or the whole completion.

Source: OpenAI API reference, Chat Completions; vLLM, ``stop_reason`` (2026-11).
``reasoning_content`` is what DeepSeek, xAI and our Anthropic wire call the reasoning; ``reasoning``
is the name vLLM gives it.
"""

from typing import Any

import msgspec

from proxy.providers.chat.call_parts import CallPart, FunctionPart, parts_of
from proxy.providers.lenient import decode_leniently

Json = dict[str, Any]


class TopToken(msgspec.Struct, frozen=True):
    """A token that might have come."""

    token: str
    logprob: float
    bytes: list[int] | None = None

    def for_responses(self) -> Json:
        """The same for Responses, where the bytes are never null."""
        return {"token": self.token, "bytes": self.bytes or [], "logprob": self.logprob}


class Token(TopToken, frozen=True):
    """A token that came, and what might have come instead."""

    top_logprobs: list[TopToken] = []

    def for_responses(self) -> Json:
        """The same for Responses."""
        return super().for_responses() | {
            "top_logprobs": [top.for_responses() for top in self.top_logprobs]
        }


class Logprobs(msgspec.Struct, frozen=True):
    """Log probabilities of the words of one choice."""

    content: list[Token] | None = None


class TextPart(msgspec.Struct, frozen=True):
    """A piece of content where an upstream answers in pieces; other kinds have no text.

    Mistral's reasoning comes as a piece of the content, whose ``thinking`` holds pieces of text.
    Source: mistralai 3.7.0, ``ThinkChunk`` (2026-11).
    """

    text: str = ""
    thinking: Any = None

    @property
    def reasoning(self) -> str:
        """The reasoning in it; "" for none."""
        if isinstance(self.thinking, str):
            return self.thinking
        pieces = self.thinking if isinstance(self.thinking, list) else ()
        texts = (piece.get("text") for piece in pieces if isinstance(piece, dict))
        return "".join(text for text in texts if isinstance(text, str))


class Citation(msgspec.Struct, frozen=True):
    """Source on the web of a piece of the text; characters, half-open."""

    url: str
    title: str = ""
    start_index: int = 0
    end_index: int = 0


class Annotation(msgspec.Struct, frozen=True):
    """A note on the text; chat knows only citations."""

    url_citation: Citation | None = None


class Delta(msgspec.Struct, frozen=True):
    """The change of a message in one chunk."""

    content: str | list[TextPart] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    thinking_blocks: list[msgspec.Raw] | None = None
    tool_calls: list[CallPart] | None = None
    function_call: FunctionPart | None = None
    annotations: list[Annotation] | None = None

    @property
    def calls(self) -> list[CallPart]:
        """The parts of tool calls, also in the form that OpenAI had before them."""
        return parts_of(self.tool_calls, self.function_call)

    @property
    def text(self) -> str:
        """The words gained; "" for none."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""

    @property
    def reasoning_text(self) -> str:
        """The reasoning gained; "" for none."""
        if self.reasoning_content:
            return self.reasoning_content
        if isinstance(self.content, list) and self.reasoning is None:
            return "".join(part.reasoning for part in self.content)
        return self.reasoning if isinstance(self.reasoning, str) else ""


class ChatChoice(msgspec.Struct, frozen=True):
    """One of the answers asked for; callers of other APIs get the first.

    Some engines name the stop sequence that ended it in ``stop_reason``.
    """

    index: int = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    stop_reason: Any = None
    logprobs: Logprobs | None = None


class Chunk(msgspec.Struct, frozen=True):
    """A chunk or a whole completion; ``error`` stands alone where an upstream failed."""

    id: str | None = None
    model: str | None = None
    service_tier: str | None = None
    choices: list[ChatChoice] | None = None
    usage: Any = None
    error: Any = None


_chunks = msgspec.json.Decoder(Chunk)


def read_chunk(data: bytes) -> Chunk:
    """Decode a chunk or a whole completion, also where it is only nearly JSON."""
    return decode_leniently(_chunks, data)
