"""The seam between an answer that broke off and the answer that goes on from its text; pure.

::

    what the caller has ── read ──▶ OpenAnswer ── its text ──▶ request of another upstream
    the other's answer, in the caller's API ── Seam.feed ──▶ the rest of the same answer

The caller sees one answer: its first part gives it its ids and numbers. White space at the end of
the first part is not sent back: Anthropic refuses it, chat templates trim it, and models expect a
word's space before the word. What of it comes again is dropped.
"""

from abc import ABC, abstractmethod
from typing import Any, Final, Protocol

from proxy.errors import UpstreamError
from proxy.providers.recalls.recall_filter import parse_object
from proxy.providers.sse import parse_event, to_line_feeds

Json = dict[str, Any]
#: Characters of a text whose repetition cannot be the model's own.
_MIN_ECHO_CHARS: Final = 32


class SeamText:
    """The text of a part that goes on, without what the caller has of it already.

    Args:
        text: The text so far.
        echoes: True if the part begins with the text so far again.
    """

    def __init__(self, text: str, *, echoes: bool) -> None:
        self._sent = text.rstrip()
        self._trimmed = text[len(self._sent) :]
        self._may_echo = echoes or len(self._sent) >= _MIN_ECHO_CHARS
        self._held = ""
        self._is_open = True

    def feed(self, piece: str) -> str:
        """The caller's part of a piece of text; "" while it may be what the caller has."""
        if not self._is_open:
            return piece
        self._held += piece
        if self._may_echo:
            if len(self._held) < len(self._sent) and self._sent.startswith(self._held):
                return ""
            self._held = self._held.removeprefix(self._sent)
            self._may_echo = False
        if not self._held or (self._trimmed and self._held.isspace()):
            return ""
        return self._release()

    def end(self) -> str:
        """The text held back, once nothing follows it."""
        return self._release() if self._is_open else ""

    def _release(self) -> str:
        held, self._held, self._is_open = self._held, "", False
        words = held.lstrip()
        space = held[: len(held) - len(words)]
        if not self._trimmed:
            return held
        if space.startswith(self._trimmed):
            return space[len(self._trimmed) :] + words
        return held if space.count("\n") > self._trimmed.count("\n") else words


class OpenAnswer(Protocol):
    """An answer that broke off in the middle of its text.

    Attributes:
        text: The text so far.
    """

    @property
    def text(self) -> str:
        """The text so far."""
        ...

    def seam(self, *, echoes: bool) -> "Seam":
        """The seam to the part that goes on.

        Args:
            echoes: True if it begins with the text so far again.
        """
        ...


class Seam(ABC):
    """Makes the events of a part that goes on those of the answer that the caller has begun."""

    def feed(self, piece: bytes) -> bytes:
        """The caller's part of a run of whole events.

        Raises:
            UpstreamError: If it thinks anew, so that it is no continuation.
        """
        blocks = to_line_feeds(piece).split(b"\n\n")
        return b"".join(self._feed_block(block) for block in blocks if block.strip(b"\n"))

    def _feed_block(self, block: bytes) -> bytes:
        framed = block + b"\n\n"
        event = parse_event(block)
        content = None if event is None else parse_object(event.data)
        return framed if content is None else self._feed_event(content)

    @abstractmethod
    def _feed_event(self, event: Json) -> bytes:
        """The caller's part of an event."""


def cannot_continue() -> ValueError:
    """The error of an answer that cannot be gone on from."""
    return ValueError("this answer cannot be gone on from")


def thinks_anew() -> UpstreamError:
    """The error of a part that thinks before it goes on."""
    return UpstreamError(
        "The answer broke off, and could not be continued.",
        status=502,
        code="continuation_unreadable",
        retryable=True,
    )


def checked_text(text: str) -> str:
    """The text so far, where it can be gone on from.

    Raises:
        ValueError: If it has no words, or breaks off within a character.
    """
    if not text.strip() or text.endswith("\ufffd"):
        raise cannot_continue()
    return text
