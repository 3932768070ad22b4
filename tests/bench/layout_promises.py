# ruff: noqa: T201 - a script prints its result
"""Compares what proposed layouts promise with what comes once they are approved.

Every made-up prompt whose order costs money, recorded sets that were made to be built badly, and
conversations of other lengths, on a model of each cache. The newest proposal is approved once two
fifths of the conversations began. What comes is what those that begin then cost less than in mode
``observe``, in dollars for 1,000 calls at the price of the proposal. Beside it stand promises after
so many calls over it, ``≥`` where they say "at least"; ``again`` is what is proposed beside the
layout at the end. Exits with 1 where a promise is off by more than 15 % ("at least": too high), and
3 % of the costs.

Usage: python -m tests.bench.layout_promises [--only NAME] [--model NAME] [--calls 450] [--rate 30]
"""

import logging
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from multiprocessing import get_context
from typing import NamedTuple

from proxy.caches.regime import prompt_cost
from proxy.calls.eligibility.route_target import route_target
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.lessons import is_due
from proxy.prefix.planned import Planned
from proxy.records.mark_account import STAKE_UNITS_PER_DOLLAR
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.prompts import LineVocabulary, PromptReader
from proxy.tools.replay.run import replay
from proxy.tools.replay.unmoved_text import FeatureProgress
from tests.bench.layout_gains import MeteredVariant, model_catalog, read_options, shapes
from tests.bench.no_harm_replay import START, recorded_calls
from tests.bench.no_harm_routes import FEW
from tests.bench.no_harm_sets import folder, recorded_workload
from tests.fakes.layout_workloads import odd_lengths
from tests.fakes.workloads import Workload, timed_calls

_DAY = START // 86_400.0 * 86_400.0
_WORKERS = 2
_RECORDED = ("tau-bench, badly built", "AgentDojo, badly built")
_CONVERSATIONS = 120
_MAX_ERROR = 0.15
#: Share of the costs below which a difference is no matter.
_MIN_ERROR_SHARE = 0.03
#: Calls of the feature after which its promise is compared.
_PROMISED_AFTER = (12, 50, 100, 200, 400)


class ApprovedVariant(PlannedVariant):
    """Arranged by the layout that is proposed once so many calls were made.

    Args:
        reading: The route.
        after: Calls before it.

    Attributes:
        approved: The layout; None before.
        approved_at: Calls that were answered before it was.
        proposed: What was proposed, beside no layout, by calls seen; None for nothing.
        again: What is proposed beside it; None for nothing.
    """

    def __init__(self, reading: PromptReader, after: int) -> None:
        super().__init__(reading, _DAY, arranges=True, names=False)
        self._after = after
        self._newest: Layout | None = None
        self.approved: Layout | None = None
        self.approved_at = 0
        self.proposed: dict[int, Layout | None] = {}
        self.again: Layout | None = None
        self.is_rolled_back = False

    def _look(self, planned: Planned, feature: FeatureProgress) -> None:
        """Approve what is proposed, once it is time."""
        held = feature.layout_version(feature.current_version)
        if feature.planned in _PROMISED_AFTER:
            self.proposed[feature.planned] = self._lessons.proposal(planned)
        if self.approved is not None:
            self.is_rolled_back = self.is_rolled_back or held is None
            self.again = self._lessons.proposal(planned, held)
            return
        if is_due(feature.planned):
            self._newest = self._lessons.proposal(planned)
        if self._newest is not None and feature.planned >= self._after:
            self.approved, self.approved_at = self._newest, feature.planned + len(self._answers)
            feature.approve(self._newest)


class Promise(NamedTuple):
    """Dollars that a proposal says to save in 1,000 calls, or at least."""

    dollars: float
    is_least: bool


@dataclass(frozen=True, kw_only=True)
class PromiseRow:
    """A workload on a model; in dollars for 1,000 calls.

    Attributes:
        cost: Cost without a layout.
        came: What came of the one that was approved.
        promises: Promises by calls seen; None where nothing was proposed.
        again: What is promised beside it, at the end.
    """

    workload: str
    model: str
    cost: float
    came: float
    promises: Mapping[int, Promise | None]
    again: float
    is_rolled_back: bool

    @property
    def is_off(self) -> bool:
        """True if a promise is off by more than it may be."""
        return any(
            self._is_off(promise) for promise in self.promises.values() if promise is not None
        )

    def _is_off(self, promise: Promise) -> bool:
        error = promise.dollars - self.came
        error = max(0.0, error) if promise.is_least else abs(error)
        return error > _MAX_ERROR * abs(self.came) and error > _MIN_ERROR_SHARE * self.cost

    def share(self, calls: int) -> str:
        """A promise over what came, to read."""
        promise = self.promises.get(calls)
        if promise is None or not self.came:
            return "-"
        return f"{'≥' * promise.is_least}{promise.dollars / self.came:.2f}"


def workload(name: str) -> Workload:
    """The workload of that name."""
    if name in _RECORDED:
        data = folder()
        assert data is not None
        return recorded_workload(data, name, _CONVERSATIONS)
    return next(each for each in _made_up() if each.name == name)


def _made_up() -> list[Workload]:
    return [*(shape.sent for shape in shapes()), *odd_lengths()]


def measure(name: str, model: str, calls: int, rate: float) -> PromiseRow:
    """The row of one workload on one model."""
    known = model_catalog().models[model]
    reading = PromptReader(known, known.routes[0], LineVocabulary())
    here = whole_sessions(workload(name), calls)
    timed = timed_calls(here, rate)
    approving = here.sessions[len(here.sessions) * 2 // 5].name
    after = next(at for at, call in enumerate(timed) if call.session.name == approving)
    variant = ApprovedVariant(reading, after)
    observe = PlannedVariant(reading, _DAY, arranges=False, names=False)
    metered = [MeteredVariant(each) for each in (observe, variant)]
    replay(recorded_calls(here, timed, reading, is_native=False), reading, metered, day=_DAY)
    before = {call.session.name for call in timed[: variant.approved_at or after]}
    later = [at for at, call in enumerate(timed) if call.session.name not in before]
    later = later or [*range(after, len(timed))]
    target = route_target(reading.route, reading.public, _DAY)
    without, approved = (
        sum(prompt_cost(each.usages[at], target.regime) for at in later) / len(later)
        for each in metered
    )
    price = target.token_price / STAKE_UNITS_PER_DOLLAR * 1000
    return PromiseRow(
        workload=name,
        model=model,
        cost=without * price,
        came=(without - approved) * price,
        promises={
            calls: Promise(layout.saved_nanos / 1e9, layout.is_early)
            if layout is not None
            else None
            for calls, layout in variant.proposed.items()
        },
        again=variant.again.saved_nanos / 1e9 if variant.again is not None else 0.0,
        is_rolled_back=variant.is_rolled_back,
    )


def whole_sessions(workload: Workload, calls: int) -> Workload:
    """A workload's first sessions, so many that they make about so many calls."""
    sums = accumulate(len(session.turns) for session in workload.sessions)
    count = sum(1 for _ in takewhile(lambda made: made <= calls, sums))
    return replace(workload, sessions=workload.sessions[:count])


def _rows(options: Namespace) -> Iterator[PromiseRow]:
    there = _RECORDED if folder() is not None else ()
    names = [*(each.name for each in _made_up()), *there]
    with ProcessPoolExecutor(
        _WORKERS, get_context("spawn"), logging.disable, (logging.WARNING,)
    ) as pool:
        rows = [
            pool.submit(measure, name, model, options.calls, options.rate)
            for model in options.model or FEW
            for name in names
            if options.only in name
        ]
        for row in rows:
            yield row.result()


def main() -> None:
    """Print the table; exit with 1 where a promise is off."""
    options = read_options(__doc__, calls=450)
    after = " | ".join(f"{calls} calls" for calls in _PROMISED_AFTER)
    print(f"| workload | model | cost | came | {after} | again | |")
    print(f"|---|---{'|--:' * (len(_PROMISED_AFTER) + 3)}|---|")
    off: list[PromiseRow] = []
    for row in _rows(options):
        shares = " | ".join(map(row.share, _PROMISED_AFTER))
        notes = ", ".join(filter(None, ("off" * row.is_off, "rolled back" * row.is_rolled_back)))
        print(
            f"| {row.workload} | {row.model} | {row.cost:.2f} | {row.came:.2f} | {shares}"
            f" | {row.again:.2f} | {notes} |",
            flush=True,
        )
        off += [row] if row.is_off else []
    print(f"\n{len(off)} rows hold a promise that is off by more than 15 %")
    sys.exit(1 if off else 0)


if __name__ == "__main__":
    main()
