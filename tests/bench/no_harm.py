# ruff: noqa: T201 - a script prints its result
"""Does the gateway ever cost more than no gateway? Every workload, cache and pace, one table.

Each cell is what a workload costs through a gateway in its default mode (planning ``auto``,
compaction off) over what the same calls cost sent directly; it may cost more by the stake of
each feature, one cent or the surcharge of writing its longest prompt, and after 1,000 calls by
0.05 % of direct at most. Workloads
are the recorded sets and shapes that are made up; ``replay`` reckons them with no conversation in
the control arm, ``live`` sends them to simulators directly and through a gateway with every
setting at its default. With ``--native`` the calls are made in Anthropic's API, of models that
speak it. With ``--observe`` all cells are reckoned or sent a second time with
``THRIFTGATE_PLANNING=observe``, and a table shows both modes. ``--mode apply``
approves in the middle of each live cell what is proposed by then, ``--restart`` starts the gateway
anew there, and with ``--processes`` calls take turns among so many that share a store. With
``--served`` these are processes of the operating system, in real time. A table compares what
``thriftgate savings`` says was saved with what was, with ``--judge`` by the second accounting of
``tests.accounting``. Exits with 1 where a cell is dearer.

Usage: python -m tests.bench.no_harm [--quick] [--native] [--part replay] [--only WORKLOAD]
       [--model NAME] [--rate 30] [--calls 160 | --whole] [--stake 0.01] [--observe] [--mode apply]
       [--restart] [--processes 2] [--served] [--control-share 0] [--judge] [--json FILE]
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson

from proxy.catalog.catalog import Catalog
from proxy.records.feature_mode import PlanningMode
from tests.bench.no_harm_live import ComparedGateway, beside
from tests.bench.no_harm_replay import STAKE, Replayer, WorkloadCell
from tests.bench.no_harm_routes import FEW, LIVE, MODELS, NATIVE, catalog
from tests.bench.no_harm_served import beside_served
from tests.bench.no_harm_sets import WORDLESS, folder, recorded_workload, sets, shapes
from tests.bench.no_harm_table import cells_as_json, claims, dear, markdown, modes, summary
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.workloads import TimedCall, Workload, timed_calls

RATES = (6.0, 30.0, 120.0)
PARTS = ("replay", "live")
#: Calls of a cell in each part, and where there is little time.
CALLS = {"replay": 160, "live": 80}
QUICK_CALLS = {"replay": 48, "live": 40}
#: Calls of each session at least, on average: what is written at a session's first call is to be
#: read before the cell ends.
_CALLS_EACH = {"replay": 6, "live": 4}
#: Conversations of a set that are read; more than any cell's calls need.
_CONVERSATIONS = 60
_WORKERS = 2
#: More calls than any workload has.
_ALL_CALLS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Job:
    """One workload in one part, on all models and at all rates."""

    part: str
    workload: str
    models: Sequence[str]
    rates: Sequence[float]
    calls: int
    is_short: bool = False
    stake: float = STAKE
    is_native: bool = False
    mode: PlanningMode = PlanningMode.AUTO
    is_restarted: bool = False
    processes: int = 1
    control_share: float = 0.05
    judges: bool = False
    is_served: bool = False

    @property
    def how(self) -> str:
        """The name of its table."""
        is_usual = self.mode is PlanningMode.AUTO
        parts = (
            self.part,
            "" if is_usual else self.mode.value,
            "restarted" if self.is_restarted else "",
            f"{self.processes} processes" if self.processes > 1 else "",
            "served" if self.is_served else "",
        )
        return ", ".join(filter(None, parts))


def run(job: Job) -> list[WorkloadCell]:
    """The cells of a job."""
    logging.disable(logging.WARNING)
    held = workload(job.workload)
    return _replay(job, held) if job.part == "replay" else _send(job, held)


def _failed_cells(job: Job, error: BaseException) -> list[WorkloadCell]:
    """Cells that say why they could not be had."""
    why = f"{type(error).__name__}: {error}"[:200]
    return [
        WorkloadCell(how=job.how, workload=job.workload, model=name, rate=rate, why=why)
        for name in job.models
        for rate in job.rates
    ]


def names() -> list[str]:
    """Every workload there is: the sets that are there, and the shapes."""
    data = folder()
    there = () if data is None else sets(data)
    return [*(name for name, entry in there if entry), *_shapes()]


@cache
def workload(name: str) -> Workload:
    """The workload of that name."""
    data = folder()
    shape = _shapes().get(name)
    if shape is not None or data is None:
        return _shapes()[name]
    return recorded_workload(data, name, _CONVERSATIONS)


@cache
def _shapes() -> dict[str, Workload]:
    return {shape.name: shape for shape in shapes()}


@cache
def _replayer(stake: float, *, is_auto: bool) -> Replayer:
    return Replayer(stake=stake, is_auto=is_auto)


@cache
def _catalog() -> Catalog:
    with tempfile.TemporaryDirectory() as there:
        return catalog(Path(there))[0]


def _laid_out(job: Job, held: Workload, rate: float) -> list[TimedCall]:
    """The calls of a cell; more where many sessions are open at once."""
    at_once = min(held.pace.sessions_at_once(rate), len(held.sessions))
    return timed_calls(
        held, rate, max(job.calls, 0 if job.is_short else _CALLS_EACH[job.part] * at_once)
    )


def _replay(job: Job, held: Workload) -> list[WorkloadCell]:
    models = _catalog()
    laid_out = {rate: _laid_out(job, held, rate) for rate in job.rates}
    replayer = _replayer(job.stake, is_auto=job.mode is PlanningMode.AUTO)
    return [
        replace(cell, how=job.how)
        for name in job.models
        for cell in replayer.cells(held, laid_out, models.models[name], is_native=job.is_native)
    ]


def _send(job: Job, held: Workload) -> list[WorkloadCell]:
    async def story() -> list[WorkloadCell]:
        cells: list[WorkloadCell] = []
        with tempfile.TemporaryDirectory() as folder:
            async with _gateway(job, Path(folder)) as both:
                for rate in job.rates:
                    calls = _laid_out(job, held, rate)
                    cells += await both.cells(
                        held, calls, job.models, rate, is_native=job.is_native
                    )
        return [replace(cell, how=job.how) for cell in cells]

    return asyncio.run(story()) if job.is_served else run_in_virtual_time(story)


def _gateway(job: Job, folder: Path) -> AbstractAsyncContextManager[ComparedGateway]:
    """The gateway of a job and the simulator that is asked directly, running."""
    ways: dict[str, Any] = {
        "processes": job.processes,
        "is_restarted": job.is_restarted,
        "approves": job.mode is PlanningMode.APPLY,
    }
    settings: dict[str, Any] = {
        "learning_stake": job.stake,
        "planning": job.mode,
        "control_share": job.control_share,
    }
    if not job.is_served:
        return beside(folder, judges=job.judges, **ways, **settings)
    environment = {f"THRIFTGATE_{name.upper()}": f"{value}" for name, value in settings.items()}
    return beside_served(folder, environment, **ways)


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """The jobs that the options select."""
    selected = [name for name in names() if options.only.lower() in name.lower()]
    calls = QUICK_CALLS if options.quick else CALLS
    most = _ALL_CALLS if options.whole else options.calls
    for part in options.part:
        is_live = part == "live"
        usual = FEW if options.quick else LIVE if is_live else MODELS
        first = options.mode if is_live else PlanningMode.AUTO
        chosen = [first, *([PlanningMode.OBSERVE] if options.observe else [])]
        for name, mode in product(selected, chosen):
            yield Job(
                part=part,
                workload=name,
                models=tuple(options.model or (NATIVE if options.native else usual)),
                rates=tuple(options.rate or (RATES[1:2] if options.quick else RATES)),
                calls=most or calls[part],
                is_short=options.quick or bool(options.calls),
                stake=options.stake,
                is_native=options.native,
                mode=mode,
                is_restarted=is_live and options.restart,
                processes=options.processes if is_live else 1,
                control_share=options.control_share,
                judges=is_live and options.judge,
                is_served=is_live and options.served,
            )


def _all(todo: Sequence[Job]) -> list[WorkloadCell]:
    """The cells of all jobs, in their order, by two processes."""
    cells: dict[Job, list[WorkloadCell]] = {}
    began = time.monotonic()
    with ProcessPoolExecutor(_WORKERS, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(run, job): job for job in todo}
        for done in as_completed(waiting):
            job = waiting[done]
            error = done.exception()
            cells[job] = done.result() if error is None else _failed_cells(job, error)
            progress = f"{len(cells)}/{len(todo)} {time.monotonic() - began:.0f} s"
            print(f"{progress} {job.how} {job.workload}", file=sys.stderr)
            for cell in cells[job]:
                if cell.layouts:
                    print(f"  layouts {cell.layouts} {cell.model} {cell.rate:g}", file=sys.stderr)
            for cell in dear(cells[job]):
                verdict = cell.why or f"{cell.ratio:.4f}"
                print(f"  {verdict} {cell.model} {cell.rate:g}", file=sys.stderr, flush=True)
    return [cell for job in todo for cell in cells[job]]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a slice of each, in three minutes")
    parser.add_argument("--native", action="store_true", help="calls in Anthropic's API")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--only", default="", help="a part of a workload's name")
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--rate", type=float, action="append", help="calls a minute")
    parser.add_argument("--calls", type=int, help="calls of each cell, at most")
    parser.add_argument("--whole", action="store_true", help="every call of every workload")
    parser.add_argument("--stake", type=float, default=STAKE, help="THRIFTGATE_LEARNING_STAKE")
    parser.add_argument("--observe", action="store_true", help="also with planning observe")
    parser.add_argument("--mode", type=PlanningMode, default=PlanningMode.AUTO, help="live")
    parser.add_argument("--restart", action="store_true", help="live, anew after half the calls")
    parser.add_argument("--processes", type=int, default=1, help="live, processes of the gateway")
    parser.add_argument("--served", action="store_true", help="live, by real processes")
    parser.add_argument("--control-share", type=float, default=0.05, help="of live conversations")
    parser.add_argument("--judge", action="store_true", help="live, by the second accounting")
    parser.add_argument("--json", type=Path, help="also write every cell to this file")
    options = parser.parse_args()
    options.part = options.part or list(PARTS)
    return options


def _skipped_sets() -> Iterator[str]:
    """The sets that are skipped, and why."""
    data = folder()
    if data is None:
        yield "Recorded sets are skipped: ../shared/data is not there."
        return
    yield from (f"{name} is skipped: it is not there." for name, found in sets(data) if not found)
    yield from (f"{name} is skipped: it holds no prompts." for name in WORDLESS)


def main() -> None:
    """Print the table; exit with 1 where a cell is dearer than it may be."""
    options = _options()
    for line in _skipped_sets():
        print(line)
    cells = _all(list(jobs(options)))
    print()
    for how in dict.fromkeys(cell.how for cell in cells):
        for line in markdown(cells, how):
            print(line)
    for line in chain.from_iterable(modes(cells, part) for part in PARTS):
        print(line)
    for line in claims(cells):
        print(line)
    for line in summary(cells):
        print(line)
    if options.json:
        options.json.write_bytes(orjson.dumps(cells_as_json(cells)))
    sys.exit(1 if dear(cells) else 0)


if __name__ == "__main__":
    main()
