"""Parts that readers of answers share: decoded pieces, whole bodies, event streams."""

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from proxy.errors import UpstreamError
from proxy.providers.lenient import UNREADABLE
from proxy.providers.port import Reader
from proxy.providers.sse import parse_events
from proxy.providers.stream_endings import malformed_answer, truncated_stream


class PassthroughReader:
    """Passes an answer on."""

    __slots__ = ()

    def feed(self, piece: bytes) -> bytes:
        """The piece."""
        return piece

    def end(self) -> bytes:
        """Nothing is held back."""
        return b""


class InnerReader(ABC):
    """Translates what another reader gives."""

    def __init__(self, inner: Reader) -> None:
        self._inner = inner

    def feed(self, piece: bytes) -> bytes:
        """The answer's part in a piece."""
        return self._translate(self._inner.feed(piece))

    def end(self) -> bytes:
        """The end of the answer."""
        return self._translate(self._inner.end())

    @abstractmethod
    def _translate(self, run: bytes) -> bytes:
        """The answer's part in what the inner reader gave; b"" for none."""


class WholeReader(PassthroughReader, ABC):
    """Translates an answer that comes in one piece."""

    __slots__ = ()

    def feed(self, piece: bytes) -> bytes:
        """The answer for the whole body."""
        try:
            return msgspec.json.encode(self._translate(piece))
        except UNREADABLE:
            raise malformed_answer() from None

    @abstractmethod
    def _translate(self, body: bytes) -> dict[str, Any]:
        """The answer as it will be written."""


class HeldReader(ABC):
    """Translates an answer that is small, once all of it is there."""

    __slots__ = ("_body",)

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, piece: bytes) -> bytes:
        """Hold the piece until the answer is whole."""
        self._body += piece
        return b""

    @abstractmethod
    def end(self) -> bytes:
        """The answer."""


class EventReader(ABC):
    """Translates a stream event by event.

    What precedes an event that cannot be read is given before its error is raised.
    """

    __slots__ = ("_has_ended", "_unread")

    def __init__(self) -> None:
        self._has_ended = False
        self._unread: UpstreamError | None = None

    def feed(self, piece: bytes) -> bytes:
        """The answer's part in a run of whole events; b"" once the stream has ended."""
        parts: list[bytes] = []
        for event in parse_events(piece):
            if self._has_ended or self._unread is not None:
                break
            try:
                parts.append(self._read(event.data))
            except UNREADABLE:
                self._unread = malformed_answer()
        given = b"".join(parts)
        if self._unread is not None and not given:
            raise self._unread
        return given

    def end(self) -> bytes:
        """The last parts, where the upstream says why it stopped and sends no end."""
        if self._has_ended:
            return b""
        if self._unread is not None or not self._is_complete:
            raise self._unread or truncated_stream()
        return self._final_parts()

    @property
    def _is_complete(self) -> bool:
        """True if the answer is whole though no event has ended it."""
        return False

    def _final_parts(self) -> bytes:
        """The last parts of an answer that ended well."""
        return b""

    @abstractmethod
    def _read(self, data: bytes) -> bytes:
        """The answer's part in one event; b"" for none."""
