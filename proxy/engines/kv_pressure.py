"""Says if a profile's KV cache is too small, by preemptions and by calls that wait for it; pure.

A preempted call loses its KV blocks to others and is computed again. One number format less of the
cache holds twice the tokens, so preemptions are what makes fp8 worth its accuracy.
"""

from typing import Final

import msgspec

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.decode_speed import HALF_LIFE_S, SpeedSums, band_of
from proxy.engines.metrics_page import EngineMetrics
from proxy.engines.profiles import EngineProfile, KVDtype

#: Preemptions, and their share of calls, from which on the cache is too small.
MIN_PREEMPTIONS: Final = 10.0
MIN_PREEMPTED_SHARE: Final = 0.01
#: Readings of a busy engine, and the share of them in which calls wait while the cache is full.
MIN_READINGS: Final = 30.0
MIN_STARVED_SHARE: Final = 0.1
#: Fullness from which on a cache counts as full: vLLM preempts soon after it.
_FULL: Final = 0.9
#: Settings of speculation whose speeds are kept.
_MAX_SETTINGS: Final = 8
#: The formats to try, in this order: the cache holds twice the tokens of bf16 with the first two.
_SMALLER: Final = (KVDtype.FP8, KVDtype.INT8, KVDtype.INT4)


class KVCounters(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of counters: preempted sequences, and calls that left the queue."""

    preemptions: float
    calls: float


class KVSums(msgspec.Struct, kw_only=True):
    """Sums over the readings of a profile's replicas with one number format of the KV cache.

    Attributes:
        kv_dtype: The format.
        readings: Readings while calls ran.
        starved: Those in which calls waited while the cache was full.
        calls: Calls that began.
        preemptions: Times that a call lost its blocks.
        last_at: Time of the last reading, in seconds since the epoch.
        speeds: Output by the setting of speculation, and by the band of sequences at once.
    """

    kv_dtype: str = ""
    readings: float = 0.0
    starved: float = 0.0
    calls: float = 0.0
    preemptions: float = 0.0
    last_at: float = 0.0
    speeds: dict[str, dict[int, SpeedSums]] = {}

    @property
    def preempted_share(self) -> float:
        """Preemptions ÷ calls; 0 without calls."""
        return self.preemptions / self.calls if self.calls else 0.0

    @property
    def starved_share(self) -> float:
        """Part of the readings in which calls waited for room; 0 without readings."""
        return self.starved / self.readings if self.readings else 0.0


class KVPressure(KVSums, kw_only=True):
    """The sums of the present format, and those of the one before it.

    Attributes:
        previous: Sums of the format that ran before; None where no other one did.
    """

    previous: KVSums | None = None

    def add(self, kv_dtype: str, page: EngineMetrics, now: float) -> None:
        """Take in a page of a replica that runs with this format."""
        if kv_dtype != self.kv_dtype:
            self._switch(kv_dtype)
        if now > self.last_at:
            self._decay(0.5 ** ((now - self.last_at) / HALF_LIFE_S))
        self.last_at = max(now, self.last_at)
        if page.value("running"):
            self.readings += 1
            is_full = (page.value("kv_usage") or 0.0) >= _FULL
            self.starved += is_full and bool(page.value("waiting"))

    def add_growth(self, before: KVCounters, after: KVCounters) -> None:
        """Take in the growth of counters between two pages of one process."""
        self.calls += max(0.0, after.calls - before.calls)
        self.preemptions += max(0.0, after.preemptions - before.preemptions)

    def add_output(self, setting: str, sequences: float, tokens: float, decode_s: float) -> None:
        """Take in what a replica with the present format made between two pages.

        Args:
            setting: Its speculation.
            sequences: Sequences decoded at once, on average.
            tokens: Output tokens.
            decode_s: Seconds of decode, of all sequences added up.
        """
        if tokens <= 0 or decode_s <= 0 or sequences <= 0:
            return
        if setting not in self.speeds and len(self.speeds) >= _MAX_SETTINGS:
            made = {name: _samples(bands) for name, bands in self.speeds.items()}
            del self.speeds[min(made, key=lambda name: made[name])]
        bands = self.speeds.setdefault(setting, {})
        bands.setdefault(band_of(sequences), SpeedSums()).add_output(tokens, decode_s)

    def sums_of(self, kv_dtype: str) -> KVSums | None:
        """The sums of a format; None where it did not run, or more than one change ago."""
        if self.kv_dtype == kv_dtype:
            return self
        is_previous = self.previous is not None and self.previous.kv_dtype == kv_dtype
        return self.previous if is_previous else None

    def _switch(self, kv_dtype: str) -> None:
        """Make another format the present one; the two change places while replicas are replaced.

        A format that served no call does not displace the one before it.
        """
        fields = KVSums.__struct_fields__
        left = KVSums(**{name: getattr(self, name) for name in fields})
        found = self.sums_of(kv_dtype)
        taken = KVSums(kv_dtype=kv_dtype) if found is None else found
        for name in fields:
            setattr(self, name, getattr(taken, name))
        if left.readings or left.calls:
            self.previous = left
        elif found is not None:
            self.previous = None

    def _decay(self, factor: float) -> None:
        self.readings *= factor
        self.starved *= factor
        self.calls *= factor
        self.preemptions *= factor
        for bands in self.speeds.values():
            for band in bands.values():
                band.scale(factor)


def _samples(bands: dict[int, SpeedSums]) -> float:
    return sum(each.samples for each in bands.values())


def kv_counters(page: EngineMetrics) -> KVCounters | None:
    """The counters of a page; None where the engine does not count preemptions."""
    preemptions, queued = page.value("preemptions"), page.histograms.get("queue_seconds")
    if preemptions is None or queued is None:
        return None
    return KVCounters(preemptions=preemptions, calls=queued[1])


def kv_advice(profile: EngineProfile, pressure: KVPressure) -> str:
    """The reason that the KV cache is too small, and the remedy; "" where it is not known to be."""
    if pressure.kv_dtype != str(profile.kv_dtype):
        return ""  # the sums are of another format
    if pressure.preemptions >= MIN_PREEMPTIONS and pressure.preempted_share >= MIN_PREEMPTED_SHARE:
        why = (
            f"{pressure.preempted_share:.1%} of calls were preempted for lack of KV memory and"
            " computed again"
        )
    elif pressure.readings >= MIN_READINGS and pressure.starved_share >= MIN_STARVED_SHARE:
        why = f"calls waited for KV memory in {pressure.starved_share:.0%} of readings"
    else:
        return ""
    return f"The KV cache is too small: {why}. {_remedy(profile)}"


def _remedy(profile: EngineProfile) -> str:
    known = ADAPTERS[profile.engine].kv_dtypes
    more = "Lower max_sequences or max_model_len, set kv_offload_gb, or add a replica."
    if profile.kv_dtype is not KVDtype.AUTO:
        return f"It is {profile.kv_dtype} already. {more}"
    smaller = next((each for each in _SMALLER if each in known), None)
    if smaller is None:
        return more
    return (
        f'Write kv_dtype = "{smaller}": it holds twice the tokens. Check answers before rollout.'
        f" Or: {more[0].lower()}{more[1:]}"
    )
