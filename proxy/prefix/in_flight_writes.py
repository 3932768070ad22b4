"""Prefixes that are being written right now, and how long a call waits that could read one.

::

    hold ── a call that is ready: wait for whom, how long at most, or go
    sent ── it goes, and writes at its marks
    begun ── its answer begins: from now on others read what it wrote
    ended ── what it did not get to write, others may write

Source: Anthropic, prompt caching (2026-08): an entry can be used once the first response begins.
OpenAI says nothing; what is still computed can hardly be read.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import msgspec

from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.planned import Planned
from proxy.prefix.prediction.lookups import (
    entry_keys,
    lifetime_s,
    lookup_places,
    written_breakpoints,
)
from proxy.prefix.prediction.sent_call import SentCall
from proxy.records.lru_cache import LruCache

#: Nobody waits longer than this, in seconds, whatever it saves.
MAX_WAIT_S: Final = 5.0
#: A first byte this many times later than expected is not waited for any more.
_MAX_LATENESS_FACTOR: Final = 2.0
#: Cost of a second that one call waits, in nano-dollars: a cent, 36 dollars an hour. Whoever waits
#: for the answer is paid about that: an hour of work in the USA costs an employer 36 dollars before
#: tax and extras (Bureau of Labor Statistics, average hourly earnings, 2025). So 10,000 tokens at 2
#: dollars a million (0.023 dollars saved) are waited for up to two seconds, and 1,500 (0.0035) a
#: third of one.
NANOS_PER_SECOND_WAITED: Final = 10_000_000
#: Weight of the latest first byte in the average.
_LATEST_WEIGHT: Final = 0.2
_MAX_LATENCY_CLASSES: Final = 1_024
_TOKENS_PER_MILLION: Final = 1_000_000
#: Kind of answer: upstream, model, and True for a stream.
LatencyClass = tuple[str, str, bool]


class WriteWait(msgspec.Struct, frozen=True):
    """The call to wait for, and the seconds to wait at most."""

    writer: int
    seconds: float


class _Write(msgspec.Struct, frozen=True, kw_only=True):
    """A call under way.

    Attributes:
        sent: The call; kept, so that its identity stays its own.
        points: Keys of its entries, and the times they live until.
    """

    sent: SentCall
    lane: LatencyClass
    since: float
    points: dict[int, float]


class InFlightWrites:
    """Calls of one process that write prefixes; never more than ``max_writes`` of them are known.

    Args:
        max_writes: Calls under way that others may wait for, and prefixes that were just written.
    """

    def __init__(self, max_writes: int = 4_096) -> None:
        self._max_writes = max_writes
        self._writes: dict[int, _Write] = {}
        self._writers: dict[int, int] = {}
        self._readable: LruCache[int, float] = LruCache(max_writes)
        self._first_bytes: LruCache[LatencyClass, float] = LruCache(_MAX_LATENCY_CLASSES)

    def __len__(self) -> int:
        """Everything kept, of all kinds."""
        under = len(self._writes) + len(self._writers)
        return under + len(self._readable) + len(self._first_bytes)

    def find_wait(self, planned: Planned, now: float) -> WriteWait | None:
        """Find the write to wait for; None to send the call at once.

        Waiting pays where reading instead of writing saves more than the waiting costs.

        A call that is sent unmodified, to compare with, never waits.
        """
        rates, regime = planned.target.rates, planned.target.regime
        may_wait = bool(self._writers) and planned.plan.arm is not ExperimentArm.CONTROL
        if not may_wait or rates is None or rates.input is None:
            return None
        writer, end, tokens = self._longest_write(planned, now)
        if not writer or tokens < max(1, regime.least):
            return None
        write = self._writes[writer]
        left = (self._first_bytes.peek(write.lane) or 0.0) - (now - write.since)
        if not 0.0 < left <= MAX_WAIT_S:
            return None
        ttl = _written_lifetime(planned.evidence.sent, end)
        price = float(regime.writes.get(ttl, Fraction(1)) - regime.read) * rates.input
        if price * tokens <= left * NANOS_PER_SECOND_WAITED * _TOKENS_PER_MILLION:
            return None
        return WriteWait(writer, min(MAX_WAIT_S, left * _MAX_LATENESS_FACTOR))

    def record_write(self, planned: Planned, now: float, *, streamed: bool) -> None:
        """Note that the call goes now, and what it writes that no call has written yet."""
        call = planned.evidence.sent
        if not call.regime.takes_marks or len(self._writes) >= self._max_writes:
            return
        points = {
            key: now + life
            for key, life in _new_entries(planned)
            if key not in self._writers and not self._is_readable(key, now)
        }
        if points:
            lane = (planned.target.upstream, planned.target.model, streamed)
            self._writes[id(call)] = _Write(sent=call, lane=lane, since=now, points=points)
            self._writers |= dict.fromkeys(points, id(call))

    def mark_readable(self, planned: Planned, now: float) -> int | None:
        """Let others read what the call wrote; returns the writer waited for, None for none."""
        write = self._writes.get(id(planned.evidence.sent))
        if write is None:
            return None
        latest_s = max(0.0, now - write.since)
        average_s = self._first_bytes.peek(write.lane)
        if average_s is not None:
            latest_s = average_s + _LATEST_WEIGHT * (latest_s - average_s)
        self._first_bytes.put(write.lane, latest_s)
        for key, until in write.points.items():
            self._readable.put(key, until)
        return self.forget_write(planned)

    def forget_write(self, planned: Planned) -> int | None:
        """Forget that the call writes; returns the writer waited for, None for none."""
        writer = id(planned.evidence.sent)
        write = self._writes.pop(writer, None)
        if write is None:
            return None
        for key in write.points:
            del self._writers[key]
        return writer

    def with_readable_prefix(self, planned: Planned, now: float) -> Planned:
        """The call with what it should read of calls whose answers have begun, but not ended."""
        call, expected = planned.evidence.sent, planned.evidence.expected
        for place in lookup_places(call) if len(self._readable) else ():
            tokens = expected.scale.tokens_of(call.ends[place])
            if tokens <= expected.tokens:
                break
            if any(self._is_readable(key, now) for key in entry_keys(call, place)):
                evidence = msgspec.structs.replace(
                    planned.evidence,
                    expected=expected.with_entry(call.regime, place, call.ends[place]),
                )
                return msgspec.structs.replace(planned, evidence=evidence)
        return planned

    def _longest_write(self, planned: Planned, now: float) -> tuple[int, int, int]:
        """The writer of the longest prefix that this call looks for; 0 for none.

        Besides, the blocks of that prefix, and its tokens beyond those that are cached already.
        """
        call, expected = planned.evidence.sent, planned.evidence.expected
        writer, end, there = 0, 0, expected.tokens
        for place in lookup_places(call):
            keys = entry_keys(call, place)
            if any(self._is_readable(key, now) for key in keys):
                there = max(there, expected.scale.tokens_of(call.ends[place]))
                break
            if not writer and (writer := next(filter(None, map(self._writers.get, keys)), 0)):
                end = place
        return writer, end, expected.scale.tokens_of(call.ends[end]) - there

    def _is_readable(self, key: int, now: float) -> bool:
        until = self._readable.peek(key)
        return until is not None and until >= now


def _new_entries(planned: Planned) -> Iterator[tuple[int, float]]:
    """The keys of a call's new entries, and the seconds they live.

    Those that add too little to what is there are not worth a wait.
    """
    evidence = planned.evidence
    call, expected = evidence.sent, evidence.expected
    for place, ttl, by in written_breakpoints(call, 0):
        more = expected.scale.tokens_of(call.ends[place]) - expected.tokens
        if more >= max(1, call.regime.least):
            yield call.entry_points[place] + by, lifetime_s(call.regime, ttl)


def _written_lifetime(call: SentCall, end: int) -> str:
    """The lifetime the call would write so many of its blocks with; "" for none."""
    places = written_breakpoints(call, 0)
    behind = [ttl or call.regime.usual_ttl for place, ttl, _ in places if place >= end]
    return max(behind, key=lambda ttl: lifetime_s(call.regime, ttl), default="")
