"""Refuses calls without a valid key, and logs that at most once in ten seconds, without the key.

A client with a wrong key retries, and attackers guess keys. So one line counts all refusals since
the line before.
"""

import logging
from collections.abc import Callable
from typing import Final

from starlette.types import Scope

from proxy.errors import CallerError

_log = logging.getLogger("thriftgate.keys")

#: Beginnings of keys that providers give out: OpenAI, Anthropic, DeepSeek and OpenRouter; Google;
#: Groq; xAI; Hugging Face; Perplexity; Fireworks. Source: their API key pages (2026-11).
_PROVIDER_KEYS: Final = ("sk-", "AIza", "gsk_", "xai-", "hf_", "pplx-", "fw_")
_QUOTES: Final = "\"'`\u2018\u2019\u201c\u201d"
#: Seconds between two lines.
_LOG_INTERVAL_S: Final = 10.0
#: Characters of an address that are logged: a proxy in front may write anything.
_MAX_ADDRESS_CHARS: Final = 64


def unauthenticated_error(token: str) -> CallerError:
    """The refusal of a call without a key that is good, with the likely slip."""
    if not token:
        return CallerError(
            "No key: send the gateway's key as `Authorization: Bearer tg-…`,"
            " in an OpenAI client as `api_key`.",
            code="missing_api_key",
            status=401,
        )
    return CallerError(
        f"Invalid API key: {_likely_slip(token)} Keys begin with `tg-`;"
        " the gateway's operator makes one with `thriftgate key create`.",
        code="invalid_api_key",
        status=401,
    )


def _likely_slip(token: str) -> str:
    """A sentence that says what seems wrong with a key, without any part of it."""
    if token[0] in _QUOTES or token[-1] in _QUOTES:
        return "it was sent with its quotation marks. Send it without them."
    if token.startswith(_PROVIDER_KEYS):
        return (
            "it looks like a provider's key, which the gateway holds itself."
            " Send the gateway's own."
        )
    return "it is unknown or was revoked."


class RefusedKeyLog:
    """Logs refused keys, at most one line in ten seconds."""

    def __init__(self, ticks: Callable[[], float]) -> None:
        self._ticks = ticks
        self._next_line_at = float("-inf")
        self._unlogged = 0

    def refuse(self, scope: Scope, error: CallerError) -> CallerError:
        """The refusal of this request, which is logged or counted."""
        now = self._ticks()
        if now < self._next_line_at:
            self._unlogged += 1
            return error
        client = scope.get("client")
        address = (
            repr(str(client[0])[:_MAX_ADDRESS_CHARS])[1:-1] if client else "an unknown address"
        )
        more = f"; {self._unlogged:,} more since the line before" if self._unlogged else ""
        _log.warning("A call from %s was refused with 401 %s%s", address, error.code, more)
        self._next_line_at, self._unlogged = now + _LOG_INTERVAL_S, 0
        return error
