"""Finds the text that recurs in many conversations' instructions, and the gaps between."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

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


class Column(msgspec.Struct, frozen=True):
    """Units that stand at one place of a gap.

    Attributes:
        at: The first of them among the gap's units, blank ones not counted.
        of: Number of units that the gap has everywhere; 0 where that differs and the column is all
            of it.
        values: Values there by conversation and variant, as fingerprints.
        example: Units there in one variant.
        line: The number of its first line in that variant, from 1.
    """

    at: int
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

    before: SeenUnit | None
    after: SeenUnit | None
    columns: tuple[Column, ...]
    weight: int
    samples: tuple[ConversationSample, ...]


def group_by_template(samples: Sequence[ConversationSample]) -> list[list[ConversationSample]]:
    """The conversations by template: those that share most of what recurs; no small groups."""
    least = max(1, min(MIN_CONVERSATIONS, len(samples) // 2))
    recurring = {mark for mark, count in conversation_counts(samples).items() if count >= least}
    found: list[tuple[frozenset[bytes], list[ConversationSample]]] = []
    for sample in samples:
        marks = frozenset(
            u.print for v in sample.variants.values() for u in v if u.print in recurring
        )
        for founder, members in found:
            if marks and len(marks & founder) * _SHARED_UNITS_DIVISOR >= len(marks | founder):
                members.append(sample)
                break
        else:
            found.append((marks, [sample]))
    return [members for _, members in found if len(members) >= least]


def find_gaps(group: Sequence[ConversationSample]) -> list[Gap]:
    """The gaps between the units that recur in a group, from the start to the end; or none."""
    every = [[(v, _unique_units(v)) for v in sample.variants.values()] for sample in group]
    common = _common_units([once for variants in every for _, once in variants])
    fits = [[(v, once) for v, once in vs if common <= once.keys()] for vs in every]
    members = tuple(sample for sample, vs in zip(group, fits, strict=True) if vs)
    fits = [variants for variants in fits if variants]
    marks = _without_movers([once for variants in fits for _, once in variants], common)
    if not marks:
        return []
    places = [[_Places(variant, marks) for variant, _ in variants] for variants in fits]
    return [_make_gap(places, number, members) for number in range(len(marks) + 1)]


class _Places:
    """The positions of the units of the skeleton in a variant."""

    def __init__(self, variant: Variant, marks: Sequence[bytes]) -> None:
        wanted = frozenset(marks)
        self.variant = variant
        self.stands = [-1, *(n for n, u in enumerate(variant) if u.print in wanted), len(variant)]

    def units_between(self, gap: int) -> Variant:
        """The units between two of them."""
        return self.variant[self.stands[gap] + 1 : self.stands[gap + 1]]

    def unit_lines(self, gap: int) -> list[int]:
        """The number of the line of each unit with words between two of them, from 1."""
        line = 1 + sum(u.lines for u in self.variant[: self.stands[gap] + 1])
        found = []
        for unit in self.units_between(gap):
            found += [line] if unit.size else []
            line += unit.lines
        return found or [line]

    def unit_at(self, mark: int) -> SeenUnit | None:
        """One of them; None for the start and the end."""
        at = self.stands[mark]
        return self.variant[at] if 0 <= at < len(self.variant) else None


def _common_units(every: Sequence[Mapping[bytes, int]]) -> frozenset[bytes]:
    """The units that nearly all variants have; those of all where few have every one."""
    count = Counter(mark for once in every for mark in once)
    nearly = frozenset(m for m, n in count.items() if n >= MIN_VARIANT_SHARE * len(every))
    if sum(nearly <= once.keys() for once in every) >= MIN_VARIANT_SHARE * len(every):
        return nearly
    return frozenset(m for m, n in count.items() if n == len(every))


def _without_movers(every: Sequence[Mapping[bytes, int]], common: frozenset[bytes]) -> list[bytes]:
    """The common units, without those that change places and the few they change places with."""
    order = [mark for mark in every[0] if mark in common]
    for places in every[1:]:
        order = _longest_rising_run(order, [places[mark] for mark in order])
    stands = [[places[mark] for mark in order] for places in every]
    shuffled: set[bytes] = set()
    for mark in common.difference(order):
        ranks = [bisect_left(at, each[mark]) for at, each in zip(stands, every, strict=True)]
        if max(ranks) - min(ranks) <= MAX_PASSED_UNITS:
            shuffled.update(order[min(ranks) : max(ranks)])
    return [mark for mark in order if mark not in shuffled]


def _unique_units(variant: Variant) -> dict[bytes, int]:
    """The telling units that stand once, and where."""
    found: dict[bytes, int] = {}
    twice = set()
    for number, unit in enumerate(variant):
        if unit.print in found:
            twice.add(unit.print)
        found[unit.print] = number
    return {m: n for m, n in found.items() if m not in twice and variant[n].telling}


def _longest_rising_run(marks: Sequence[bytes], places: Sequence[int]) -> list[bytes]:
    """As many of the marks as stand in rising places."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, place in enumerate(places):
        at = bisect_left(ends, place)
        ends[at : at + 1] = [place]
        last[at : at + 1] = [number]
        before.append(last[at - 1] if at else -1)
    found: list[bytes] = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(marks[number])
        number = before[number]
    return found[::-1]


def _make_gap(
    places: Sequence[Sequence[_Places]], number: int, samples: tuple[ConversationSample, ...]
) -> Gap:
    one = places[0][0]
    every = [[_worded_units(p.units_between(number)) for p in variants] for variants in places]
    lines = one.unit_lines(number)
    return Gap(
        before=one.unit_at(number),
        after=one.unit_at(number + 1),
        columns=tuple(_varying_columns(every, lines)),
        weight=sum(u.weight for u in one.units_between(number)),
        samples=samples,
    )


def _worded_units(variant: Variant) -> Variant:
    return tuple(unit for unit in variant if unit.size)


def _varying_columns(every: Sequence[Sequence[Variant]], lines: Sequence[int]) -> Iterator[Column]:
    """The columns that are not the same everywhere."""
    sizes = {len(variant) for variants in every for variant in variants}
    count = max(sizes)
    spans = [(0, 0, slice(None))]
    if len(sizes) == 1 and count <= MAX_COLUMNS:
        spans = [(at, count, slice(at, at + 1)) for at in range(count)]
    for at, of, span in spans:
        values = tuple(tuple(tuple(u.print for u in v[span]) for v in vs) for vs in every)
        if len({value for told in values for value in told}) > 1:
            yield Column(at, of, lines[at], values, every[0][0][span])
