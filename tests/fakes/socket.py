"""A socket that remembers what was sent, and lets a test say what arrives."""

import asyncio
from collections.abc import Iterable


class FakeSocket(asyncio.Transport):
    """The transport below a protocol; it ends when the loop comes round, as asyncio's do."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._is_closing = False
        self.sent = b""
        self.unsent = 0
        self.is_paused = False
        protocol.connection_made(self)

    def arrive(self, data: bytes) -> None:
        """Hand over bytes, unless the connection has ended or nobody reads."""
        assert not self.is_paused
        if data and not self._is_closing:
            self._protocol.data_received(data)

    def end(self, error: Exception | None = None) -> None:
        """End, by a FIN or by this error."""
        if not self._is_closing:
            self._is_closing = True
            self._protocol.connection_lost(error)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._is_closing
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
