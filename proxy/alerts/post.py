"""Messages to sinks: one deadline for all of it, no redirects, nothing told of addresses.

A sink's address may be its secret, so neither the log nor an error ever holds one.
"""

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Self

import httpx2
import msgspec

from proxy.alerts.notices import Notice, Notices
from slo.alerting import Group

#: Seconds that one post may take.
DEADLINE: Final = 10.0
_CONNECTIONS: Final = 20
#: Statuses that say that the message is wrong, and not the sink.
_REFUSALS: Final = frozenset({400, 413, 422})


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """What a message is made of.

    Attributes:
        group: The alerts.
        id: The same where the same is told again because nobody took it.
        at: When, in seconds since the epoch.
        secret: The sink's; "" where it has none.
    """

    group: Group
    id: str
    at: float
    secret: str = ""


class Message(msgspec.Struct, frozen=True):
    """What is posted: a body, and its headers."""

    body: bytes
    headers: Mapping[str, str]


class NotTaken(Exception):
    """The sink did not take a message; says why without its address.

    Attributes:
        is_refused: Whether it is for what the message says.
        retry_after: Seconds that the sink asks for; None where it does not say.
    """

    def __init__(
        self, why: str, *, is_refused: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(why)
        self.is_refused = is_refused
        self.retry_after = retry_after


class Post:
    """Posts messages; closed at the end of its block."""

    def __init__(self, deadline: float = DEADLINE) -> None:
        # It logs every address it posts to.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        self._deadline = deadline
        self._notices = Notices(deadline)
        self._client = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            timeout=deadline,
            limits=httpx2.Limits(max_connections=_CONNECTIONS),
        )

    async def __aenter__(self) -> Self:
        """Ready."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hang up."""
        self._notices.close()
        await self._client.aclose()

    async def send(self, url: str, message: Message | Notice) -> None:
        """Send a message or a notice.

        Raises:
            NotTaken: If the sink did not take it.
        """
        if isinstance(message, Message):
            await self._post(url, message)
        elif why := await self._notices.send(url, message):
            raise NotTaken(why)

    async def _post(self, url: str, message: Message) -> None:
        """Post a message; nobody reads what the sink says besides its status.

        Raises:
            NotTaken: If the sink did not take it.
        """
        headers = {"user-agent": "thriftgate", **message.headers}
        try:
            async with (
                asyncio.timeout(self._deadline),
                self._client.stream("POST", url, content=message.body, headers=headers) as answer,
            ):
                status, retry = answer.status_code, answer.headers.get("retry-after", "")
        except TimeoutError:
            raise NotTaken(f"it did not answer within {self._deadline:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            # What it says may hold the address.
            raise NotTaken(f"it cannot be reached ({type(error).__name__})") from None
        if not 200 <= status < 300:
            raise _not_taken(status, retry)


def stamp(at: float) -> str:
    """A time as RFC 3339 has it, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _not_taken(status: int, retry: str) -> NotTaken:
    if 300 <= status < 400:
        return NotTaken(f"it redirects ({status}), and redirects are not followed")
    retry_after = float(retry) if retry.isdecimal() and len(retry) < 6 else None
    return NotTaken(
        f"it answered {status}", is_refused=status in _REFUSALS, retry_after=retry_after
    )
