# ruff: noqa: T201 - a script prints its result

"""Share of what later calls need that survives compaction and simpler ways, on recordings.

Every method shortens the same parts, in one run; see ``compaction_metrics`` for what is counted and
``compaction_sets`` for where dialogues are cut. Tokens are o200k's.

Parts of any size are compacted here. A policy leaves short ones alone unless it is told to;
``--least`` does the same.

Usage: python -m tests.bench.compaction_retention [TABLE…] [--every N] [--least TOKENS] [--later]
    [--lost] [--ours]
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tests.bench.compaction_baselines import baselines
from tests.bench.compaction_methods import our_methods
from tests.bench.compaction_metrics import (
    RECORD,
    SAID,
    CompactedRange,
    Method,
    Scale,
    Score,
    Tokens,
)
from tests.bench.compaction_sets import TABLES, cuts
from tests.fakes.dialogue import words

#: Whole chats of 100,000 tokens: one in so many cuts is enough.
_SPARSE: Mapping[str, int] = {"pi-mono": 4, "goodai, K=3": 6}


def methods(count: Tokens, keep: int) -> Mapping[str, Method]:
    """All ways, by name."""
    return {**baselines(count), **our_methods(count, keep)}


def scores(
    them: Sequence[CompactedRange], ways: Mapping[str, Method], scale: Scale
) -> Iterator[tuple[str, Score]]:
    """The values that each way keeps of the same cuts."""
    for name, way in ways.items():
        yield name, scale.score(them, way)


def head(score: Score) -> str:
    """The first rows of a table; what was at risk stands beside its name."""
    kinds = [f"{kind}s % (n={number})" for kind, number in sorted(score.needed.items())]
    pairs = [f"pairs % (n={score.pairs[RECORD]})", f"said pairs % (n={score.pairs[SAID]})"]
    columns = [*kinds, *pairs, f"tokens % (of {score.before:,})"]
    return f"| | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}"


def row(name: str, score: Score) -> str:
    """A way's row."""
    recalls = [score.recall(kind) for kind in sorted(score.needed)]
    figures = [*recalls, score.bound_percent(), score.bound_percent(SAID), score.share]
    return f"| {name} | {' | '.join(f'{figure:.1f}' for figure in figures)} |"


def sample_of_cuts(table: str, every: int, least: int, count: Tokens) -> list[CompactedRange]:
    """The cuts of a table that are looked at."""
    them = cuts(table, every)[:: _SPARSE.get(table, 1)]
    return [cut for cut in them if sum(count(words(message)) for message in cut.part) >= least]


def further(cut: CompactedRange) -> CompactedRange:
    """The same with all calls that are still to come looked at, not the next ones alone."""
    return replace(cut, calls=tuple(need for need in cut.dialogue.needs if need >= cut.calls[0]))


def main() -> None:
    """Print a table for each set as markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    parser.add_argument("--every", type=int, default=1, help="take every so manieth dialogue")
    parser.add_argument("--least", type=int, default=0, help="leave shorter parts out")
    parser.add_argument("--later", action="store_true", help="look at all later calls")
    parser.add_argument("--lost", action="store_true", help="name what was lost")
    parser.add_argument("--ours", action="store_true", help="leave the simpler ways out")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(TABLES):
        parser.error(f"no such set: {', '.join(sorted(unknown))}; there are: {', '.join(TABLES)}")
    count = Tokens()
    for table in options.tables:
        them = sample_of_cuts(table, options.every, options.least, count)
        them = [further(cut) for cut in them] if options.later else them
        keep = TABLES[table][2]
        ways = our_methods(count, keep) if options.ours else methods(count, keep)
        print(
            f"\n### {table}: {len({c.dialogue.name for c in them})} dialogues, {len(them)} cuts\n"
        )
        for index, (name, score) in enumerate(scores(them, ways, Scale(count))):
            print(*([head(score)] if index == 0 else []), row(name, score), sep="\n", flush=True)
            if options.lost and name in our_methods(count, keep):
                print(*(f"    lost: {pair}" for pair in score.lost[:20]), sep="\n")
                print(*(f"    parted: {pair}" for pair in score.parted[:20]), sep="\n")


if __name__ == "__main__":
    main()
