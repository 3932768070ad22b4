# ruff: noqa: T201 - a script prints its result
"""Compares what proposed layouts promise with what comes once they are approved.

Every made-up prompt whose order costs money, and recorded sets that were made to be built badly, on
a model of each cache. The newest proposal is approved once two thirds of the conversations began.
What comes is what the others cost less than in mode ``observe``, in dollars for 1,000 calls at the
price of the proposal. The last column is what is proposed beside that layout at the end. Exits with
1 where a promise is off by more than 15 %, and 3 % of the costs.

Usage: python -m tests.bench.layout_promises [--only NAME] [--model NAME] [--calls 300] [--rate 30]
"""

import argparse
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from multiprocessing import get_context

from proxy.caches.regime import prompt_cost
from proxy.calls.route_target import route_target
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.lessons import is_due
from proxy.prefix.planned import Planned
from proxy.records.team_stake import STAKE_UNITS_PER_DOLLAR
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.run import replay
from proxy.tools.replay.unmoved_text import FeatureProgress
from proxy.tools.replay.vocabulary import LineVocabulary
from tests.bench.layout_gains import MeteredVariant, model_catalog, shapes
from tests.bench.no_harm_replay import START, recorded_calls
from tests.bench.no_harm_routes import FEW, MODELS
from tests.bench.no_harm_sets import folder, recorded_workload
from tests.fakes.workloads import Workload, timed_calls

_DAY = START // 86_400.0 * 86_400.0
_WORKERS = 2
_RECORDED = ("tau-bench, badly built", "AgentDojo, badly built")
_CONVERSATIONS = 120
_MAX_ERROR = 0.15
#: Share of the costs below which a difference is no matter.
_MIN_ERROR_SHARE = 0.03


class ApprovedVariant(PlannedVariant):
    """Arranged by the layout that is proposed once so many calls were made.

    Args:
        reading: The route.
        after: Calls before it.

    Attributes:
        approved: The layout; None before.
        again: What is proposed beside it; None for nothing.
    """

    def __init__(self, reading: PromptReader, after: int) -> None:
        super().__init__(reading, _DAY, arranges=True, names=False)
        self._after = after
        self._newest: Layout | None = None
        self.approved: Layout | None = None
        self.again: Layout | None = None
        self.is_rolled_back = False

    def _look(self, planned: Planned, feature: FeatureProgress) -> None:
        """Approve what is proposed, once it is time."""
        held = feature.layout_version(feature.current_version)
        if self.approved is not None:
            self.is_rolled_back = self.is_rolled_back or held is None
            self.again = self._lessons.proposal(planned, held)
            return
        if is_due(feature.planned):
            self._newest = self._lessons.proposal(planned)
        if self._newest is not None and feature.planned >= self._after:
            self.approved = self._newest
            feature.approve(self._newest)


@dataclass(frozen=True, kw_only=True)
class PromiseRow:
    """A workload on a model; in dollars for 1,000 calls.

    Attributes:
        cost: Cost without a layout.
        promised: Savings that the layout promises; None where none is proposed.
        came: What came of it.
        again: What is promised beside it, at the end.
    """

    workload: str
    model: str
    cost: float
    promised: float | None
    came: float
    again: float
    is_rolled_back: bool

    @property
    def is_off(self) -> bool:
        """True if the promise is off by more than it may be."""
        if self.promised is None:
            return False
        error = abs(self.promised - self.came)
        return error > _MAX_ERROR * abs(self.came) and error > _MIN_ERROR_SHARE * self.cost


def workload(name: str) -> Workload:
    """The workload of that name."""
    if name in _RECORDED:
        data = folder()
        assert data is not None
        return recorded_workload(data, name, _CONVERSATIONS)
    return next(each.sent for each in shapes() if each.sent.name == name)


def measure(name: str, model: str, calls: int, rate: float) -> PromiseRow:
    """The row of one workload on one model."""
    logging.disable(logging.WARNING)
    known = model_catalog().models[model]
    reading = PromptReader(known, known.routes[0], LineVocabulary())
    here = whole_sessions(workload(name), calls)
    timed = timed_calls(here, rate)
    halfway = here.sessions[len(here.sessions) * 2 // 3].name
    after = next(at for at, call in enumerate(timed) if call.session.name == halfway)
    variant = ApprovedVariant(reading, after)
    observe = PlannedVariant(reading, _DAY, arranges=False, names=False)
    metered = [MeteredVariant(each) for each in (observe, variant)]
    replay(recorded_calls(here, timed, reading, is_native=False), reading, metered, day=_DAY)
    before = {call.session.name for call in timed[:after]}
    later = [at for at, call in enumerate(timed) if call.session.name not in before]
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
        promised=_saved_dollars(variant.approved) if variant.approved is not None else None,
        came=(without - approved) * price,
        again=_saved_dollars(variant.again),
        is_rolled_back=variant.is_rolled_back,
    )


def whole_sessions(workload: Workload, calls: int) -> Workload:
    """A workload's first sessions, so many that they make about so many calls."""
    sums = accumulate(len(session.turns) for session in workload.sessions)
    count = sum(1 for _ in takewhile(lambda made: made <= calls, sums))
    return replace(workload, sessions=workload.sessions[:count])


def _saved_dollars(layout: Layout | None) -> float:
    return sum(move.saving for move in layout.moves) / 1e9 if layout is not None else 0.0


def _rows(options: argparse.Namespace) -> Iterator[PromiseRow]:
    there = _RECORDED if folder() is not None else ()
    names = [*(each.sent.name for each in shapes()), *there]
    with ProcessPoolExecutor(_WORKERS, mp_context=get_context("spawn")) as pool:
        rows = [
            pool.submit(measure, name, model, options.calls, options.rate)
            for name in names
            if options.only in name
            for model in options.model or FEW
        ]
        for row in rows:
            yield row.result()


def main() -> None:
    """Print the table; exit with 1 where a promise is off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of a workload's name")
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rate", type=float, default=30.0, help="calls a minute")
    options = parser.parse_args()
    print("| workload | model | cost | promised | came | promised of it | again | |")
    print("|---|---|--:|--:|--:|--:|--:|---|")
    off: list[PromiseRow] = []
    for row in _rows(options):
        promised = "-" if row.promised is None else f"{row.promised:.2f}"
        share = f"{row.promised / row.came:.2f}" if row.promised and row.came else "-"
        notes = ", ".join(filter(None, ("off" * row.is_off, "rolled back" * row.is_rolled_back)))
        print(
            f"| {row.workload} | {row.model} | {row.cost:.2f} | {promised} | {row.came:.2f}"
            f" | {share} | {row.again:.2f} | {notes} |",
            flush=True,
        )
        off += [row] if row.is_off else []
    print(f"\n{len(off)} promises are off by more than 15 %")
    sys.exit(1 if off else 0)


if __name__ == "__main__":
    main()
