"""Times one streamed answer: first token, gaps between chunks, and tokens by its usage.

A chunk is not a token: engines that speculate send several tokens in one. Tokens are those of the
usage; without one they are unknown.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from proxy.providers.answers.usage import openai_usage, token_count
from proxy.providers.sse import EventFramer, parse_events

_DONE: Final = b"[DONE]"
#: Source: DeepSeek API reference, usage (2026-11).
_DEEPSEEK_HIT: Final = "prompt_cache_hit_tokens"


class EngineTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's own account of one call; None for what it does not tell."""

    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None


class CallTiming(msgspec.Struct, frozen=True, kw_only=True):
    """One call, timed by its client; seconds.

    Attributes:
        error: Name of the failure; "" for a whole answer. A failed call has no other figure.
        ttft_s: From sending to the first chunk with content.
        chunk_gaps_s: Between chunks with content.
        streamed_tokens: Those of them that were in chunks: without hidden reasoning.
    """

    started_s: float
    ended_s: float
    error: str = ""
    ttft_s: float = 0.0
    chunk_gaps_s: tuple[float, ...] = ()
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    streamed_tokens: int | None = None
    engine: EngineTiming | None = None

    @property
    def e2el_s(self) -> float:
        """Seconds from sending to the end of the answer."""
        return self.ended_s - self.started_s

    @property
    def itl_s(self) -> float | None:
        """Mean seconds of a token after the first; None if tokens are unknown or came at once."""
        if not self.streamed_tokens or self.streamed_tokens < 2 or not self.chunk_gaps_s:
            return None
        return sum(self.chunk_gaps_s) / (self.streamed_tokens - 1)

    @property
    def tokens_per_chunk(self) -> float | None:
        """Tokens in one chunk; None if tokens are unknown."""
        if not self.streamed_tokens:
            return None
        return self.streamed_tokens / (len(self.chunk_gaps_s) + 1)


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: dict[str, Any] | None = None
    timings: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    error: Any = None


_decoder: Final = msgspec.json.Decoder(_Chunk)


class AnswerTimer:
    """Reads a stream as it comes and notes when its content came."""

    def __init__(self, started_s: float) -> None:
        self.error = ""
        self._started_s = started_s
        self._framer = EventFramer()
        self._content_at: list[float] = []
        self._has_reasoning = self._is_finished = False
        self._usage: dict[str, Any] | None = None
        self._engine: EngineTiming | None = None

    def feed(self, now: float, piece: bytes) -> None:
        """Read a piece of the stream that came at this moment."""
        for event in parse_events(self._framer.feed(piece)):
            if event.data == _DONE:
                self._is_finished = True
                continue
            try:
                chunk = _decoder.decode(event.data)
            except msgspec.DecodeError:
                self.error = self.error or "unreadable chunk"
                continue
            self._read(now, chunk)

    def call_timing(self, now: float) -> CallTiming:
        """The call's figures, its answer having ended at this moment."""
        error = self.error or self._incompleteness()
        if error:
            return CallTiming(started_s=self._started_s, ended_s=now, error=error)
        content_at = self._content_at
        usage = None if self._usage is None else openai_usage(self._usage)
        hidden = 0 if usage is None or self._has_reasoning else usage.reasoning
        output = None if usage is None else usage.generated_tokens
        return CallTiming(
            started_s=self._started_s,
            ended_s=now,
            ttft_s=content_at[0] - self._started_s,
            chunk_gaps_s=tuple(later - content_at[n] for n, later in enumerate(content_at[1:])),
            prompt_tokens=None if usage is None else usage.prompt_tokens,
            cached_tokens=usage.cache_read if usage and _tells_cached(self._usage or {}) else None,
            output_tokens=output,
            streamed_tokens=None if output is None else output - hidden,
            engine=self._engine,
        )

    def _incompleteness(self) -> str:
        """The name of a missing end or content; "" if the answer is whole."""
        if not self._is_finished:
            return "stream ended early"
        return "" if self._content_at else "no content"

    def _read(self, now: float, chunk: _Chunk) -> None:
        if chunk.error:
            self.error = self.error or f"stream error: {error_name(chunk.error)}"
        for choice in chunk.choices:
            self._is_finished |= choice.finish_reason is not None
            delta = choice.delta or _Delta()
            thought = delta.reasoning or delta.reasoning_content
            self._has_reasoning |= bool(thought)
            if thought or delta.content or delta.refusal or delta.tool_calls or choice.text:
                self._content_at.append(now)
        if chunk.usage:
            self._usage = chunk.usage
        if chunk.timings or chunk.metrics:
            self._engine = _engine_timing(chunk.timings or {}, chunk.metrics or {})


def error_name(error: object) -> str:
    """The code or type of an error object, else the beginning of its message."""
    if not isinstance(error, Mapping):
        return str(error)[:60]
    names = (error.get(key) for key in ("code", "type", "message"))
    texts = [name for name in names if isinstance(name, str) and name]
    return texts[0][:60] if texts else "unnamed"


def _tells_cached(usage: Mapping[str, Any]) -> bool:
    details = usage.get("prompt_tokens_details")
    numbers = details if isinstance(details, dict) else {}
    return (
        token_count(numbers, "cached_tokens") is not None
        or token_count(usage, _DEEPSEEK_HIT, "cached_tokens") is not None
    )


def _engine_timing(timings: Mapping[str, Any], metrics: Mapping[str, Any]) -> EngineTiming:
    """The account of llama.cpp (``timings``) or of vLLM (``metrics``).

    vLLM counts its time to first token from when it began with the call, so it is the prefill.
    Source: llama.cpp server README; vLLM 0.32, ``entrypoints/generate/base/protocol.py`` (2026-11).
    """
    speculation = metrics.get("speculative_decoding")
    drafts = speculation if isinstance(speculation, dict) else {}
    return EngineTiming(
        queue_s=_seconds(metrics, "queue_time_ms"),
        prefill_s=_seconds(timings, "prompt_ms") or _seconds(metrics, "time_to_first_token_ms"),
        decode_s=_seconds(timings, "predicted_ms") or _seconds(metrics, "generation_time_ms"),
        draft_tokens=_first_count(
            token_count(timings, "draft_n"), token_count(drafts, "num_draft_tokens")
        ),
        accepted_tokens=_first_count(
            token_count(timings, "draft_n_accepted"),
            token_count(drafts, "num_accepted_draft_tokens"),
        ),
    )


def _first_count(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


def _seconds(fields: Mapping[str, Any], name: str) -> float | None:
    """Milliseconds under a name as seconds; None if there are none."""
    value = fields.get(name)
    return value / 1000 if isinstance(value, int | float) and value >= 0 else None
