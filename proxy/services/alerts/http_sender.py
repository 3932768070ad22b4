"""Posts messages to sinks: one deadline for all of it, no redirects, no addresses in logs.

A sink's address may be its secret, so neither the log nor an error ever holds one.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, partial
from typing import Final, Self
from urllib.parse import unquote, urlsplit

import httpx2
import msgspec

from proxy.services.alerts.notices import AppriseNotice, AppriseSender
from slo.alerting import AlertGroup

#: Seconds that one post may take.
DEADLINE_S: Final = 10.0
_MAX_CONNECTIONS: Final = 20
#: Statuses that say that the message is wrong, and not the sink.
_REFUSALS: Final = frozenset({400, 413, 422})
#: Bytes of a refusal's body that are read, within so many seconds, and characters that are told.
_MAX_REFUSAL_BYTES: Final = 8 * 1024
_REFUSAL_TIMEOUT_S: Final = 2.0
_MAX_REFUSAL_CHARS: Final = 200
#: Characters that a part of an address has at least to be taken for a secret.
_MIN_SECRET_CHARS: Final = 5
_HIDDEN: Final = "[hidden]"
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>]+", re.IGNORECASE)


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A group of alerts on its way to one sink, from which its message is built.

    Attributes:
        id: The same for each retry of an undelivered notification.
        at: Time of the alert, in seconds since the epoch.
        secret: The sink's; "" where it has none.
        gateway_url: URL at which browsers reach the gateway; "" where it is unknown.
    """

    group: AlertGroup
    id: str
    at: float
    secret: str = ""
    gateway_url: str = ""


class HttpMessage(msgspec.Struct, frozen=True):
    """A body to post, and its headers."""

    body: bytes
    headers: Mapping[str, str]


class DeliveryFailure(msgspec.Struct, frozen=True):
    """The sink did not take a message.

    Attributes:
        reason: The reason, without its address.
        detail: Message of the sink or the network about it, without addresses and secrets, in at
            most 200 characters; "" where nothing was said. It is for a person who tests the sink:
            neither logs nor the outbox hold it.
        is_refused: True if it is for what the message says.
        retry_after: Seconds that the sink asks for; None where it does not say.
    """

    reason: str
    detail: str = ""
    is_refused: bool = False
    retry_after: float | None = None


class HttpSender:
    """Posts messages; closed at the end of its block."""

    def __init__(self, deadline: float = DEADLINE_S) -> None:
        # It logs every address it posts to.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        self._deadline = deadline
        self._notices = AppriseSender(deadline)
        self._client = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            verify=_machine_tls(),
            timeout=deadline,
            limits=httpx2.Limits(max_connections=_MAX_CONNECTIONS),
        )

    async def __aenter__(self) -> Self:
        """Ready."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hang up."""
        self._notices.close()
        await self._client.aclose()

    async def send(self, url: str, message: HttpMessage | AppriseNotice) -> DeliveryFailure | None:
        """Send a message or a notice: None, or why the sink did not take it."""
        if isinstance(message, HttpMessage):
            return await self._post(url, message)
        if why := await self._notices.send(url, message):
            return DeliveryFailure(why, detail="`apprise -vv` with the same URL says more")
        return None

    async def _post(self, url: str, message: HttpMessage) -> DeliveryFailure | None:
        """Post a message; of what the sink says, only a refusal's beginning is read."""
        headers = {"user-agent": "thriftgate", "accept-encoding": "identity", **message.headers}
        hide = partial(without_secrets, url=url, headers=message.headers)
        status, retry, detail = 0, "", b""
        try:
            async with (
                asyncio.timeout(self._deadline),
                self._client.stream("POST", url, content=message.body, headers=headers) as answer,
            ):
                status, retry = answer.status_code, answer.headers.get("retry-after", "")
                if not 200 <= status < 300:
                    detail = await _body_start(answer)
        except TimeoutError:
            if not status:
                return DeliveryFailure(f"it did not answer within {self._deadline:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            if not status:
                # What it says may hold the address.
                why = f"it cannot be reached ({type(error).__name__})"
                return DeliveryFailure(why, detail=hide(str(error)))
        if 200 <= status < 300:
            return None
        return _delivery_failure(status, retry, hide(detail.decode("utf8", "replace")))


def rfc3339(time: float) -> str:
    """A time as RFC 3339 has it, in UTC."""
    return (
        datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def without_secrets(text: str, *, url: str, headers: Mapping[str, str]) -> str:
    """The beginning of what a sink said, on one line, without addresses and secrets.

    Args:
        text: As it was said; where it was cut, what it ends with may be a part of a secret.
        url: The sink's address; each part of it may be a secret.
        headers: Headers sent beside the message, such as a token.
    """
    parts = urlsplit(url)
    header_values = [value for name, value in headers.items() if name != "content-type"]
    words = [
        url,
        parts.netloc.rpartition("@")[0],
        parts.path,
        parts.query,
        parts.fragment,
        *header_values,
    ]
    words += [piece for word in words for piece in re.split(r"[/&=;:@\s]", word)]
    hidden = {
        spelling
        for word in words
        for spelling in (word, unquote(word))
        if len(spelling) >= _MIN_SECRET_CHARS
    }
    longest = max(map(len, hidden), default=0)
    if len(text) >= _MAX_REFUSAL_BYTES:
        text = text[: max(len(text) - longest, 0)]
    text = _ADDRESS.sub(_HIDDEN, text)
    for word in sorted(hidden, key=len, reverse=True):
        text = re.sub(re.escape(word), _HIDDEN, text, flags=re.IGNORECASE)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _MAX_REFUSAL_CHARS else f"{line[: _MAX_REFUSAL_CHARS - 1]}…"


@cache
def _machine_tls() -> ssl.SSLContext:
    """The certificates that this machine trusts, with the client's own choice of protocols."""
    return httpx2.create_ssl_context(trust_env=False)


async def _body_start(answer: httpx2.Response) -> bytes:
    """The beginning of a refusal's body; b"" where it is compressed all the same."""
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        return b""
    detail = bytearray()
    try:
        async with asyncio.timeout(_REFUSAL_TIMEOUT_S):
            async for piece in answer.aiter_raw(_MAX_REFUSAL_BYTES):
                detail += piece[: _MAX_REFUSAL_BYTES - len(detail)]
                if len(detail) >= _MAX_REFUSAL_BYTES:
                    break
    except (TimeoutError, httpx2.HTTPError, OSError):
        pass  # what came until then says enough
    return bytes(detail)


def _delivery_failure(status: int, retry: str, detail: str) -> DeliveryFailure:
    if 300 <= status < 400:
        why = f"it redirects ({status}), and redirects are not followed"
        return DeliveryFailure(why, detail=detail)
    retry_after = float(retry) if retry.isdecimal() and len(retry) < 6 else None
    return DeliveryFailure(
        f"it answered {status}",
        is_refused=status in _REFUSALS,
        retry_after=retry_after,
        detail=detail,
    )
