"""Says if a profile's KV cache is too small, by preemptions and by calls that wait for it; pure.

A preempted call loses its KV blocks to others and is computed again. One number format less of the
cache holds twice the tokens, so preemptions are what makes fp8 worth its accuracy.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.metrics.decode_speed import HALF_LIFE_S
from proxy.engines.metrics.metrics_page import EngineMetrics
from proxy.engines.profiles import EngineProfile, KVDtype

#: Preemptions, and their share of calls, from which on the cache is too small.
MIN_PREEMPTIONS: Final = 10.0
MIN_PREEMPTED_SHARE: Final = 0.01
#: Readings of a busy engine, and the share of them in which calls wait while the cache is full.
MIN_READINGS: Final = 30.0
MIN_STARVED_SHARE: Final = 0.1
#: Fullness from which on a cache counts as full: vLLM preempts soon after it.
_FULL: Final = 0.9
#: The formats to try, in this order: the cache holds twice the tokens of bf16 with the first two.
_SMALLER: Final = (KVDtype.FP8, KVDtype.INT8, KVDtype.INT4)


class KVCounters(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of counters: preempted sequences, and calls that left the queue."""

    preemptions: float
    calls: float


class KVSums(msgspec.Struct, kw_only=True):
    """Sums over a profile's replicas while they run with one number format of the KV cache.

    Attributes:
        readings: Readings while calls ran.
        starved: Those in which calls waited while the cache was full.
        preemptions: Times that a call lost its blocks.
        decode_s: Seconds of decode, of all sequences added up.
        last_at: Time of the last reading, in seconds since the epoch.
    """

    readings: float = 0.0
    starved: float = 0.0
    calls: float = 0.0
    preemptions: float = 0.0
    tokens: float = 0.0
    decode_s: float = 0.0
    last_at: float = 0.0

    @property
    def preempted_share(self) -> float:
        """Preemptions ÷ calls; 0 without calls."""
        return self.preemptions / self.calls if self.calls else 0.0

    @property
    def starved_share(self) -> float:
        """Part of the readings in which calls waited for room; 0 without readings."""
        return self.starved / self.readings if self.readings else 0.0

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second of one sequence; None where it is not known."""
        return self.tokens / self.decode_s if self.decode_s else None

    def add(self, page: EngineMetrics, now: float) -> None:
        """Take in a page of a replica; what is there weighs less by the time since the last one."""
        factor = 0.5 ** (max(now - self.last_at, 0.0) / HALF_LIFE_S)
        for name in self.__struct_fields__[:-1]:
            setattr(self, name, getattr(self, name) * factor)
        self.last_at = max(now, self.last_at)
        if page.value("running"):
            self.readings += 1
            is_full = (page.value("kv_usage") or 0.0) >= _FULL
            self.starved += is_full and bool(page.value("waiting"))

    def add_growth(self, before: KVCounters, after: KVCounters) -> None:
        """Take in the growth of counters between two pages of one process."""
        self.calls += max(0.0, after.calls - before.calls)
        self.preemptions += max(0.0, after.preemptions - before.preemptions)


def kv_counters(page: EngineMetrics) -> KVCounters | None:
    """The counters of a page; None where the engine does not count preemptions."""
    preemptions, queued = page.value("preemptions"), page.histograms.get("queue_seconds")
    if preemptions is None or queued is None:
        return None
    return KVCounters(preemptions=preemptions, calls=queued[1])


def kv_advice(profile: EngineProfile, sums_by_format: Mapping[str, KVSums]) -> str:
    """The reason that the KV cache is too small, and the remedy; "" where it is not known to be."""
    sums = sums_by_format.get(profile.kv_dtype, KVSums())
    if sums.preemptions >= MIN_PREEMPTIONS and sums.preempted_share >= MIN_PREEMPTED_SHARE:
        why = (
            f"{sums.preempted_share:.1%} of calls were preempted for lack of KV memory and"
            " computed again"
        )
    elif sums.readings >= MIN_READINGS and sums.starved_share >= MIN_STARVED_SHARE:
        why = f"calls waited for KV memory in {sums.starved_share:.0%} of readings"
    else:
        return ""
    return f"The KV cache is too small: {why}. {_remedy(profile)}"


def _remedy(profile: EngineProfile) -> str:
    formats = ADAPTERS[profile.engine].kv_dtypes
    more = "Lower max_sequences or max_model_len, set kv_offload_gb, or add a replica."
    if profile.kv_dtype is not KVDtype.AUTO:
        return f"It is {profile.kv_dtype} already. {more}"
    smaller = next((kv_dtype for kv_dtype in _SMALLER if kv_dtype in formats), None)
    if smaller is None:
        return more
    return (
        f'Write kv_dtype = "{smaller}": it holds twice the tokens. Check answers before rollout.'
        f" Or: {more[0].lower()}{more[1:]}"
    )


def describe_formats(sums_by_format: Mapping[str, KVSums]) -> Iterator[dict[str, object]]:
    """The formats that ran, the latest last, as plain values for tables and JSON."""
    for kv_dtype, sums in sorted(sums_by_format.items(), key=lambda entry: entry[1].last_at):
        speed = sums.tokens_per_s
        yield {
            "kv_dtype": kv_dtype,
            "calls": round(sums.calls),
            "preemptions": round(sums.preemptions),
            "preempted_share": round(sums.preempted_share, 4),
            "readings": round(sums.readings),
            "starved_share": round(sums.starved_share, 4),
            "tokens_per_s": None if speed is None else round(speed, 2),
        }
