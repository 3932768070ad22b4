"""Recorded calls from log files, in the order of their times, read as they are needed."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from proxy.errors import OperatorError
from proxy.tools.replay.logs.documents import (
    MAX_VALUE_BYTES,
    STANDARD_INPUT,
    log_values,
    open_log,
)
from proxy.tools.replay.logs.fields import SHAPE_ERRORS, WRONG_SHAPE
from proxy.tools.replay.logs.records import recorded_calls
from proxy.tools.replay.logs.transcripts import SessionReader, session_reader
from proxy.tools.replay.recorded_call import RecordedCall

#: Bytes of calls that are put in order at once: exports come newest first.
_WINDOW_BYTES: Final = 128 * 2**20
#: Bytes that a call takes besides its body.
_CALL_BYTES: Final = 512
#: Different reasons that are named; the others are counted together.
_MAX_REASONS: Final = 20
OTHER_REASONS: Final = "other reasons"
_PLACE: Final = re.compile(r"\[\d+\]")


class ReasonCount(msgspec.Struct):
    """The number of times that something went wrong for one reason.

    Attributes:
        first: Place of the first, as ``file:line``.
    """

    why: str
    count: int
    first: str


class ReasonCounts:
    """Counts equal reasons; bounded."""

    def __init__(self) -> None:
        self._reasons: dict[str, ReasonCount] = {}

    def add(self, why: str, where: str) -> None:
        """Count one more; reasons that differ in a place within the body alone are equal."""
        why = _PLACE.sub("[…]", why).removesuffix(".")
        if why not in self._reasons and len(self._reasons) >= _MAX_REASONS:
            why = OTHER_REASONS
        reason = self._reasons.setdefault(why, ReasonCount(why, 0, where))
        reason.count += 1

    @property
    def total(self) -> int:
        """The number of all values counted."""
        return sum(reason.count for reason in self._reasons.values())

    def most_frequent(self) -> tuple[ReasonCount, ...]:
        """The reasons, the most frequent first."""
        return tuple(sorted(self._reasons.values(), key=lambda reason: -reason.count))


class RecordedSource:
    """Every call of some log files; the times of each file continue after the previous file's end.

    Calls are sorted by time within a window, because exports begin with the newest call. If the
    window is too small, or the log has no times, calls stay in the file's order.

    Args:
        gap: Seconds between two calls if the log has no times.
        speed: Speed of the replay, as a multiple of the recorded one.
        window: Bytes of calls that are put in order at once.

    Attributes:
        bad: Counts of values that are not calls, by reason.
        late: Number of calls too far from their place to be sorted within the window.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        gap: float = 2.0,
        speed: float = 1.0,
        longest: int = MAX_VALUE_BYTES,
        window: int = _WINDOW_BYTES,
        tell: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        self._paths = paths
        self.gap = gap
        self._speed = speed
        self._longest = longest
        self._window = window
        self._report_progress = tell
        self.bad = ReasonCounts()
        self.late = self.untimed = 0

    def __iter__(self) -> Iterator[tuple[float, RecordedCall]]:
        """Each call and when it is made.

        Raises:
            OSError: If a file cannot be read.
            OperatorError: If a file is damaged, or too large.
        """
        first: float | None = None
        last: float | None = None
        for path in self._paths:
            shift: float | None = None
            with open_log(path) as file:
                timed = self._with_times(self._calls(path, file))
                for found_at, call in _sort_in_window(timed, self._window):
                    if shift is None:
                        shift = 0.0 if last is None else max(0.0, last + self.gap - found_at)
                    time = found_at + shift
                    self.late += last is not None and time < last
                    last = time if last is None else max(last, time)
                    first = last if first is None else first
                    yield first + (last - first) / self._speed, call

    def _with_times(self, calls: Iterable[RecordedCall]) -> Iterator[tuple[float, RecordedCall]]:
        """Each call of a file with a time: its own, or a gap after the call before."""
        next_at = 0.0
        for call in calls:
            self.untimed += call.at is None
            time = next_at if call.at is None else call.at
            next_at = time + self.gap
            yield time, call

    def _calls(self, path: Path, file: BinaryIO) -> Iterator[RecordedCall]:
        session: SessionReader | None = None
        name, place = path.name, f"{path.name}:"
        if path == STANDARD_INPUT:
            name, place = "standard input", "line "
        where = f"{place}1"
        try:
            for line, value, problem in log_values(
                file, longest=self._longest, report_progress=self._report_progress
            ):
                where = f"{place}{line}"
                if problem:
                    self.bad.add(problem, where)
                    continue
                session = session or session_reader(value)
                calls = session.feed(value) if session else recorded_calls(value)
                yield from self._readable(calls, where)
        except OperatorError as why:
            raise OperatorError(f"{name}: {why}") from None
        if session is not None:
            yield from self._readable(session.end(), where)

    def _readable(
        self, calls: Iterable[RecordedCall | OperatorError], where: str
    ) -> Iterator[RecordedCall]:
        """The calls, each with its place in the log; values that are not calls are counted."""
        try:
            for call in calls:
                if isinstance(call, OperatorError):
                    self.bad.add(str(call), where)
                else:
                    yield msgspec.structs.replace(call, where=where)
        except SHAPE_ERRORS:
            self.bad.add(WRONG_SHAPE, where)


def _sort_in_window(
    timed: Iterator[tuple[float, RecordedCall]], window: int
) -> Iterator[tuple[float, RecordedCall]]:
    """The calls sorted by time within a window."""
    waiting: list[tuple[float, int, RecordedCall]] = []
    waiting_bytes = 0
    for number, (time, call) in enumerate(timed):
        heappush(waiting, (time, number, call))
        waiting_bytes += len(call.body) + _CALL_BYTES
        while waiting_bytes > window:
            at_first, _, first = heappop(waiting)
            waiting_bytes -= len(first.body) + _CALL_BYTES
            yield at_first, first
    while waiting:
        at_first, _, first = heappop(waiting)
        yield at_first, first
