"""Evidence of speculation on one engine profile: counters by setting and by concurrency; pure.

A sample is the difference of an engine's counters over some seconds. Samples are added up by the
setting that ran and by how many sequences were decoded at once, and older ones weigh less.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Final

import msgspec

#: Days after which a sample weighs half.
HALF_LIFE_S: Final = 7 * 86_400.0
#: Upper ends of the bands of concurrency.
BANDS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
#: Drafts from which on an acceptance rate is taken for one.
MIN_DRAFTS: Final = 200
#: Samples with output from which on a speed is taken for one.
MIN_SAMPLES: Final = 10
#: Draft steps of one answer are alike, so that they count as this many times fewer. Assumed.
_DESIGN_EFFECT: Final = 4.0
_Z: Final = 1.96
_MAX_SETTINGS: Final = 32
NO_SPECULATION: Final = "none"
#: Setting of an attached engine that drafts by a method that its profile does not name.
UNKNOWN_SETTING: Final = "unknown"


@dataclass(frozen=True, slots=True)
class EstimateInterval:
    """An estimate, with the ends between which the value lies in 95 of 100 cases."""

    low: float
    value: float
    high: float


class SpeculationSample(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a replica in some seconds.

    Attributes:
        running: Sequences decoded at once, on average.
        tokens: Output tokens.
        decode_s: Seconds of decode, of all sequences added up.
        drafts: Drafts, one per sequence and step.
        draft_tokens: Tokens in them.
        accepted: Those that the model accepted.
        full_drafts: Drafts of which every token was accepted; None where it is not known.
    """

    running: float
    tokens: float
    decode_s: float
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: float = 0.0
    full_drafts: float | None = None


class SpeculationCounters(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of an engine's counters, named as those of a sample."""

    tokens: float
    decode_s: float
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: float = 0.0
    full_drafts: float = 0.0


class EvidenceBand(msgspec.Struct, kw_only=True):
    """Sums over the samples of one band of concurrency."""

    samples: float = 0.0
    running: float = 0.0
    tokens: float = 0.0
    decode_s: float = 0.0
    rate_squares: float = 0.0
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: float = 0.0
    full_drafts: float = 0.0

    @property
    def concurrency(self) -> float:
        """Sequences decoded at once, on average."""
        return self.running / self.samples if self.samples else 0.0

    def add(self, sample: SpeculationSample) -> None:
        """Add a sample that has output and decode time."""
        rate = sample.tokens / sample.decode_s
        self.samples += 1
        self.running += sample.running
        self.tokens += sample.tokens
        self.decode_s += sample.decode_s
        self.rate_squares += sample.decode_s * rate * rate
        self.drafts += sample.drafts
        self.draft_tokens += sample.draft_tokens
        self.accepted += sample.accepted
        self.full_drafts += _full_drafts(sample)

    def scale(self, factor: float) -> None:
        """Weigh all of it by a factor."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) * factor)

    def tokens_per_s(self) -> EstimateInterval | None:
        """Tokens per second of one sequence; None where samples are too few."""
        if self.samples < MIN_SAMPLES or not self.decode_s:
            return None
        mean = self.tokens / self.decode_s
        spread = max(self.rate_squares / self.decode_s - mean * mean, 0.0)
        margin = _Z * sqrt(spread / self.samples)
        return EstimateInterval(max(mean - margin, 0.0), mean, mean + margin)


class SettingEvidence(msgspec.Struct, kw_only=True):
    """The evidence of one setting, by the upper end of each band; 0 is above all of them."""

    bands: dict[int, EvidenceBand] = {}
    last_at: float = 0.0

    def totals(self) -> EvidenceBand:
        """The sums of all bands."""
        total = EvidenceBand()
        for band in self.bands.values():
            for name in total.__struct_fields__:
                setattr(total, name, getattr(total, name) + getattr(band, name))
        return total


class SpeculationEvidence(msgspec.Struct, kw_only=True):
    """The evidence of a profile, by the name of the setting, such as ``ngram:4`` or ``none``."""

    settings: dict[str, SettingEvidence] = {}
    decayed_at: float = 0.0

    def add(self, setting: str, sample: SpeculationSample, now: float) -> None:
        """Add what a replica with this setting did until now."""
        if sample.tokens <= 0 or sample.decode_s <= 0 or sample.running <= 0:
            return
        self._decay(now)
        found = self.settings.setdefault(setting, SettingEvidence())
        found.bands.setdefault(_band(sample.running), EvidenceBand()).add(sample)
        found.last_at = now
        while len(self.settings) > _MAX_SETTINGS:
            del self.settings[min(self.settings, key=lambda name: self.settings[name].last_at)]

    def busiest_band(self) -> int:
        """The band in which most tokens were made; 1 where there are none."""
        made: dict[int, float] = {}
        for setting in self.settings.values():
            for end, band in setting.bands.items():
                made[end] = made.get(end, 0.0) + band.tokens
        return max(made, key=lambda end: made[end], default=1)

    def _decay(self, now: float) -> None:
        """Halve what is older by a half-life; in steps of an hour."""
        age = now - self.decayed_at
        if self.decayed_at and age < 3_600.0:
            return
        if self.decayed_at:
            factor = 0.5 ** (age / HALF_LIFE_S)
            for setting in self.settings.values():
                for band in setting.bands.values():
                    band.scale(factor)
        self.decayed_at = now


def acceptance(drafts: float, accepted: float, full_drafts: float) -> EstimateInterval | None:
    """Probability that a draft token is accepted if those before it were; None without drafts.

    Each draft that was not accepted in full ended at one token that was refused.
    """
    trials = accepted + max(drafts - full_drafts, 0.0)
    return None if trials <= 0 else _wilson(accepted / trials, trials / _DESIGN_EFFECT)


def acceptance_by_rate(
    accepted: float, draft_tokens: float, depth: float
) -> EstimateInterval | None:
    """The same where only the accepted share of draft tokens and their depth are known."""
    if draft_tokens <= 0 or depth <= 0:
        return None
    share, low, high = min(accepted / draft_tokens, 1.0), 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        expected = sum(middle**n for n in range(1, round(depth) + 1)) / max(round(depth), 1)
        low, high = (middle, high) if expected < share else (low, middle)
    return _wilson((low + high) / 2, draft_tokens / depth / _DESIGN_EFFECT)


def sample_between(
    before: SpeculationCounters, after: SpeculationCounters, running: float
) -> SpeculationSample | None:
    """The sample between two readings; None where the engine was restarted between them."""
    fields = before.__struct_fields__
    difference = {name: getattr(after, name) - getattr(before, name) for name in fields}
    if any(value < 0 for value in difference.values()):
        return None
    return SpeculationSample(running=running, **difference)


def _full_drafts(sample: SpeculationSample) -> float:
    """Drafts accepted in full; where nobody counts them, as many as the mean length suggests."""
    if sample.full_drafts is not None:
        return sample.full_drafts
    if sample.drafts <= 0 or sample.draft_tokens <= 0:
        return 0.0
    depth = sample.draft_tokens / sample.drafts
    found = acceptance_by_rate(sample.accepted, sample.draft_tokens, depth)
    return sample.drafts * found.value ** round(depth) if found else 0.0


def _band(running: float) -> int:
    return next((end for end in BANDS if running <= end + 0.5), 0)


def _wilson(share: float, trials: float) -> EstimateInterval:
    """The Wilson score interval of a share."""
    squared = _Z * _Z
    middle = (share + squared / (2 * trials)) / (1 + squared / trials)
    margin = (
        _Z
        / (1 + squared / trials)
        * sqrt(share * (1 - share) / trials + squared / (4 * trials * trials))
    )
    return EstimateInterval(max(middle - margin, 0.0), share, min(middle + margin, 1.0))
