"""The part that readers of streams share: one event after another, up to the end or a bad one."""

from abc import ABC, abstractmethod
from typing import Final

import msgspec

from proxy.errors import UpstreamError
from proxy.providers.sse import parse_events
from proxy.providers.stream_endings import malformed_answer

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class EventReader(ABC):
    """Translates a stream event by event.

    What precedes an event that cannot be read is given before its error is raised.
    """

    __slots__ = ("_has_ended", "_unread")

    def __init__(self) -> None:
        self._has_ended = False
        self._unread: UpstreamError | None = None

    def feed(self, piece: bytes) -> bytes:
        """The answer's part in a run of whole events; b"" once the stream has ended.

        Raises:
            UpstreamError: If an event cannot be read, once all before it was given.
        """
        parts: list[bytes] = []
        for event in parse_events(piece):
            if self._has_ended or self._unread is not None:
                break
            try:
                parts.append(self._read(event.data))
            except _UNREADABLE:
                self._unread = malformed_answer()
        given = b"".join(parts)
        if self._unread is not None and not given:
            raise self._unread
        return given

    @abstractmethod
    def _read(self, data: bytes) -> bytes:
        """The answer's part in one event; b"" for none."""
