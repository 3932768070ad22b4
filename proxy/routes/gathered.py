"""Connections on which an answer's head leaves together with what follows it.

The server writes the two one after the other. Sent apart they are two system calls, two packets
and two wake-ups of the caller.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD: Final = b"HTTP/1.1 "


class Calls(HttpToolsProtocol):
    """The server's side of a caller's connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by asyncio."""
        super().connection_made(Gathered(transport, self.loop))


class Gathered(asyncio.Transport):
    """A transport that holds a head back until its body comes, or for one turn of the loop."""

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send these bytes, with the head before them if there is one; a head waits."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif isinstance(data, bytes) and data.startswith(_HEAD):
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Send what is held, then hang up."""
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether it was hung up."""
        return self._transport.is_closing()

    def abort(self) -> None:
        """Hang up at once."""
        self._held = b""
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - asyncio's
        """What asyncio knows of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Take no more bytes for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol have the bytes."""
        self._transport.set_protocol(protocol)

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)
