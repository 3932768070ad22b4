# ruff: noqa: T201 - a script prints its result
"""Measures what the order of a prompt costs, and how much of a good order the gateway reaches.

Made-up prompts whose documents change from turn to turn, and badly built ones, on a model of each
cache. Of each: the cost in the modes ``observe`` and ``auto``, and of the same words in an order
made by hand (sent with the gateway's marks), over that of sending directly; then the share of the
good order's savings that ``auto`` reaches: in the whole run, its first 50 calls, its second half.
Exits with 1 where ``auto`` is dearer than direct by more than the stake of one cent.

Usage: python -m tests.bench.layout_gains [--only NAME] [--model NAME] [--calls 160] [--rate 30]
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

from proxy.catalog.catalog import Catalog
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.prompts import LineVocabulary, PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.run import ReplayVariant, UnmodifiedVariant, replay
from slo.price import call_cost
from slo.usage import Usage
from tests.bench.no_harm_replay import START, recorded_calls
from tests.bench.no_harm_routes import FEW, MODELS, catalog
from tests.fakes.layout_workloads import LayoutWorkload, badly_built, documents, long_session
from tests.fakes.workloads import Workload, timed_calls

_DAY_S = 86_400.0
_FIRST = 50
_WORKERS = 2
#: Dollars that a feature may cost more than sent directly.
_STAKE = 0.01


class MeteredVariant:
    """A way to send calls, with the usage of each.

    Args:
        variant: The way.
    """

    def __init__(self, variant: ReplayVariant) -> None:
        self.name = variant.name
        self.usages: list[Usage] = []
        self._variant = variant

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The body as that way sends it."""
        return self._variant.body(line, now)

    def record_answer(self, usage: Usage) -> None:
        """Note the usage, and let that way learn from it."""
        self.usages.append(usage)
        self._variant.record_answer(usage)


@dataclass(frozen=True, kw_only=True)
class GainRow:
    """A workload on a model: dollars of each call, by the way it is sent."""

    workload: str
    model: str
    direct: Sequence[float]
    observe: Sequence[float]
    auto: Sequence[float]
    good: Sequence[float]

    def ratio(self, way: Sequence[float]) -> float:
        """A way's cost over the direct cost."""
        return sum(way) / sum(self.direct)

    def share(self, start: int = 0, end: int | None = None) -> float | None:
        """The share of the good order's savings that ``auto`` reaches; None where it saves none."""
        direct, auto, good = (sum(way[start:end]) for way in (self.direct, self.auto, self.good))
        return (direct - auto) / (direct - good) if direct - good > 0.01 * direct else None

    @property
    def lost(self) -> float:
        """Dollars by which ``auto`` is dearer; below 0 where it saves."""
        return sum(self.auto) - sum(self.direct)


def shapes() -> list[LayoutWorkload]:
    """Every workload of the table."""
    return [*documents(), *badly_built(), long_session()]


@cache
def model_catalog() -> Catalog:
    with tempfile.TemporaryDirectory() as there:
        return catalog(Path(there))[0]


def measure(name: str, model: str, calls: int, rate: float) -> GainRow:
    """The row of one workload on one model."""
    logging.disable(logging.WARNING)
    shape = next(made_up for made_up in shapes() if made_up.sent.name == name)
    entry = model_catalog().models[model]
    reading = PromptReader(entry, entry.routes[0], LineVocabulary())
    planned = partial(PlannedVariant, reading, START // _DAY_S * _DAY_S, names=False)
    direct, observe, auto = _costs(
        shape.sent,
        [UnmodifiedVariant(), planned(arranges=False), planned(arranges=True)],
        reading,
        calls,
        rate,
    )
    (good,) = _costs(shape.good, [planned(arranges=False)], reading, calls, rate)
    return GainRow(workload=name, model=model, direct=direct, observe=observe, auto=auto, good=good)


def _costs(
    workload: Workload,
    variants: Sequence[ReplayVariant],
    reading: PromptReader,
    calls: int,
    rate: float,
) -> list[list[float]]:
    """Dollars of each call, by variant."""
    metered = [MeteredVariant(variant) for variant in variants]
    lines = recorded_calls(workload, timed_calls(workload, rate, calls), reading, is_native=False)
    replay(lines, reading, metered, day=START // _DAY_S * _DAY_S)
    tariff = reading.route.tariff
    assert tariff is not None
    costs_by_variant = []
    for variant in metered:
        costs = [call_cost(usage, tariff, START) for usage in variant.usages]
        costs_by_variant.append([(cost.effective_nanos if cost else 0) / 1e9 for cost in costs])
    return costs_by_variant


def read_options(description: str | None, calls: int) -> argparse.Namespace:
    """The part of a table to make, by the command line.

    Args:
        description: Description of the command.
        calls: Calls of each workload, unless it says another number.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", default="", help="a part of a workload's name")
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--calls", type=int, default=calls)
    parser.add_argument("--rate", type=float, default=30.0, help="calls a minute")
    return parser.parse_args()


def _rows(options: argparse.Namespace) -> Iterator[GainRow]:
    names = [shape.sent.name for shape in shapes() if options.only in shape.sent.name]
    with ProcessPoolExecutor(_WORKERS, mp_context=get_context("spawn")) as pool:
        todo = [
            pool.submit(measure, name, model, options.calls, options.rate)
            for name in names
            for model in options.model or FEW
        ]
        for done in todo:
            yield done.result()


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def main() -> None:
    """Print the table; exit with 1 where ``auto`` is dearer than it may be."""
    options = read_options(__doc__, calls=160)
    print(
        "| workload | model | observe | auto | good order | auto of it | first 50 | second half |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    dear = False
    for row in _rows(options):
        ways = " | ".join(f"{row.ratio(way):.3f}" for way in (row.observe, row.auto, row.good))
        half = len(row.direct) // 2
        shares = (row.share(), row.share(0, _FIRST), row.share(half))
        reached = " | ".join(map(_percent, shares))
        print(f"| {row.workload} | {row.model} | {ways} | {reached} |", flush=True)
        dear = dear or row.lost > _STAKE or (len(row.direct) >= 1000 and row.ratio(row.auto) > 1)
    sys.exit(1 if dear else 0)


if __name__ == "__main__":
    main()
