"""Finds the text that recurs in many conversations' instructions, and the gaps between.

A place is known by a unit that stands once. Where most of the instructions repeat themselves, as
those of a first try do (one sentence two hundred times), it is known by which of the repetitions
stands there, as long as their number is the same.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from proxy.prefix.layouts.samples import ConversationSample, SeenUnit, Variant, conversation_counts

#: Conversations of a template in which a text must recur; half of them where they are fewer.
MIN_CONVERSATIONS: Final = 5
#: Units in a gap above which it is one column.
MAX_COLUMNS: Final = 16
#: Least share of the variants that hold a unit of the skeleton.
MIN_VARIANT_SHARE: Final = 0.9
#: Units that one which wanders may pass for all of them to be taken as shuffled.
MAX_PASSED_UNITS: Final = 8
_SHARED_UNITS_DIVISOR: Final = 2  # share at least one unit in so many
#: One in so many bytes must repeat for places to be known by repetitions.
_REPEATED_BYTES_DIVISOR: Final = 2


class UnitPlace(NamedTuple):
    """A unit that a place is known by.

    Attributes:
        print: Its fingerprint.
        nth: The repetition that it is, from 0.
        total: Number of times that the unit stands in the instructions.
    """

    print: bytes
    nth: int
    total: int


class Neighbour(NamedTuple):
    """A unit beside a gap, and how its place is known."""

    unit: SeenUnit
    mark: UnitPlace


class Column(msgspec.Struct, frozen=True):
    """Units that stand at one place of a gap.

    Attributes:
        index: The first of them among the gap's units, blank ones not counted.
        of: Number of units that the gap has everywhere; 0 where that differs and the column is all
            of it.
        values: Values there by conversation and variant, as fingerprints.
        example: Units there in one variant.
        line: The number of its first line in that variant, from 1.
    """

    index: int
    of: int
    line: int
    values: tuple[tuple[tuple[bytes, ...], ...], ...]
    example: tuple[SeenUnit, ...]


class Gap(msgspec.Struct, frozen=True):
    """Between two units of the skeleton.

    Attributes:
        before: The unit in front; None at the start.
        after: The unit behind; None at the end.
        columns: Its columns; none where everything in it is the same everywhere.
        weight: Bytes between the two in one variant.
        samples: The conversations that the values of columns stand for.
    """

    before: Neighbour | None
    after: Neighbour | None
    columns: tuple[Column, ...]
    weight: int
    samples: tuple[ConversationSample, ...]


def group_by_template(samples: Sequence[ConversationSample]) -> list[list[ConversationSample]]:
    """The conversations by template: those that share most of what recurs; no small groups."""
    least = max(1, min(MIN_CONVERSATIONS, len(samples) // 2))
    recurring = {mark for mark, count in conversation_counts(samples).items() if count >= least}
    templates: list[tuple[frozenset[Hashable], list[ConversationSample]]] = []
    for sample in samples:
        marks = frozenset(
            mark for v in sample.variants.values() for mark in _recurring_marks(v, recurring)
        )
        for founder, members in templates:
            if marks and len(marks & founder) * _SHARED_UNITS_DIVISOR >= len(marks | founder):
                members.append(sample)
                break
        else:
            templates.append((marks, [sample]))
    return [members for _, members in templates if len(members) >= least]


def find_gaps(group: Sequence[ConversationSample]) -> list[Gap]:
    """The gaps between the units that recur in a group, from the start to the end; or none."""
    first = next((v for sample in group for v in sample.variants.values()), ())
    repeats = _is_repetitive(first)
    every = [
        [(v, _unit_places(v, repeats=repeats)) for v in sample.variants.values()]
        for sample in group
    ]
    common = _common_units([once for variants in every for _, once in variants])
    fits = [[(v, once) for v, once in vs if common <= once.keys()] for vs in every]
    members = tuple(sample for sample, vs in zip(group, fits, strict=True) if vs)
    fits = [variants for variants in fits if variants]
    marks = _without_movers([once for variants in fits for _, once in variants], common)
    if not marks:
        return []
    places = [[_Places(variant, marks, once) for variant, once in vs] for vs in fits]
    return [_make_gap(places, number, members) for number in range(len(marks) + 1)]


class _Places:
    """The positions of the units of the skeleton in a variant."""

    def __init__(
        self, variant: Variant, marks: Sequence[UnitPlace], places: Mapping[UnitPlace, int]
    ) -> None:
        self.variant = variant
        self._marks = marks
        self.stands = [-1, *(places[mark] for mark in marks), len(variant)]

    def units_between(self, gap: int) -> Variant:
        """The units between two of them."""
        return self.variant[self.stands[gap] + 1 : self.stands[gap + 1]]

    def unit_lines(self, gap: int) -> list[int]:
        """The number of the line of each unit with words between two of them, from 1."""
        line = 1 + sum(u.lines for u in self.variant[: self.stands[gap] + 1])
        lines = []
        for unit in self.units_between(gap):
            lines += [line] if unit.size else []
            line += unit.lines
        return lines or [line]

    def unit_at(self, number: int) -> Neighbour | None:
        """One of them; None for the start and the end."""
        if not 0 < number <= len(self._marks):
            return None
        return Neighbour(self.variant[self.stands[number]], self._marks[number - 1])


def _common_units(every: Sequence[Mapping[UnitPlace, int]]) -> frozenset[UnitPlace]:
    """The units that nearly all variants have; those of all where few have every one."""
    count = Counter(mark for once in every for mark in once)
    nearly = frozenset(m for m, n in count.items() if n >= MIN_VARIANT_SHARE * len(every))
    if sum(nearly <= once.keys() for once in every) >= MIN_VARIANT_SHARE * len(every):
        return nearly
    return frozenset(m for m, n in count.items() if n == len(every))


def _without_movers(
    every: Sequence[Mapping[UnitPlace, int]], common: frozenset[UnitPlace]
) -> list[UnitPlace]:
    """The common units, without those that change places and the few they change places with."""
    order = [mark for mark in every[0] if mark in common]
    for places in every[1:]:
        order = _longest_rising_run(order, [places[mark] for mark in order])
    stands = [[places[mark] for mark in order] for places in every]
    shuffled: set[UnitPlace] = set()
    for mark in common.difference(order):
        ranks = [
            bisect_left(positions, places[mark])
            for positions, places in zip(stands, every, strict=True)
        ]
        if max(ranks) - min(ranks) <= MAX_PASSED_UNITS:
            shuffled.update(order[min(ranks) : max(ranks)])
    return [mark for mark in order if mark not in shuffled]


def _recurring_marks(variant: Variant, recurring: AbstractSet[bytes]) -> Iterator[Hashable]:
    """The units that recur; each repetition where the instructions are little else."""
    if not _is_repetitive(variant):
        return (unit.print for unit in variant if unit.print in recurring)
    return (p for p in _unit_places(variant, repeats=True) if p.print in recurring)


def _is_repetitive(variant: Variant) -> bool:
    """True if most of the instructions are units that stand more than once."""
    counts = Counter(unit.print for unit in variant)
    if len(counts) == len(variant):
        return False
    repeated = sum(u.weight for u in variant if u.telling and counts[u.print] > 1)
    return repeated * _REPEATED_BYTES_DIVISOR > sum(unit.weight for unit in variant)


def _unit_places(variant: Variant, *, repeats: bool) -> dict[UnitPlace, int]:
    """The telling units that stand once, or all of them, and where."""
    counts = Counter(unit.print for unit in variant)
    before: Counter[bytes] = Counter()
    places: dict[UnitPlace, int] = {}
    for number, unit in enumerate(variant):
        total = counts[unit.print]
        if unit.telling and (repeats or total == 1):
            places[UnitPlace(unit.print, before[unit.print], total)] = number
        before[unit.print] += 1
    return places


def _longest_rising_run(marks: Sequence[UnitPlace], places: Sequence[int]) -> list[UnitPlace]:
    """As many of the marks as stand in rising places."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, place in enumerate(places):
        rank = bisect_left(ends, place)
        ends[rank : rank + 1] = [place]
        last[rank : rank + 1] = [number]
        before.append(last[rank - 1] if rank else -1)
    run: list[UnitPlace] = []
    number = last[-1] if last else -1
    while number >= 0:
        run.append(marks[number])
        number = before[number]
    return run[::-1]


def _make_gap(
    places: Sequence[Sequence[_Places]], number: int, samples: tuple[ConversationSample, ...]
) -> Gap:
    one = places[0][0]
    every = [
        [tuple(unit for unit in p.units_between(number) if unit.size) for p in variants]
        for variants in places
    ]
    lines = one.unit_lines(number)
    return Gap(
        before=one.unit_at(number),
        after=one.unit_at(number + 1),
        columns=tuple(_varying_columns(every, lines)),
        weight=sum(u.weight for u in one.units_between(number)),
        samples=samples,
    )


def _varying_columns(every: Sequence[Sequence[Variant]], lines: Sequence[int]) -> Iterator[Column]:
    """The columns that are not the same everywhere."""
    sizes = {len(variant) for variants in every for variant in variants}
    count = max(sizes)
    spans = [(0, 0, slice(None))]
    if len(sizes) == 1 and count <= MAX_COLUMNS:
        spans = [(index, count, slice(index, index + 1)) for index in range(count)]
    for index, of, span in spans:
        values = tuple(tuple(tuple(u.print for u in v[span]) for v in vs) for vs in every)
        if len({value for conversation in values for value in conversation}) > 1:
            yield Column(index, of, lines[index], values, every[0][0][span])
