"""Sends chat completions to an OpenAI-compatible URL and times their streams.

It uses the gateway's own transport, the cheapest client here, so little of a figure is the
client's. Fields that an upstream does not accept are found once, before the measurement.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import orjson

from proxy.catalog.entries import Upstream
from proxy.errors import OperatorError, UpstreamError
from proxy.providers.port import PreparedRequest
from proxy.tools.bench.stream_timing import AnswerTimer, CallTiming, error_name
from proxy.upstream.port import Transport, UpstreamExchange, open_resending

_NAME: Final = "bench"
_COMPLETIONS: Final = "/chat/completions"
_MAX_REFUSAL_BYTES: Final = 1024 * 1024
#: Field for the limit of an answer, and the newer one that some models ask for in its place.
_MAX_TOKENS: Final = "max_tokens"
_MAX_COMPLETION_TOKENS: Final = "max_completion_tokens"
#: Longest answer to a call that is not measured; some models refuse shorter ones.
_FIRST_ANSWER_TOKENS: Final = 16


class BenchTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The server that is measured.

    Attributes:
        base_url: Up to and including ``/v1`` or its like.
    """

    base_url: str
    key_env: str = ""
    headers: Mapping[str, str] = {}
    extra_body: Mapping[str, Any] = {}
    timeout_s: float = 120.0


class ChatClient:
    """Calls one model of one server."""

    def __init__(
        self, transport: Transport, target: BenchTarget, ticks: Callable[[], float]
    ) -> None:
        self._transport = transport
        self._target = target
        self._ticks = ticks
        self._upstream = Upstream(
            name=_NAME,
            kind="openai",
            base_url=target.base_url,
            key_env=target.key_env,
            headers=target.headers,
        )
        self._limit_field = _MAX_TOKENS
        self._asks_usage = True

    async def first_model(self) -> str:
        """The first model that the server lists.

        Raises:
            OperatorError: If it lists none.
        """
        status, body = await self._get("/models")
        try:
            listed = msgspec.json.decode(body)
            return str(listed["data"][0]["id"])
        except (msgspec.DecodeError, LookupError, TypeError) as error:
            raise OperatorError(
                f"{self._target.base_url}/models lists no model (status {status}): name one with"
                " --model."
            ) from error

    async def first_call(self, model: str, prompt: str) -> int | None:
        """The prompt tokens of one call, which finds out the fields that the server accepts.

        Raises:
            OperatorError: If the server refuses the call for another reason.
        """
        timing, refusal = await self._exchange(self.body(model, prompt, _FIRST_ANSWER_TOKENS))
        while timing.error and self._adapt_to(refusal):
            timing, refusal = await self._exchange(self.body(model, prompt, _FIRST_ANSWER_TOKENS))
        if timing.error and timing.error != "no content":
            message = refusal.decode(errors="replace").strip()[:300]
            raise OperatorError(
                f"{self._target.base_url} does not answer {model}: {timing.error}."
                + (f" It says: {message}" if message else "")
            )
        return timing.prompt_tokens

    def body(self, model: str, prompt: str, output_tokens: int) -> bytes:
        """A streamed chat completion as JSON."""
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "stream": True,
            self._limit_field: output_tokens,
        }
        if self._asks_usage:
            body["stream_options"] = {"include_usage": True}
        return orjson.dumps(body | dict(self._target.extra_body))

    async def measure(self, body: bytes) -> CallTiming:
        """The times of one call; a failure is a value with a name."""
        timing, _ = await self._exchange(body)
        return timing

    async def _exchange(self, body: bytes) -> tuple[CallTiming, bytes]:
        prepared = PreparedRequest(method="POST", path=_COMPLETIONS, headers={}, body=body)
        started = self._ticks()
        exchange: UpstreamExchange | None = None
        refusal = b""
        try:
            async with asyncio.timeout(self._target.timeout_s):
                exchange = await open_resending(self._transport, self._upstream, prepared)
                if exchange.status == 200:
                    return await self._read(exchange, started), b""
                refusal = await exchange.read_all(_MAX_REFUSAL_BYTES)
                error = _refusal_name(exchange.status, refusal)
        except TimeoutError:
            error = f"no end within {self._target.timeout_s:g} s"
        except UpstreamError as failure:
            error = failure.code
        finally:
            if exchange is not None:
                exchange.close()
        return CallTiming(started_s=started, ended_s=self._ticks(), error=error), refusal

    async def _read(self, exchange: UpstreamExchange, started: float) -> CallTiming:
        """Read an answer to its end, each piece with the moment at which it came."""
        ticks = self._ticks
        if not exchange.headers.get("content-type", "").startswith("text/event-stream"):
            return CallTiming(started_s=started, ended_s=ticks(), error="not a stream")
        timer = AnswerTimer(started)
        while piece := await exchange.read():
            timer.feed(ticks(), piece)
        return timer.call_timing(ticks())

    async def _get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET."""
        prepared = PreparedRequest(method="GET", path=path, headers={}, body=b"")
        try:
            async with asyncio.timeout(self._target.timeout_s):
                exchange = await open_resending(self._transport, self._upstream, prepared)
                try:
                    return exchange.status, await exchange.read_all(_MAX_REFUSAL_BYTES)
                finally:
                    exchange.close()
        except (TimeoutError, UpstreamError) as error:
            why = getattr(error, "detail", "") or str(error)
            raise OperatorError(f"{self._target.base_url} does not answer: {why}") from error

    def _adapt_to(self, refusal: bytes) -> bool:
        """True if a refusal names a field that can be said otherwise, which is done from now on."""
        if _MAX_COMPLETION_TOKENS.encode() in refusal and self._limit_field == _MAX_TOKENS:
            self._limit_field = _MAX_COMPLETION_TOKENS
            return True
        if b"stream_options" in refusal and self._asks_usage:
            self._asks_usage = False
            return True
        return False


def base_url(url: str) -> str:
    """The base URL of what a person typed: with ``/v1`` where there is no path.

    Raises:
        ValueError: If it is no address of HTTP.
    """
    address = urlsplit(url)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise ValueError("not an http:// or https:// URL")
    path = address.path.rstrip("/").removesuffix(_COMPLETIONS).rstrip("/")
    return address._replace(path=path or "/v1").geturl()


def _refusal_name(status: int, body: bytes) -> str:
    """The status, and the code or type that the body gives the error."""
    try:
        document = msgspec.json.decode(body)
        error = document.get("error") or document.get("message")
    except (msgspec.DecodeError, AttributeError):
        return f"HTTP {status}"
    return f"HTTP {status} {error_name(error)}" if error else f"HTTP {status}"
