"""The calls of the demonstration: streams over HTTP, timed as their caller sees them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import msgspec

from proxy.errors import OperatorError

_TIMEOUT_S: Final = 60.0
_MAX_TOKENS: Final = 160
_DATA: Final = "data: "
_DONE: Final = "[DONE]"
_SHOWN_CHARACTERS: Final = 300


@dataclass(slots=True, kw_only=True)
class EngineAnswer:
    """A streamed answer, and its times as the caller saw them."""

    call_id: str = ""
    text: str = ""
    ttft: float = 0.0
    seconds: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0

    @property
    def decode_seconds(self) -> float:
        """Seconds from the first content to the end."""
        return self.seconds - self.ttft

    def take(self, chunk: dict[str, Any], after: float) -> None:
        """Take a chunk of the stream that came so many seconds after the call was sent."""
        for choice in chunk.get("choices", ()):
            content = choice.get("delta", {}).get("content") or ""
            if content and not self.text:
                self.ttft = after
            self.text += content
        if usage := chunk.get("usage"):
            self.prompt_tokens = usage["prompt_tokens"]
            self.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            self.output_tokens = usage["completion_tokens"]
        if timings := chunk.get("timings"):
            self.draft_tokens = timings.get("draft_n", 0)
            self.accepted_tokens = timings.get("draft_n_accepted", 0)


def engine_client() -> httpx2.AsyncClient:
    """A client with a new connection for each call.

    llama.cpp closes a connection right after a stream, though its header `keep-alive` says 5 s: a
    call that is sent between the two is lost.
    Source: build 11549, tried (2026-11).
    """
    limits = httpx2.Limits(max_keepalive_connections=0)
    return httpx2.AsyncClient(limits=limits, trust_env=False)


@dataclass(frozen=True, slots=True)
class EngineCaller:
    """Sends chat calls to one base URL.

    Args:
        base_url: Up to and including ``/v1``.
    """

    base_url: str
    client: httpx2.AsyncClient = field(repr=False)
    key: str = field(default="", repr=False)

    async def ask(
        self, model: str, messages: Sequence[dict[str, str]], max_tokens: int = _MAX_TOKENS
    ) -> EngineAnswer:
        """The streamed answer to these messages.

        Raises:
            OperatorError: If the call is not answered to its end.
        """
        body = {
            "model": model,
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        answer, sent = EngineAnswer(), time.perf_counter()
        try:
            async with self.client.stream(
                "POST",
                f"{self.base_url}/chat/completions",
                json=body,
                headers=headers,
                timeout=_TIMEOUT_S,
            ) as response:
                await _check_status(response)
                answer.call_id = response.headers.get("x-request-id", "")
                async for line in response.aiter_lines():
                    _take_line(answer, line, time.perf_counter() - sent)
        except (httpx2.HTTPError, msgspec.DecodeError) as error:
            raise OperatorError(f"{model} did not answer: {type(error).__name__}.") from error
        answer.seconds = time.perf_counter() - sent
        return answer


async def _check_status(response: httpx2.Response) -> None:
    if response.status_code != 200:
        text = (await response.aread()).decode("utf8", "replace")[:_SHOWN_CHARACTERS]
        raise OperatorError(f"A call was answered with {response.status_code}: {text}")


def _take_line(answer: EngineAnswer, line: str, after: float) -> None:
    if not line.startswith(_DATA) or line.endswith(_DONE):
        return
    chunk = msgspec.json.decode(line.removeprefix(_DATA))
    if "error" in chunk:
        raise OperatorError(f"A stream broke off: {str(chunk['error'])[:_SHOWN_CHARACTERS]}")
    answer.take(chunk, after)
