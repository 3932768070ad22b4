"""Recorded calls from files, in the order of their times, read as they are needed."""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from proxy.errors import OperatorError
from proxy.tools.replay.lines import RecordedCall, parse_line

#: Most lines between two that stand in the wrong order and are put right.
_WINDOW: Final = 1_024
_WINDOW_BYTES: Final = 32 * 2**20
#: A longer line is no recorded call.
_MAX_LINE_BYTES: Final = 64 * 2**20
#: Bad lines that are named; the others are counted.
_MAX_NAMED_LINES: Final = 20


class UnreplayableLine(msgspec.Struct, frozen=True):
    """A line that could not be read.

    Attributes:
        file: File of the line.
        line: From 1.
        why: In a sentence.
    """

    file: str
    line: int
    why: str


class RecordedSource:
    """Every call of some files; a file's times go on where those of the file before ended.

    A line that comes before one with an earlier time changes places with it within a window; where
    the window is too small, or there are no times, the order is the file's.

    Args:
        paths: The files, in their order.
        gap: Seconds between two calls where the lines carry no times.
        speed: Speed of the replay, as a multiple of the recorded one.
        longest: Bytes of the longest line that is read.
        tell: Told how many bytes were read.

    Attributes:
        bad: The first lines that could not be read.
        bad_count: Number of bad lines.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        gap: float = 2.0,
        speed: float = 1.0,
        longest: int = _MAX_LINE_BYTES,
        tell: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        self._paths = paths
        self._gap = gap
        self._speed = speed
        self._longest = longest
        self._report_progress = tell
        self.bad: list[UnreplayableLine] = []
        self.bad_count = 0

    def __iter__(self) -> Iterator[tuple[float, RecordedCall]]:
        """Each call and when it is made.

        Raises:
            OSError: If a file cannot be read.
        """
        first: float | None = None
        last: float | None = None
        for path in self._paths:
            shift: float | None = None
            with path.open("rb") as file:
                for found_at, found in _sort_in_window(self._calls_with_times(path.name, file)):
                    if shift is None:
                        shift = 0.0 if last is None else max(0.0, last + self._gap - found_at)
                    at = found_at + shift
                    last = at if last is None else max(last, at)
                    first = last if first is None else first
                    yield first + (last - first) / self._speed, found

    def _calls_with_times(self, name: str, file: BinaryIO) -> Iterator[tuple[float, RecordedCall]]:
        """Each call of a file with a time: its own, or a gap after the call before."""
        next_at = 0.0
        for number, raw in _lines(file, self._longest, self._report_progress):
            try:
                found = msgspec.structs.replace(parse_line(raw), where=f"{name}:{number}")
            except OperatorError as why:
                self._note(UnreplayableLine(name, number, str(why)))
                continue
            at = next_at if found.at is None else found.at
            next_at = at + self._gap
            yield at, found

    def _note(self, bad: UnreplayableLine) -> None:
        self.bad_count += 1
        if len(self.bad) < _MAX_NAMED_LINES:
            self.bad.append(bad)


def _lines(
    file: BinaryIO, longest: int, tell: Callable[[int], None]
) -> Iterator[tuple[int, bytes]]:
    """Each line that is not empty, with its number; one that is too long is cut off."""
    number = 0
    while raw := file.readline(longest):
        number += 1
        tell(len(raw))
        whole = len(raw) < longest or raw.endswith(b"\n")
        while not whole:
            rest = file.readline(longest)
            tell(len(rest))
            whole = len(rest) < longest or rest.endswith(b"\n")
        if raw.strip():
            yield number, raw


def _sort_in_window(
    timed: Iterator[tuple[float, RecordedCall]],
) -> Iterator[tuple[float, RecordedCall]]:
    """The calls by time, as far as a window lets them change places."""
    waiting: list[tuple[float, int, RecordedCall]] = []
    held = 0
    for number, (at, found) in enumerate(timed):
        heappush(waiting, (at, number, found))
        held += len(found.body)
        while len(waiting) > _WINDOW or held > _WINDOW_BYTES:
            at_first, _, first = heappop(waiting)
            held -= len(first.body)
            yield at_first, first
    while waiting:
        at_first, _, first = heappop(waiting)
        yield at_first, first
