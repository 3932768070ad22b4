"""Divides what a replica of an engine costs among the calls that it serves, exactly.

A replica is paid by the hour while it runs, whether it works or not. Each instant of it belongs to
the calls in flight at that instant, in equal parts; an instant without a call is idle. Where the
engine reports how long it worked on a call, the call pays for that time alone, counted back from
its end: what it paid while it waited in the queue goes to the calls still in flight, for they were
worked on.

Time is whole nanoseconds, and what cannot be divided is carried to the next instant. So the shares
of all calls and the idle time add up to the replica's time, to the nanosecond, and their prices to
its bill, to the nano-dollar.

A virtual clock makes a call's share one subtraction: it runs at 1/n of real time while n calls are
in flight. Source: generalised processor sharing (Parekh and Gallager, 1993).
"""

from bisect import bisect_right
from typing import Final

import msgspec

NS_PER_S: Final = 1_000_000_000
_NS_PER_HOUR: Final = 3600 * NS_PER_S
#: Readings of the virtual clock that are kept to look back on; half of them go beyond that.
_MAX_READINGS: Final = 4096


class ReplicaPrice(msgspec.Struct, frozen=True, kw_only=True):
    """The price of a replica by the hour.

    Attributes:
        gpus: Its GPUs; 0 where it runs on processors alone.
        gpu_hour_nanos: Nano-dollars of each for an hour; without GPUs, of the machine. None where
            it is unknown.
    """

    gpus: int = 1
    gpu_hour_nanos: int | None = None

    @property
    def units(self) -> int:
        """Its GPUs, or the one machine without any."""
        return max(self.gpus, 1)

    @property
    def hour_nanos(self) -> int | None:
        """Nano-dollars of an hour; None where unknown."""
        return None if self.gpu_hour_nanos is None else self.gpu_hour_nanos * self.units


class CostShare(msgspec.Struct, frozen=True, kw_only=True):
    """A call's share of a replica.

    Attributes:
        ns: Nanoseconds of the replica.
        nanos: Their price in nano-dollars; None where it is unknown.
        gpu_seconds: GPU seconds in them; without GPUs, seconds of the machine.
    """

    ns: int
    nanos: int | None
    gpu_seconds: float


class ReplicaTimeTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a replica and its price, so far.

    Attributes:
        used_ns: Nanoseconds that calls were charged for.
        idle_ns: Nanoseconds without a call.
        open_ns: Nanoseconds of calls still in flight.
        used_nanos: Nano-dollars that calls were charged.
        idle_nanos: Nano-dollars of the time without a call.
    """

    used_ns: int
    idle_ns: int
    open_ns: int
    used_nanos: int
    idle_nanos: int


class CallInFlight:
    """A call that a replica serves; its share is settled once."""

    __slots__ = ("begun_ns", "is_settled", "virtual_ns")

    def __init__(self, begun_ns: int, virtual_ns: int) -> None:
        self.begun_ns = begun_ns
        self.virtual_ns = virtual_ns
        self.is_settled = False


class SharedReplica:
    """One replica's time, divided among its calls.

    Args:
        now: Seconds of a clock that goes forward; it is paid from now on.
    """

    def __init__(self, price: ReplicaPrice, now: float, *, is_running: bool = True) -> None:
        self.price = price
        self._is_running = is_running
        self._at = _ns(now)
        self._virtual = self._carry = self._remainder = self._in_flight = 0
        self._used_ns = self._idle_ns = self._used_nanos = self._idle_nanos = 0
        self._open_ns = 0
        self._times = [self._at]
        self._readings = [0]

    def begin(self, now: float) -> CallInFlight:
        """A call that is sent to it now."""
        self._advance(now)
        if not self._in_flight:
            self._times, self._readings = [self._at], [self._virtual]
        self._in_flight += 1
        return CallInFlight(self._at, self._virtual)

    def settle(self, call: CallInFlight, now: float, worked_s: float | None = None) -> CostShare:
        """The share of a call that ends now; settle each once.

        Args:
            worked_s: Seconds that the engine worked on it; None where unknown.
        """
        whole = self._end(call, now)
        share = whole
        if worked_s is not None:
            since = max(self._at - _ns(worked_s), call.begun_ns)
            share = min(max(self._virtual - self._virtual_at(since), 0), whole)
        self._give_back(whole - share)
        self._used_ns += share
        nanos = self._price(share)
        self._used_nanos += nanos or 0
        return CostShare(ns=share, nanos=nanos, gpu_seconds=share * self.price.units / NS_PER_S)

    def release(self, call: CallInFlight, now: float) -> None:
        """End a call that pays nothing: its share goes to the others, or is idle time."""
        self._give_back(self._end(call, now))

    def totals(self, now: float) -> ReplicaTimeTotals:
        """The totals up to now; their times add up to the time that it ran."""
        self._advance(now)
        return ReplicaTimeTotals(
            used_ns=self._used_ns,
            idle_ns=self._idle_ns,
            open_ns=self._open_ns + self._carry,
            used_nanos=self._used_nanos,
            idle_nanos=self._idle_nanos,
        )

    def change_price(self, price: ReplicaPrice, now: float) -> None:
        """Price what is settled from now on otherwise."""
        self._advance(now)
        self.price = price

    def set_running(self, *, is_running: bool, now: float) -> None:
        """Pay for idle time from now on only if it runs; calls pay for theirs in any case."""
        self._advance(now)
        self._is_running = is_running

    def _advance(self, now: float) -> None:
        """Divide the time since the last event."""
        time_ns = max(_ns(now), self._at)
        pool = time_ns - self._at + self._carry
        self._at = time_ns
        if not self._in_flight:
            self._add_idle(pool)
            return
        part, self._carry = divmod(pool, self._in_flight)
        self._virtual += part
        self._open_ns += part * self._in_flight
        self._note_reading()

    def _end(self, call: CallInFlight, now: float) -> int:
        """Take a call out of flight; all that it was given."""
        self._advance(now)
        if call.is_settled:
            raise RuntimeError("a call's share was settled twice")
        call.is_settled = True
        self._in_flight -= 1
        whole = self._virtual - call.virtual_ns
        self._open_ns -= whole
        return whole

    def _give_back(self, ns: int) -> None:
        """Let others have this time: those in flight, else it was idle."""
        self._carry += ns
        if not self._in_flight:
            self._add_idle(self._carry)

    def _add_idle(self, ns: int) -> None:
        self._carry = 0
        if not self._is_running:
            return
        self._idle_ns += ns
        self._idle_nanos += self._price(ns) or 0

    def _price(self, ns: int) -> int | None:
        """The price of settled time; what is below a nano-dollar is carried to the next."""
        hour = self.price.hour_nanos
        if hour is None:
            return None
        nanos, self._remainder = divmod(ns * hour + self._remainder, _NS_PER_HOUR)
        return nanos

    def _note_reading(self) -> None:
        if self._times[-1] == self._at:
            self._readings[-1] = self._virtual
            return
        if len(self._times) >= _MAX_READINGS:
            self._times, self._readings = self._times[::2], self._readings[::2]
        self._times.append(self._at)
        self._readings.append(self._virtual)

    def _virtual_at(self, time_ns: int) -> int:
        """The virtual clock at a moment in the past, between two readings in proportion."""
        after = bisect_right(self._times, time_ns)
        if after in {0, len(self._times)}:
            return self._readings[min(after, len(self._times) - 1)]
        start, end = self._times[after - 1 : after + 1]
        low, high = self._readings[after - 1 : after + 1]
        return low + (high - low) * (time_ns - start) // (end - start)


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)
