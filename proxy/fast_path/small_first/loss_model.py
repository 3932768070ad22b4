"""Predicts the loss of sending a call to the small model, from the calls that were graded so far.

A ridge regression on the traits, the record of the call's feature and its nearest graded calls. The
record of a feature is shrunk towards that of all: by as much as the features' means differ less
than chance lets them (empirical Bayes). All sums are kept, so a graded call costs one update.
"""

from collections.abc import Iterable
from operator import mul, sub
from typing import Final

import msgspec

from proxy.fast_path.small_first.call_traits import TRAIT_NAMES, CallTraits, similarity
from proxy.fast_path.small_first.judge_channel import JudgeError, Verdict, unbiased_loss

#: Graded calls before anything is predicted.
MIN_GRADED: Final = 30
#: Once so many count, all before count half: what changed is forgotten.
_MAX_WEIGHT: Final = 4_000.0
#: Bounds the time of a fit, which holds up the event loop: 0.9 ms.
_MAX_FEATURES: Final = 128
_MAX_NEIGHBOURS: Final = 200
_MIN_SIMILARITY: Final = 0.35
#: Graded calls as which a trait's prior of having no part counts.
_RIDGE: Final = 40.0
_SIZE: Final = len(TRAIT_NAMES) + 1
#: A feature's mean is taken to differ by at least so much (variance), for all that is known.
_LEAST_SPREAD: Final = 0.0004


class _FeatureRecord(msgspec.Struct):
    """The graded calls of a feature: their number, sum of losses and sums of traits."""

    count: float = 0.0
    loss: float = 0.0
    sums: list[float] = msgspec.field(default_factory=lambda: [0.0] * _SIZE)
    neighbours: list[tuple[int, float]] = []
    offset: float = 0.0


class LossModel(msgspec.Struct):
    """The sums of all graded calls, and what was last fitted to them."""

    count: float = 0.0
    squares: float = 0.0
    products: list[list[float]] = msgspec.field(
        default_factory=lambda: [[0.0] * _SIZE for _ in range(_SIZE)]
    )
    by_loss: list[float] = msgspec.field(default_factory=lambda: [0.0] * _SIZE)
    features: dict[str, _FeatureRecord] = {}
    weights: list[float] = msgspec.field(default_factory=lambda: [0.0] * _SIZE)

    @property
    def is_ready(self) -> bool:
        """True if enough was graded to predict."""
        return self.count >= MIN_GRADED

    def graded_calls(self, feature: str) -> float:
        """The graded calls of a feature."""
        record = self.features.get(feature)
        return record.count if record is not None else 0.0

    def predict(self, feature: str, traits: CallTraits) -> float:
        """The loss to expect of the call, in answers: 0.1 where one in ten is lost."""
        loss = _dot(self.weights, (1.0, *traits.values))
        record = self.features.get(feature)
        if record is None:
            return loss
        loss += record.offset
        return loss + _neighbour_loss(record.neighbours, traits.signature, loss)

    def better_share(self, error: JudgeError) -> float:
        """The share of small answers that are better, from the spread of the losses; about."""
        if not self.count:
            return 0.0
        noise = sum(
            share * unbiased_loss(error, verdict) ** 2
            for share, verdict in zip(error.channels[0][1], Verdict, strict=True)
        )
        surplus = self.squares / self.count - noise - self.by_loss[0] / self.count
        return min(max(surplus / 2, 0.0), 0.1)

    def learn(self, feature: str, traits: CallTraits, loss: float) -> None:
        """Add a graded call; ``fit`` makes it count."""
        row = (1.0, *traits.values)
        if feature not in self.features and len(self.features) >= _MAX_FEATURES:
            del self.features[min(self.features, key=self.graded_calls)]
        record = self.features.setdefault(feature, _FeatureRecord())
        if self.count >= _MAX_WEIGHT:
            self._halve()
        self.count += 1
        self.squares += loss * loss
        record.count += 1
        record.loss += loss
        record.neighbours.append((traits.signature, loss))
        del record.neighbours[:-_MAX_NEIGHBOURS]
        for index, value in enumerate(row):
            self.by_loss[index] += value * loss
            record.sums[index] += value
            line = self.products[index]
            for other, factor in enumerate(row):
                line[other] += value * factor

    def fit(self) -> None:
        """Fit weights and the features' offsets by turns."""
        if not self.is_ready:
            return
        noise = max(self.squares / self.count - (self.by_loss[0] / self.count) ** 2, 0.01)
        columns = list(zip(*(record.sums for record in self.features.values()), strict=True))
        for _ in range(3):
            offsets = [record.offset for record in self.features.values()]
            explained = (_dot(offsets, column) for column in columns)
            target = list(map(sub, self.by_loss, explained))
            self.weights = _solve(self.products, target, _RIDGE)
            self._fit_offsets(noise)

    def _fit_offsets(self, noise: float) -> None:
        residuals = [
            (record, record.count, (record.loss - _dot(self.weights, record.sums)) / record.count)
            for record in self.features.values()
            if record.count
        ]
        spread = _spread(((count, residual) for _, count, residual in residuals), noise)
        for record, count, residual in residuals:
            record.offset = residual * count / (count + noise / spread)

    def _halve(self) -> None:
        self.count /= 2
        self.squares /= 2
        self.by_loss = [value / 2 for value in self.by_loss]
        self.products = [[value / 2 for value in line] for line in self.products]
        for record in self.features.values():
            record.count /= 2
            record.loss /= 2
            record.sums = [value / 2 for value in record.sums]


def _spread(residuals: Iterable[tuple[float, float]], noise: float) -> float:
    """The variance of the features' true means, by the moments of what was seen of them."""
    total = excess = 0.0
    for count, residual in residuals:
        total += count
        excess += count * residual**2 - noise
    return max(excess / total if total else 0.0, _LEAST_SPREAD)


def _neighbour_loss(neighbours: Iterable[tuple[int, float]], signature: int, base: float) -> float:
    """The part of the loss by which the nearest graded calls differ from the prediction."""
    weight = excess = 0.0
    for other, loss in neighbours:
        near = similarity(signature, other)
        if near >= _MIN_SIMILARITY:
            near = (near / _MIN_SIMILARITY) ** 2
            weight += near
            excess += near * (loss - base)
    return excess / (weight + 10.0)


def _dot(first: Iterable[float], second: Iterable[float]) -> float:
    total: float = sum(map(mul, first, second))
    return total


def _solve(products: list[list[float]], target: list[float], ridge: float) -> list[float]:
    """The ridge solution of the normal equations, by Gauss's elimination; the first has none."""
    size = len(target)
    rows = [[*line, value] for line, value in zip(products, target, strict=True)]
    for index in range(size):
        rows[index][index] += ridge if index else 1e-6
    for pivot in range(size):
        head = rows[pivot]
        for row in rows[pivot + 1 :]:
            factor = row[pivot] / head[pivot]
            if factor:
                for column in range(pivot, size + 1):
                    row[column] -= factor * head[column]
    solution = [0.0] * size
    for pivot in reversed(range(size)):
        row = rows[pivot]
        rest = sum(row[column] * solution[column] for column in range(pivot + 1, size))
        solution[pivot] = (row[size] - rest) / row[pivot]
    return solution
