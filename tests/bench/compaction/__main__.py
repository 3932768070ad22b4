# ruff: noqa: T201 - a script prints its result

"""Prints what facts keep beside five simple ways at the same tokens, and the goals.

Recorded sets lie outside the repository; rows without theirs are left out. A third of each recorded
set is held back, by the hash of a dialogue's name: ``--held-back`` prints that alone, for a last
look; tune by the rest.

Usage: python -m tests.bench.compaction [ROW …] [--whole] [--held-back] [--missing N] [--most N]
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.bench.compaction import agent_sets, chat_sets
from tests.bench.compaction.cases import ChatCase, is_held_back, sample
from tests.bench.compaction.measuring import FACTS, WAYS, CaseResult, measure

#: Most dialogues of a row without ``--whole``.
_MOST: Final = 60
_PROCESSES: Final = 2
ChatReader = Callable[[], Sequence[chat_sets.AnnotatedChat]]
#: Percent points below which a difference is none.
_TIE: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Row:
    """A measure.

    Attributes:
        cases: Its cases.
        path: File or folder that must be there for them.
        goals: Percent to keep, by the part of the tokens to come down to; 0 for no target.
    """

    cases: Callable[[], Iterable[ChatCase]]
    path: Path
    goals: Mapping[float, float]


def _named_later(read: ChatReader, path: Path) -> Row:
    """Values that only the assistant said and anybody names after the call."""
    return Row(cases=lambda: chat_sets.named_again(read()), path=path, goals={0: 97, 0.5: 90})


def _named_before(read: ChatReader, path: Path) -> Row:
    """The same in long chats, up to the call: all that was named again at any time."""
    return Row(
        cases=lambda: chat_sets.named_before(chat_sets.in_fours(read())),
        path=path,
        goals={0: 97, 0.5: 90, 0.25: 0},
    )


@cache
def rows(more: Path) -> Mapping[str, Row]:
    """All rows, by name.

    Args:
        more: Folder of further sets, laid out as the recorded ones.
    """
    chinese_path = more / chat_sets.CROSSWOZ
    chinese = partial(chat_sets.crosswoz, chinese_path)
    return {
        "τ-bench: values of later calls": Row(
            cases=agent_sets.tau_values,
            path=agent_sets.TAU,
            goals={0: 100, 0.5: 100, 0.4: 97, 0.25: 80},
        ),
        "τ-bench: pairs of them": Row(
            cases=agent_sets.tau_pairs,
            path=agent_sets.TAU,
            goals={0: 100, 0.5: 100, 0.4: 95, 0.25: 70},
        ),
        "MultiWOZ: named later": _named_later(chat_sets.multiwoz, chat_sets.MULTIWOZ),
        "English (SGD): named later": _named_later(chat_sets.sgd, chat_sets.SGD),
        "Chinese (CrossWOZ): named later": _named_later(chinese, chinese_path),
        "SGD: proposals accepted": Row(
            cases=lambda: chat_sets.accepted_proposals(chat_sets.sgd()),
            path=chat_sets.SGD,
            goals={0: 98, 0.5: 95},
        ),
        "MultiWOZ, four in a row: named again": _named_before(
            chat_sets.multiwoz, chat_sets.MULTIWOZ
        ),
        "English (SGD), four in a row: named again": _named_before(chat_sets.sgd, chat_sets.SGD),
        "Chinese (CrossWOZ), four in a row: named again": _named_before(chinese, chinese_path),
        "SGD, four in a row: proposals accepted": Row(
            cases=lambda: chat_sets.accepted_proposals(chat_sets.in_fours(chat_sets.sgd())),
            path=chat_sets.SGD,
            goals={0: 98, 0.5: 95, 0.25: 0},
        ),
    }


@dataclass(frozen=True)
class _Task:
    """A part of a row that one process measures."""

    row: str
    more: Path
    share: float
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
    cases: int = 0
    kept: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))

    def add(self, result: CaseResult) -> None:
        """Add a case."""
        self.needed += len(result.needed)
        self.before += result.before
        self.after += result.after
        self.missed += result.is_missed
        self.cases += 1
        for way, kept in result.kept.items():
            self.kept[way] += sum(need in kept for need in result.needed)


def results(task: _Task) -> list[CaseResult]:
    """The results of a task's cases."""
    cases = [
        case
        for case in rows(task.more)[task.row].cases()
        if is_held_back(case.name) == task.is_held_back
    ]
    chosen = set(sample({case.name for case in cases}, task.most)[task.part :: _PROCESSES])
    return [measure(case, task.share) for case in cases if case.name in chosen]


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
        _Task(name, options.more, share, options.held_back, most, part)
        for name in names
        for share in table[name].goals
        for part in range(_PROCESSES)
    ]
    print(f"| measure | size | n | tokens % | {' | '.join(WAYS)} | goal | |")
    print(f"|---|--:|--:|--:|{'--:|' * len(WAYS)}--:|---|")
    with ProcessPoolExecutor(_PROCESSES) as pool:
        done = zip(tasks, pool.map(results, tasks), strict=True)
        for (name, share), parts in groupby(done, lambda pair: (pair[0].row, pair[0].share)):
            them = [result for _, part in parts for result in part]
            print(_line(name, share, table[name].goals[share], them), flush=True)
            for text in list(_missing(them))[: options.missing]:
                print(f"    {text}")


def _line(name: str, share: float, goal: float, them: Sequence[CaseResult]) -> str:
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
        marks.append(f"{cell.missed} of {cell.cases} over target")
    figures = " | ".join(f"{percent[way]:.1f}" for way in WAYS)
    size = f"{share:.0%}" if share else "none"
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
