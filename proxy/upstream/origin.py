"""One upstream's address and the connections to it, kept between calls."""

import asyncio
import socket
import ssl
from collections import deque
from typing import Final
from urllib.parse import SplitResult

from aiohappyeyeballs import start_connection

from proxy.errors import UpstreamError
from proxy.upstream.connection import Connection
from proxy.upstream.pool_limit import UNSENT_IF_CANCELLED, PoolLimit

#: Seconds an idle connection is kept; the providers' load balancers keep theirs for longer.
_MAX_IDLE_S: Final = 30.0
#: Seconds one address of a host is tried before the next one is, too.
#: Source: RFC 8305, section 5 (2017-12).
_HAPPY_EYEBALLS_DELAY_S: Final = 0.25


class ConnectionPool:
    """One upstream's address and the connections to it.

    Attributes:
        authority: Host and port as the address has them; a user's name and password are not used.

    Raises:
        ValueError: If the address is not one of HTTP, has no host, or a port or host that is none.
    """

    def __init__(
        self,
        address: SplitResult,
        *,
        connections: int,
        connect_timeout: float,
        tls: ssl.SSLContext,
    ) -> None:
        if address.scheme not in {"http", "https"} or not address.hostname:
            raise ValueError("not an address of HTTP")
        self.authority = address.netloc.rpartition("@")[2].encode("idna").decode("ascii")
        self._host = address.hostname.encode("idna").decode("ascii")
        self._tls = tls if address.scheme == "https" else None
        self._port = address.port or (80 if self._tls is None else 443)
        self._connect_timeout = connect_timeout
        self._limit = PoolLimit(connections)
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._is_retired = False

    async def exchange(self, head: bytes, body: bytes, *, is_bodiless: bool) -> Connection:
        """A connection on which the answer to this request has begun; it is the caller's.

        Raises:
            UpstreamError: If the answer did not begin. Where a kept connection had been closed
                (``was_stale``), those that have been idle for longer are closed, too, so that the
                same request goes on a new one.
            OSError: If the upstream cannot be reached; its ``TimeoutError`` if not in time.
            CancelledError: If it was cancelled; ``was_never_sent`` where it waited to connect.
        """
        if not self._limit.try_acquire():
            await self._limit.wait_for_turn()
        connection = None
        try:
            connection = self._idle_connection() or await self._connect()
            await connection.exchange(head, body, is_bodiless=is_bodiless)
        except BaseException as error:
            self._limit.release()
            if connection is not None:
                connection.close()
            if isinstance(error, UpstreamError) and error.was_stale:
                self._close_idle()
            raise
        self._busy.add(connection)
        return connection

    def release(self, connection: Connection) -> None:
        """Keep the connection for the next call, or hang up if its answer was not read whole."""
        self._limit.release()
        self._busy.discard(connection)
        if self._is_retired or not connection.is_reusable:
            connection.close()
            return
        now = connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)
        while self._idle[0].idle_since < now - _MAX_IDLE_S:
            self._idle.popleft().close()

    def retire(self) -> None:
        """Hang up on idle connections now, and on each busy one when its answer has ended."""
        self._is_retired = True
        self._close_idle()

    def close(self) -> None:
        """Hang up on all connections."""
        for connection in (*self._idle, *self._busy):
            connection.close()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.popleft().close()

    def _idle_connection(self) -> Connection | None:
        """The connection used last, unless it is too old or was closed."""
        oldest = asyncio.get_running_loop().time() - _MAX_IDLE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        """A new connection, over the first of the host's addresses that answers.

        An address that swallows all it is sent (IPv6 on half-made networks) costs a head start.

        Raises:
            OSError: If none does; its ``TimeoutError`` if not in time.
            CancelledError: If it was cancelled meanwhile, and nothing was sent.
        """
        loop = asyncio.get_running_loop()
        with UNSENT_IF_CANCELLED:
            async with asyncio.timeout(self._connect_timeout):
                addresses = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                reached = await start_connection(
                    addresses, happy_eyeballs_delay=_HAPPY_EYEBALLS_DELAY_S
                )
                try:
                    _, connection = await loop.create_connection(
                        lambda: Connection(loop),
                        sock=reached,
                        ssl=self._tls,
                        server_hostname=None if self._tls is None else self._host,
                    )
                except BaseException:
                    reached.close()
                    raise
        return connection
