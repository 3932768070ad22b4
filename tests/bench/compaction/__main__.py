# ruff: noqa: T201 - a script prints its result

"""Prints what facts keep beside five simple ways at the same tokens, and the goals.

Recorded sets lie outside the repository; rows without theirs are left out. A third of each recorded
set is held back, by the hash of a dialogue's name: ``--held-back`` prints that alone, for a last
look; tune by the rest.

Usage: python -m tests.bench.compaction [ROW …] [--whole] [--held-back] [--missing N] [--most N]
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.bench.compaction import chat_sets, marked_sets
from tests.bench.compaction.cases import is_held_back, sample
from tests.bench.compaction.measuring import FACTS, WAYS, CaseResult, measure
from tests.bench.compaction.rows import SIZES, rows

#: Most dialogues of a row without ``--whole``.
_MOST: Final = 60
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


@dataclass
class _Cell:
    """The sums of a row at one size."""

    needed: int = 0
    before: int = 0
    after: int = 0
    missed: int = 0
    too_small: int = 0
    cases: int = 0
    kept: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))

    def add(self, result: CaseResult) -> None:
        """Add a case."""
        self.needed += len(result.needed)
        self.before += result.before
        self.after += result.after
        self.missed += result.is_missed
        self.too_small += result.is_missed and result.is_too_small
        self.cases += 1
        for way, kept in result.kept.items():
            self.kept[way] += sum(need in kept for need in result.needed)


def results(task: _Task) -> list[CaseResult]:
    """The results of a task's cases."""
    row = rows(task.more)[task.row]
    cases = [
        case
        for case in row.cases()
        if not row.is_recorded or is_held_back(case.name) == task.is_held_back
    ]
    chosen = set(sample({case.name for case in cases}, task.most)[task.part :: _PROCESSES])
    return [measure(case, *SIZES[task.size]) for case in cases if case.name in chosen]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("rows", nargs="*", help="rows by the beginning of their names")
    parser.add_argument("--whole", action="store_true", help="take every dialogue")
    parser.add_argument("--held-back", action="store_true", help="the third held back alone")
    parser.add_argument("--most", type=int, default=_MOST, help="dialogues of a row")
    parser.add_argument("--missing", type=int, default=0, help="name so much that facts miss")
    parser.add_argument("--more", type=Path, default=chat_sets.DATA, help="folder of CrossWOZ")
    options = parser.parse_args()
    table = rows(options.more)
    names = [
        name
        for name, row in table.items()
        if row.path.exists() and (not options.rows or name.startswith(tuple(options.rows)))
    ]
    most = 1_000_000 if options.whole else options.most
    tasks = [
        _Task(name, options.more, size, options.held_back, most, part)
        for name in names
        for size in table[name].goals
        if table[name].is_recorded or not options.held_back
        for part in range(_PROCESSES)
    ]
    print(f"| measure | size | n | tokens % | {' | '.join(WAYS)} | goal | |")
    print(f"|---|--:|--:|--:|{'--:|' * len(WAYS)}--:|---|")
    with ProcessPoolExecutor(_PROCESSES) as pool:
        done = zip(tasks, pool.map(results, tasks), strict=True)
        for (name, size), parts in groupby(done, lambda pair: (pair[0].row, pair[0].size)):
            them = [result for _, part in parts for result in part]
            print(_line(name, size, table[name].goals[size], them), flush=True)
            for text in list(_missing(them))[: options.missing]:
                print(f"    {text}")
    if not options.held_back and (not options.rows or "wishes" in options.rows):
        known = marked_sets.known_wishes()
        print("\nStanding wishes kept as rules, of 3:", end=" ")
        print(", ".join(f"{name} {number}" for name, number in known.items()))


def _line(name: str, size: str, goal: float, them: Sequence[CaseResult]) -> str:
    cell = _Cell()
    for result in them:
        cell.add(result)
    percent = {way: 100 * kept / max(1, cell.needed) for way, kept in cell.kept.items()}
    best = max(percent[way] for way in WAYS if way != FACTS)
    marks = []
    if percent[FACTS] < best - _TIE:
        marks.append(f"**{percent[FACTS] - best:+.1f}**")
    if percent[FACTS] < goal - _TIE:
        marks.append("short of goal")
    if cell.missed:
        marks.append(f"{cell.missed} of {cell.cases} over target, {cell.too_small} had to be")
    figures = " | ".join(f"{percent[way]:.1f}" for way in WAYS)
    tokens = f"{100 * cell.after / max(1, cell.before):.1f}"
    cells = [name, size, str(cell.needed), tokens, figures, f"{goal:g}" if goal else ""]
    return f"| {' | '.join(cells)} | {', '.join(marks)} |"


def _missing(them: Sequence[CaseResult]) -> Iterator[str]:
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
