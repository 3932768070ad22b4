"""Turns AWS's binary event streams into the server-sent events of Anthropic's API.

::

    :message-type   what it holds
    event           {"bytes": base64 of an event of the Messages API}
    exception       :exception-type, {"message": …}
    error           :error-code, :error-message

Frames are read by botocore, which checks both checksums of each and bounds its size to 24 MiB.

Source: AWS, Bedrock runtime, ResponseStream; Amazon event stream encoding (2026-11).
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from proxy.providers.cloud_platforms.aws_errors import anthropic_type
from proxy.providers.failures import redact
from proxy.providers.stream_endings import unreadable_paid_answer
from proxy.upstream.port import UpstreamExchange

MEDIA_TYPE: Final = "application/vnd.amazon.eventstream"
_SSE: Final = "text/event-stream"
_STATUS_TYPES: Final[Mapping[int, str]] = {
    400: "validationException",
    429: "throttlingException",
    503: "serviceUnavailableException",
    529: "serviceUnavailableException",
}


class _Chunk(msgspec.Struct):
    bytes: str = ""


class _Event(msgspec.Struct):
    type: str = ""


class _Exception(msgspec.Struct, rename="camel"):
    message: str = ""
    original_message: str = ""
    original_status_code: int = 0


_chunk: Final = msgspec.json.Decoder(_Chunk).decode
_event: Final = msgspec.json.Decoder(_Event).decode
_exception: Final = msgspec.json.Decoder(_Exception, strict=False).decode
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


class EventStreamDecoder:
    """Decodes one stream; an event comes out as soon as its frame is whole."""

    def __init__(self) -> None:
        """Nothing came yet.

        Raises:
            ImportError: If botocore is not installed.
        """
        from botocore.eventstream import (  # noqa: PLC0415 - an optional extra
            EventStreamBuffer,
            ParserError,
        )

        self._buffer = EventStreamBuffer()
        self._errors: type[Exception] = ParserError

    def feed(self, piece: bytes) -> bytes:
        """The events that are whole now; b"" for none yet.

        Raises:
            UpstreamError: If a frame's checksum or size is wrong.
        """
        self._buffer.add_data(piece)
        try:
            return b"".join(self._events())
        except self._errors as error:
            broken = unreadable_paid_answer()
            broken.detail = f"AWS's event stream: {error}"
            raise broken from error

    def _events(self) -> Iterator[bytes]:
        for frame in self._buffer:
            yield _sse_event(frame.headers, frame.payload)


class EventStreamExchange:
    """An exchange whose body is an AWS event stream, read as server-sent events.

    Attributes:
        headers: Its headers, with the media type of what is read.
    """

    def __init__(self, inner: UpstreamExchange) -> None:
        self._inner = inner
        self._decoder = EventStreamDecoder()
        self.status = inner.status
        self.headers: Mapping[str, str] = {**inner.headers, "content-type": _SSE}

    @property
    def is_read(self) -> bool:
        """True if nothing of the body follows, and that is known already."""
        return self._inner.is_read

    async def read(self) -> bytes:
        """The next events; b"" at the end.

        Raises:
            UpstreamError: If the connection broke, or a frame did.
        """
        while piece := await self._inner.read():
            if events := self._decoder.feed(piece):
                return events
        return b""

    async def read_all(self, limit: int) -> bytes:
        """The rest of the events, in one piece."""
        return self._decoder.feed(await self._inner.read_all(limit))

    def close(self) -> None:
        """Hang up at once unless the body was read to its end."""
        self._inner.close()


def _sse_event(headers: Mapping[str, Any], payload: bytes) -> bytes:
    """The server-sent event of a frame; a comment for one that says nothing of an answer."""
    kind = headers.get(":message-type")
    if kind == "exception":
        return _error_event(str(headers.get(":exception-type", "")), payload)
    if kind == "error":
        words = str(headers.get(":error-message", ""))
        return _write_error(str(headers.get(":error-code", "")), words)
    if headers.get(":event-type") != "chunk":
        return b": ignored\n\n"
    try:
        data = b64decode(_chunk(payload).bytes)
        name = _event(data).type.encode()
    except _UNREADABLE as error:
        raise unreadable_paid_answer() from error
    if b"\n" in data or b"\r" in data:  # between members of the JSON: strings escape theirs
        data = data.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"event: %b\ndata: %b\n\n" % (name, data)


def _error_event(name: str, payload: bytes) -> bytes:
    """The error event of an exception frame; a model's own status goes before the frame's name."""
    try:
        exception = _exception(payload)
    except _UNREADABLE:
        exception = _Exception()
    name = _STATUS_TYPES.get(exception.original_status_code, name)
    return _write_error(name, exception.message or exception.original_message)


def _write_error(name: str, words: str) -> bytes:
    event = {"type": anthropic_type(name), "message": redact(words) or f"Bedrock failed: {name}."}
    error = msgspec.json.encode({"type": "error", "error": event})
    return b"event: error\ndata: %b\n\n" % error
