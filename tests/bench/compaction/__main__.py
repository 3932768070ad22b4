# ruff: noqa: T201 - a script prints its result

"""Prints what facts keep beside five simple ways at the same tokens, and the goals.

Recorded sets lie outside the repository; rows without theirs are left out. A third of each recorded
set is held back, by the hash of a dialogue's name: ``--held-back`` prints that alone, for a last
look; tune by the rest.

``--bound`` adds what no choice of text could pass at these tokens (``bounds``), and says which
goals lie above that.

Usage: python -m tests.bench.compaction [ROW …] [--whole] [--held-back] [--best] [--bound]
    [--missing N] [--most N] [--more DIR]
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.bench.compaction import chat_sets, marked_sets
from tests.bench.compaction.bounds import CaseBound, case_bound
from tests.bench.compaction.cases import ChatCase, is_held_back, sample
from tests.bench.compaction.measuring import FACTS, WAYS, CaseMeasure, measure
from tests.bench.compaction.rows import SIZES, rows

#: Most dialogues of a row without ``--whole``.
_MOST: Final = 60
_ALL: Final = 1_000_000
_PROCESSES: Final = 2
#: Percent points below which a difference is none.
_TIE: Final = 0.05


@dataclass(frozen=True)
class _Task:
    """A part of a row that one process measures."""

    row: str
    more: Path
    size: str
    is_held_back: bool
    most: int
    part: int
    is_bounded: bool


@dataclass(frozen=True)
class _Cell:
    """A row at one size."""

    name: str
    size: str
    goal: float
    results: Sequence[CaseMeasure]
    bounds: Sequence[CaseBound]

    @cached_property
    def percents(self) -> Mapping[str, float]:
        """Percent of the needs that each way keeps."""
        needs = [(result, need) for result in self.results for need in result.needed]
        return {
            way: 100 * sum(need in result.kept[way] for result, need in needs) / max(1, len(needs))
            for way in WAYS
        }

    @property
    def best(self) -> str:
        """The simple way that keeps most."""
        return max(WAYS[1:], key=lambda way: self.percents[way])

    @property
    def is_below(self) -> bool:
        """True if a simple way keeps more than facts."""
        return self.percents[FACTS] < self.percents[self.best] - _TIE

    @property
    def is_short(self) -> bool:
        """True if facts keep less than the goal."""
        return self.percents[FACTS] < self.goal - _TIE

    @property
    def bound(self) -> float:
        """Percent of the needs that no choice of text can pass; 100 where that is not known."""
        return self._share_of([bound.any_choice for bound in self.bounds])

    @property
    def is_goal_above_bound(self) -> bool:
        """True if no choice of text reaches the goal."""
        return self.bound < self.goal - _TIE

    @property
    def bound_text(self) -> str:
        """The bound, by the class of the needs alone, and beside users' words; "" for none."""
        by_class = self._share_of([bound.by_class for bound in self.bounds])
        whole = self._share_of([bound.users_whole for bound in self.bounds])
        bounds = f"≤ {self.bound:.1f}, {by_class:.1f} by class, {whole:.1f} users whole"
        return bounds if self.bounds else ""

    def _share_of(self, kept: Sequence[int]) -> float:
        total = sum(len(result.needed) for result in self.results)
        return 100 * sum(kept) / max(1, total) if kept else 100.0

    @property
    def tokens(self) -> float:
        """Percent of the conversations' tokens that facts take, as all ways do."""
        before = sum(result.before for result in self.results)
        return 100 * sum(result.after for result in self.results) / max(1, before)

    def line(self) -> str:
        """A line of the whole table."""
        cells = [
            self.name,
            self.size,
            str(sum(len(result.needed) for result in self.results)),
            f"{self.tokens:.1f}",
            *(f"{self.percents[way]:.1f}" for way in WAYS),
            *([self.bound_text] if self.bounds else []),
            f"{self.goal:g}" if self.goal else "",
            ", ".join(self._marks()),
        ]
        return f"| {' | '.join(cells)} |"

    def short_text(self) -> str:
        """Facts, the best simple way and the tokens of both."""
        facts = f"{self.percents[FACTS]:.1f}"
        facts = f"**{facts}**" if self.is_below else facts
        goal = "; goal above" if self.is_goal_above_bound else ""
        bound = f" ({self.bound_text}{goal})" if self.bounds else ""
        return f"{facts}, {self.percents[self.best]:.1f} @ {self.tokens:.0f}{bound}"

    def _marks(self) -> Iterator[str]:
        if self.is_below:
            yield f"**{self.percents[FACTS] - self.percents[self.best]:+.1f}**"
        if self.is_short:
            yield "goal above bound" if self.is_goal_above_bound else "short of goal"
        missed = [result for result in self.results if result.is_missed]
        if missed:
            unavoidable = sum(result.is_too_small for result in missed)
            yield f"{len(missed)} of {len(self.results)} over target, {unavoidable} had to be"


def results(task: _Task) -> list[tuple[CaseMeasure, CaseBound | None]]:
    """The results of a task's cases, with their bounds where these are asked for."""
    row = rows(task.more)[task.row]
    cases = [
        case
        for case in row.cases()
        if not row.is_recorded or is_held_back(case.name) == task.is_held_back
    ]
    chosen = set(sample({case.name for case in cases}, task.most)[task.part :: _PROCESSES])
    return [_result(case, task) for case in cases if case.name in chosen]


def _result(case: ChatCase, task: _Task) -> tuple[CaseMeasure, CaseBound | None]:
    share, target = SIZES[task.size]
    measured = measure(case, share, target)
    if not task.is_bounded:
        return measured, None
    return measured, case_bound(case, measured, share, target)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("rows", nargs="*", help="rows by the beginning of their names")
    parser.add_argument("--whole", action="store_true", help="take every dialogue")
    parser.add_argument("--held-back", action="store_true", help="the third held back alone")
    parser.add_argument("--best", action="store_true", help="a line for each measure")
    parser.add_argument("--bound", action="store_true", help="what no choice of text can pass")
    parser.add_argument("--most", type=int, default=_MOST, help="dialogues of a row")
    parser.add_argument("--missing", type=int, default=0, help="name so much that facts miss")
    parser.add_argument("--more", type=Path, default=chat_sets.DATA, help="folder of further sets")
    options = parser.parse_args()
    cells = list(_shown_best(options) if options.best else _shown_whole(options))
    below, short = (sum(cell.is_below for cell in cells), sum(cell.is_short for cell in cells))
    above = sum(cell.is_goal_above_bound for cell in cells)
    bound = f", {above} of them with a goal above the bound" if options.bound else ""
    print(f"\n{len(cells)} cells: {below} below a simple way, {short} short of their goal{bound}.")
    if not options.rows or "wishes" in options.rows:
        print(_wishes_line(is_held_back=options.held_back))


def _shown_whole(options: argparse.Namespace) -> Iterator[_Cell]:
    """The cells, a line each, with all simple ways."""
    ways = [*WAYS, *(["bound"] if options.bound else [])]
    print(f"| measure | size | n | tokens % | {' | '.join(ways)} | goal | |")
    print(f"|---|--:|--:|--:|{'--:|' * len(ways)}--:|---|")
    for cell in _cells(options):
        print(cell.line(), flush=True)
        for text in list(_missing_needs(cell.results))[: options.missing]:
            print(f"    {text}")
        yield cell


def _shown_best(options: argparse.Namespace) -> Iterator[_Cell]:
    """The cells, a measure each line: facts, the best simple way @ tokens; bold where below."""
    print(f"| measure | {' | '.join(SIZES)} |\n|---|{'--:|' * len(SIZES)}")
    for name, row in groupby(_cells(options), lambda cell: cell.name):
        cells = {cell.size: cell for cell in row}
        texts = [cells[size].short_text() if size in cells else "" for size in SIZES]
        print(f"| {name} | {' | '.join(texts)} |", flush=True)
        yield from cells.values()


def _wishes_line(*, is_held_back: bool) -> str:
    if is_held_back:
        texts = [
            f"{language} {kept} of {total}" + (f" and {false} that are none" if false else "")
            for language, (kept, total, false) in marked_sets.held_back_wishes().items()
        ]
    else:
        texts = [
            f"{name} {kept} of {total}"
            for name, (kept, total) in marked_sets.known_wishes().items()
        ]
    return f"Standing wishes kept as rules: {', '.join(texts)}"


def _cells(options: argparse.Namespace) -> Iterator[_Cell]:
    """The cells of the rows that are chosen, measured by some processes at a time."""
    table = rows(options.more)
    tasks = [
        _Task(
            name,
            options.more,
            size,
            options.held_back,
            _ALL if options.whole else options.most,
            part,
            options.bound,
        )
        for name, row in table.items()
        if row.path.exists() and (not options.rows or name.startswith(tuple(options.rows)))
        for size in row.goals
        if row.is_recorded or not options.held_back
        for part in range(_PROCESSES)
    ]
    with ProcessPoolExecutor(_PROCESSES) as pool:
        done = zip(tasks, pool.map(results, tasks), strict=True)
        for (name, size), parts in groupby(done, lambda pair: (pair[0].row, pair[0].size)):
            pairs = [pair for _, part in parts for pair in part]
            measured = [result for result, _ in pairs]
            if any(result.needed for result in measured):
                bounds = [bound for _, bound in pairs if bound is not None]
                yield _Cell(name, size, table[name].goals[size], measured, bounds)


def _missing_needs(them: Sequence[CaseMeasure]) -> Iterator[str]:
    """The needs that facts miss; those that a simple way keeps come first."""
    missing = [
        (way, result.name, need)
        for result in them
        for need in result.needed
        if need not in result.kept[FACTS]
        for way in [next((w for w in WAYS if need in result.kept[w]), "")]
    ]
    for way, name, need in sorted(missing, key=lambda entry: not entry[0]):
        yield f"{name}: {' + '.join(need)}{f' (kept by {way})' if way else ''}"


if __name__ == "__main__":
    main()
