"""A replica as routing sees it: where it is, and how busy it is."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """An engine's own metrics, as last read.

    Attributes:
        at: When they were read, in seconds of the clock that decisions are made by.
        running: Calls in its batch (``vllm:num_requests_running``).
        waiting: Calls in its queue (``vllm:num_requests_waiting``).
        kv_usage: Share of the KV cache that running calls take (``vllm:kv_cache_usage_perc``).
        own: Calls of this gateway among those that run and wait.
    """

    at: float
    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    own: int = 0

    def other_calls(self) -> tuple[int, int]:
        """Calls of other gateways that run and that wait there."""
        other_calls = max(0, self.running + self.waiting - self.own)
        waiting = min(self.waiting, other_calls)
        return other_calls - waiting, waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCandidate:
    """A replica that may get the call.

    Attributes:
        name: Unique, and the same in all gateways, such as its base URL.
        region: Where it runs; "" where unknown.
        is_healthy: False if no call may go there.
        cache_tokens: Room of its prefix cache, from its own cache config, such as
            ``num_gpu_blocks`` x ``block_size`` of ``vllm:cache_config_info``.
        prefill_tokens_per_s: As measured; 0 where unknown.
        slots: Calls that it runs at once; 0 where unknown.
        round_trip_s: Seconds to it and back.
        load: Its last report; None where it has none.
    """

    name: str
    region: str = ""
    is_healthy: bool = True
    cache_tokens: int = 500_000
    prefill_tokens_per_s: float = 0.0
    slots: int = 0
    round_trip_s: float = 0.0
    load: LoadReport | None = None


class CallsInFlight:
    """The calls that this gateway has sent to one replica; its reports show them too late."""

    def __init__(self) -> None:
        self.calls = 0
        self.prefill_tokens = 0
        self._due: dict[object, float] = {}
        self._first_due = inf

    def begin(self, call: object, tokens: int, due: float) -> None:
        """A call that has to read so many tokens goes there; it should begin to answer then."""
        self.calls += 1
        self.prefill_tokens += tokens
        self._due[call] = due
        self._first_due = min(self._first_due, due)

    def note_read(self, call: object, tokens: int) -> None:
        """A call's prompt is read, or the call is over."""
        due = self._due.pop(call, None)
        if due is None:
            return
        self.prefill_tokens -= tokens
        if due <= self._first_due:  # kept here, as decisions look at each replica
            self._first_due = min(self._due.values(), default=inf)

    def overdue_s(self, now: float) -> float:
        """Seconds by which the most overdue call is late: the next would wait as long."""
        return max(0.0, now - self._first_due)
