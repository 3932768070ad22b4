"""Evidence of speculation on one engine profile: counters by setting and by concurrency; pure.

A sample is the difference of an engine's counters over some seconds. Samples are added up by the
setting that ran and by how many sequences were decoded at once. Where new ones come, older ones
weigh half after a quarter of an hour; where none come, what was measured fades over weeks.
"""

from typing import Final

import msgspec

from proxy.engines.metrics.decode_speed import (
    HALF_LIFE_S,
    RUNNING_HALF_LIFE_S,
    SpeedSums,
    band_of,
)

#: Drafts from which on a setting counts as tried.
MIN_DRAFTS: Final = 200
_MAX_SETTINGS: Final = 32
#: Seconds between two samples of a band that count as measured on.
_MAX_PAUSE_S: Final = 60.0
NO_SPECULATION: Final = "none"
#: Setting of an attached engine that drafts by a method that its profile does not name.
UNKNOWN_SETTING: Final = "unknown"


class SpeculationCounters(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of an engine's counters, or their growth.

    Attributes:
        decode_s: Seconds of decode, of all sequences added up.
        drafts: Drafts, one per sequence and step.
        accepted: Draft tokens that the model accepted.
    """

    tokens: float
    decode_s: float
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: float = 0.0


class SpeculationSample(SpeculationCounters, frozen=True, kw_only=True):
    """The work of a replica in some seconds.

    Attributes:
        running: Sequences decoded at once, on average.
    """

    running: float


class EvidenceBand(SpeedSums, kw_only=True):
    """Sums over the samples of one band of sequences at once, with those of a sample's fields."""

    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: float = 0.0

    def add(self, sample: SpeculationSample) -> None:
        """Add a sample that has output and decode time."""
        self.add_output(sample.tokens, sample.decode_s)
        self.drafts += sample.drafts
        self.draft_tokens += sample.draft_tokens
        self.accepted += sample.accepted


class SettingEvidence(msgspec.Struct, kw_only=True):
    """The evidence of one setting, and the time of its last sample, by the upper end of each band.

    Times are in seconds since the epoch.
    """

    bands: dict[int, EvidenceBand] = {}
    band_times: dict[int, float] = {}
    last_at: float = 0.0

    def add(self, sample: SpeculationSample, now: float) -> None:
        """Add a sample to its band; what is there weighs less by the time since the last one."""
        end = band_of(sample.running)
        band = self.bands.setdefault(end, EvidenceBand())
        pause = min(max(now - self.band_times.get(end, now), 0.0), _MAX_PAUSE_S)
        band.scale(0.5 ** (pause / RUNNING_HALF_LIFE_S))
        band.add(sample)
        self.band_times[end] = self.last_at = now

    def totals(self) -> EvidenceBand:
        """The sums of all bands; those without a sample of late weigh less."""
        total = EvidenceBand()
        for end, band in self.bands.items():
            age = self.last_at - self.band_times.get(end, self.last_at)
            weight = 0.5 ** (max(age, 0.0) / RUNNING_HALF_LIFE_S)
            for name in total.__struct_fields__:
                setattr(total, name, getattr(total, name) + weight * getattr(band, name))
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
        self.settings.setdefault(setting, SettingEvidence()).add(sample, now)
        while len(self.settings) > _MAX_SETTINGS:
            del self.settings[min(self.settings, key=lambda name: self.settings[name].last_at)]

    def recent_tokens(self) -> dict[int, float]:
        """Tokens made of late in each band: what is an hour older weighs a sixteenth."""
        newest = max((setting.last_at for setting in self.settings.values()), default=0.0)
        tokens: dict[int, float] = {}
        for setting in self.settings.values():
            for end, band in setting.bands.items():
                age = newest - setting.band_times.get(end, setting.last_at)
                weight = 0.5 ** (max(age, 0.0) / RUNNING_HALF_LIFE_S)
                tokens[end] = tokens.get(end, 0.0) + weight * band.tokens
        return tokens

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


def sample_between(
    before: SpeculationCounters, after: SpeculationCounters, running: float
) -> SpeculationSample | None:
    """The sample between two readings; None where the engine was restarted between them."""
    fields = before.__struct_fields__
    difference = {name: getattr(after, name) - getattr(before, name) for name in fields}
    if any(value < 0 for value in difference.values()):
        return None
    return SpeculationSample(running=running, **difference)
