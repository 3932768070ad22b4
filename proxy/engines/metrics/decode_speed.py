"""Speeds of decode by samples of an engine's counters, and bands of sequences at once; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import msgspec

#: Seconds after which a sample weighs half, where nothing newer takes its place.
HALF_LIFE_S: Final = 7 * 86_400.0
#: The same of a setting at a number of sequences at once that is measured on: a change is seen
#: within an hour, after which what was before weighs a sixteenth.
RUNNING_HALF_LIFE_S: Final = 900.0
#: Upper ends of the bands of sequences at once; the last one is for all above it, too.
BANDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024)
#: Samples with output from which on a speed is taken for one.
MIN_SAMPLES: Final = 10
#: Samples from which on their likeness to those before can be told, and the highest that is taken.
_MIN_LIKENESS_SAMPLES: Final = 4
_MAX_CORRELATION: Final = 0.9
#: Standard errors on each side of an estimate, within which 95 of 100 values lie.
Z_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class EstimateInterval:
    """An estimate, with the ends between which the value lies in 95 of 100 cases."""

    low: float
    value: float
    high: float


class SpeedSums(msgspec.Struct, kw_only=True):
    """Sums over samples of decode: their number, output tokens and seconds, and tokens² ÷ seconds.

    The seconds are of all sequences added up. Of pairs of samples that follow each other, their
    number and the products of their distances from the mean are kept, and the last speed: where a
    machine is slow for a while, many samples say the same thing.
    """

    samples: float = 0.0
    tokens: float = 0.0
    decode_s: float = 0.0
    rate_squares: float = 0.0
    pairs: float = 0.0
    pair_products: float = 0.0
    last_rate: float = 0.0

    def add_output(self, tokens: float, decode_s: float) -> None:
        """Add a sample that has output and decode time."""
        self.samples += 1
        self.tokens += tokens
        self.decode_s += decode_s
        rate, mean = tokens / decode_s, self.tokens / self.decode_s
        self.rate_squares += tokens * rate
        if self.last_rate:
            self.pairs += 1
            self.pair_products += (rate - mean) * (self.last_rate - mean)
        self.last_rate = rate

    def scale(self, factor: float) -> None:
        """Weigh all of it by a factor."""
        for name in self.__struct_fields__:
            if name != "last_rate":
                setattr(self, name, getattr(self, name) * factor)

    def tokens_per_s(self, min_samples: int = MIN_SAMPLES) -> EstimateInterval | None:
        """Tokens per second of one sequence; None where samples are too few."""
        if self.samples < min_samples or not self.decode_s:
            return None
        mean = self.tokens / self.decode_s
        spread = max(self.rate_squares / self.decode_s - mean * mean, 0.0)
        margin = Z_95 * sqrt(spread * self._likeness(spread) / self.samples)
        return EstimateInterval(max(mean - margin, 0.0), mean, mean + margin)

    def _likeness(self, spread: float) -> float:
        """Number of samples that say as much as one would that is independent of those before.

        It is that of a first-order autoregression, whose estimate is too low by (1 + 3r) / n.

        Source: Kendall, Note on bias in the estimation of autocorrelation, 1954.
        """
        if not self.pairs or not spread or self.samples <= _MIN_LIKENESS_SAMPLES:
            return 1.0
        seen = self.pair_products / self.pairs / spread
        likely = (self.samples * seen + 1.0) / (self.samples - 3.0)
        correlation = min(max(likely, 0.0), _MAX_CORRELATION)
        return (1.0 + correlation) / (1.0 - correlation)


def speed_ratio(
    speed: EstimateInterval | None, base: EstimateInterval | None
) -> EstimateInterval | None:
    """A speed ÷ another; None where either is not known."""
    if speed is None or base is None or base.low <= 0:
        return None
    return EstimateInterval(speed.low / base.high, speed.value / base.value, speed.high / base.low)


def combined_speed_up(
    parts: Sequence[tuple[float, EstimateInterval, EstimateInterval]],
) -> EstimateInterval | None:
    """Time of the same tokens without a setting ÷ with it; None where a speed without may be 0.

    Args:
        parts: Tokens of each load, and tokens per second at it with the setting and without.
    """
    if not parts or any(base.low <= 0 for _, _, base in parts):
        return None
    is_low_known = all(speed.low > 0 for _, speed, _ in parts)
    return EstimateInterval(
        sum(tokens / base.high for tokens, _, base in parts)
        / sum(tokens / speed.low for tokens, speed, _ in parts)
        if is_low_known
        else 0.0,
        sum(tokens / base.value for tokens, _, base in parts)
        / sum(tokens / speed.value for tokens, speed, _ in parts),
        sum(tokens / base.low for tokens, _, base in parts)
        / sum(tokens / speed.high for tokens, speed, _ in parts),
    )


def band_text(end: int) -> str:
    """A band of sequences at once in words: "1", "3 to 4", or "513 or more"."""
    index = BANDS.index(end)
    if not index:
        return str(end)
    begin = BANDS[index - 1] + 1
    if end == BANDS[-1]:
        return f"{begin} or more"
    return str(end) if begin == end else f"{begin} to {end}"


def band_of(sequences: float) -> int:
    """The upper end of the band of so many sequences at once, on average."""
    return next((end for end in BANDS if sequences <= end + 0.5), BANDS[-1])
