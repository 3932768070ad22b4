"""Asks a team's own webhook whether a small model's whole answer may be given.

::

    POST  {"request": <the call's body>, "answer": <the answer's body>}
    200   {"accept": true}, or {"accept": false, "reason": "no order number"}

All else, and what takes longer than its deadline, accepts nothing: the other model then answers.
"""

import asyncio
from typing import Final
from urllib.parse import urlsplit

import msgspec

from proxy.catalog.entries import Upstream
from proxy.errors import UpstreamError
from proxy.fast_path.small_first.answer_checks import AnswerWebhook
from proxy.providers.port import PreparedRequest
from proxy.upstream.port import Transport, open_resending

_MAX_REPLY_BYTES: Final = 64 * 1024
_MAX_REASON_CHARS: Final = 200
_GOOD: Final = 200
_HEADERS: Final = {"content-type": "application/json", "accept": "application/json"}


class _Reply(msgspec.Struct, frozen=True):
    accept: bool
    reason: str = ""


_decode = msgspec.json.Decoder(_Reply).decode


async def refusal_of_webhook(
    transport: Transport, webhook: AnswerWebhook, request: bytes, answer: bytes
) -> str:
    """The reason that a webhook does not accept an answer; "" where it does.

    Args:
        request: The call's body, which is JSON; so is the answer.
    """
    address = urlsplit(webhook.url)
    origin = f"{address.scheme}://{address.netloc}"
    path = f"{address.path or '/'}{f'?{address.query}' if address.query else ''}"
    body = b'{"request":' + request + b',"answer":' + answer + b"}"
    prepared = PreparedRequest(method="POST", path=path, headers=_HEADERS, body=body)
    source = Upstream(name=f"check:{origin}", kind="openai", base_url=origin)
    try:
        async with asyncio.timeout(webhook.deadline_s):
            return await _ask(transport, source, prepared)
    except TimeoutError:
        return f"webhook: no reply within {webhook.deadline_s * 1_000:.0f} ms"
    except UpstreamError as error:
        return f"webhook: {error.code}"


async def _ask(transport: Transport, source: Upstream, prepared: PreparedRequest) -> str:
    exchange = await open_resending(transport, source, prepared)
    try:
        if exchange.status != _GOOD:
            return f"webhook: status {exchange.status}"
        reply = _decode(await exchange.read_all(_MAX_REPLY_BYTES))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "webhook: its reply has no accept"
    finally:
        exchange.close()
    reason = "".join(char for char in reply.reason if char.isprintable())[:_MAX_REASON_CHARS]
    return "" if reply.accept else f"webhook: {reason or 'refused'}"
