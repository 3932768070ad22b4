"""Gets a prompt's token ids from its engine, for exact matches with its replicas' caches.

It asks vLLM's own ``/tokenize``, which knows chat template and tokenizer. A prompt that is not
tokenized within the deadline is routed by its text.

Source: vLLM 0.32.0, tokenizer API.
"""

import asyncio
from array import array
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import UpstreamError
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call
from proxy.records.lru_cache import LruCache
from proxy.upstream.port import Transport, open_resending

#: Seconds that it may take, of the call's own time.
DEADLINE_S: Final = 0.05
#: Larger bodies are routed by their text.
MAX_BODY_BYTES: Final = 256 * 1024
_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
#: Bytes of token ids that are remembered.
_MAX_REMEMBERED_BYTES: Final = 32 * 1024 * 1024
#: Failures in a row after which it is not asked for a while, and for how many seconds.
_MAX_FAILURES: Final = 3
_PAUSE_S: Final = 10.0
_HEADERS: Final = {"content-type": "application/json"}
#: Fields of a call that its prompt is made of.
_FIELDS: Final = ("messages", "tools", "chat_template_kwargs", "prompt")
_TOKENIZED: Final = frozenset({"chat/completions", "completions"})
_OK: Final = 200


class _Answer(msgspec.Struct):
    tokens: list[int]


_fields: Final = msgspec.json.Decoder(dict[str, Any]).decode
_answer: Final = msgspec.json.Decoder(_Answer).decode


class PromptTokenizer:
    """Asks engines for the token ids of prompts, and remembers some."""

    def __init__(self, transport: Transport, ticks: Callable[[], float]) -> None:
        self._transport = transport
        self._ticks = ticks
        self._known: LruCache[bytes, bytes] = LruCache(_MAX_REMEMBERED_BYTES, len)
        self._failures = 0
        self._resumes_at = 0.0

    async def token_bytes(self, call: Call, route: Route, base_url: str) -> bytes | None:
        """The token ids as 32-bit words; None where they are not known in time.

        Args:
            route: A route to the engine, with its key.
        """
        if call.endpoint not in _TOKENIZED or len(call.body) > MAX_BODY_BYTES:
            return None
        body = _request(call.body, route.model or call.model)
        if body is None or self._ticks() < self._resumes_at:
            return None
        key = blake2b(body, digest_size=16).digest()
        if (remembered := self._known.get(key)) is not None:
            return remembered
        try:
            async with asyncio.timeout(DEADLINE_S):
                token_bytes = await self._ask(body, route, base_url)
        except (TimeoutError, UpstreamError, msgspec.DecodeError, OverflowError):
            self._failures += 1
            if self._failures >= _MAX_FAILURES:
                self._failures, self._resumes_at = 0, self._ticks() + _PAUSE_S
            return None
        self._failures = 0
        self._known.put(key, token_bytes)
        return token_bytes

    async def _ask(self, body: bytes, route: Route, base_url: str) -> bytes:
        upstream = replace(route.upstream, base_url=base_url.removesuffix("/v1"))
        question = PreparedRequest(method="POST", path="/tokenize", headers=_HEADERS, body=body)
        exchange = await open_resending(self._transport, upstream, question)
        try:
            answer = await exchange.read_all(_MAX_ANSWER_BYTES)
        finally:
            exchange.close()
        if exchange.status != _OK:
            raise UpstreamError(
                "It was not tokenized.", status=exchange.status, code="tokenize", retryable=True
            )
        return array("I", _answer(answer).tokens).tobytes()


def _request(body: bytes, model: str) -> bytes | None:
    """The question for a call's tokens; None where the body cannot be read."""
    try:
        fields = _fields(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    prompt_fields = {name: fields[name] for name in _FIELDS if fields.get(name) is not None}
    return msgspec.json.encode({"model": model, **prompt_fields}) if prompt_fields else None
