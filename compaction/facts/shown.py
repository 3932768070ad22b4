"""The names in results that stay: one room, shared out over a whole part."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log2
from typing import Final

from compaction.facts.call_lines import arguments
from compaction.facts.fact import Kind
from compaction.facts.region_contents import Exchange, Part
from compaction.reading.redaction import redacted
from compaction.reading.token_estimate import estimate
from compaction.results.json_values import Unreadable
from compaction.results.rereadable_results import PATH, Names, shown
from compaction.results.value_leaves import strings

#: The share of a part's tokens that paths and names may take, and of that room the paths'.
_SHARE: Final = 0.15
_PATHS: Final = 0.75
#: Tokens that a short part has in any case.
_LEAST: Final = 100
#: After so many further calls a name counts half.
_HALF: Final = 6
#: Folders of a path that are looked at.
_DEEPEST: Final = 16
#: Facts whose lines name what was shown, each name by itself.
_NAMING: Final = (Kind.COMMAND, Kind.FILE)
_words = re.compile(r"[\w.@/+~%#-]+").findall
_parts = re.compile(r"\w+").findall


class _Seen:
    """A name: how telling it is, how many calls told of it, and the last that stays."""

    __slots__ = ("last", "times", "weight")

    def __init__(self) -> None:
        self.weight = 0
        self.times = 0
        self.last = 0


def names(
    part: Part, said: Mapping[int, str], latest: Sequence[int], share: float
) -> tuple[dict[int, list[str]], set[int]]:
    """The names that stay for each exchange, and the exchanges that showed more than they say.

    The most telling names of the part stay. A name counts more the later it was shown, the more
    calls told of it, and where it was defined or called. It stays with the exchange that showed it
    last, unless that says it already.

    Args:
        part: What is folded.
        said: What is said of each exchange that stays, by its place.
        latest: The place of the last call that is equal to each.
        share: How much of the room that there is may be taken.
    """
    came: dict[int, Mapping[str, int]] = {}
    seen = _seen(part, said, latest, came)
    here = len(part.exchanges)
    stood = _stood(part)
    new = [name for name in seen if name not in stood]
    ranked = sorted(new, key=lambda name: _score(seen[name], here), reverse=True)
    room = _Room(seen, said)
    paths = [name for name in ranked if seen[name].weight == PATH]
    size = max(_LEAST, weight(part) * _SHARE) * share
    left = room.take(paths, size * _PATHS)
    left = room.take(
        (name for name in ranked if seen[name].weight != PATH), size - size * _PATHS + left
    )
    room.take(paths, left)
    told: dict[int, list[str]] = {}
    for name, each in seen.items():
        if name in room.kept:
            told.setdefault(each.last, []).append(name)
    short = {at for at in said if not room.holds(at, came[at])}
    return told, short


class _Room:
    """What of the names is taken."""

    def __init__(self, seen: Mapping[str, _Seen], said: Mapping[int, str]) -> None:
        self.kept: set[str] = set()
        self._seen = seen
        self._said = {at: _covered(text) for at, text in said.items()}

    def take(self, ranked: Iterable[str], room: float) -> float:
        """Take what the room holds and what does not stand on its line yet; what room is left."""
        for name in ranked:
            covered = self._said[self._seen[name].last]
            cost = estimate(name) + 1
            if cost < room and name not in covered:
                room -= cost
                self.kept.add(name)
                _cover(name, covered)
        return room

    def holds(self, at: int, names: Iterable[str]) -> bool:
        """True if all these names stand on the line of an exchange."""
        return self._said[at].issuperset(names)


def weight(part: Part) -> int:
    """The tokens of what is folded."""
    region = part.region
    held = enumerate(region.messages[region.start : region.end], region.start)
    return sum(message.tokens for at, message in held if at not in region.held)


def _stood(part: Part) -> set[str]:
    """The words of the segments before this one: what stands there takes no room again."""
    facts = (fact for each in part.region.earlier for fact in each.facts if fact.kind in _NAMING)
    return {word for fact in facts for word in fact.text.split()}


def _score(name: _Seen, here: int) -> float:
    """How much a name counts; equal ones stay in the order of their first appearance."""
    return name.weight * (1 + log2(name.times)) / (1 + (here - 1 - name.last) / _HALF)


def _seen(
    part: Part,
    said: Mapping[int, str],
    latest: Sequence[int],
    came: dict[int, Mapping[str, int]],
) -> dict[str, _Seen]:
    """The names of a part; those of a call that was made again stand with the last one like it.

    Those of what came back last are put into ``came``.
    """
    seen: dict[str, _Seen] = {}
    known: dict[str, Names] = {}
    for each, stands in zip(part.exchanges, latest, strict=True):
        if stands in said:
            came[stands] = shown(each.result, known)
            told = shown("\n".join(_asked(part, each)), known)
            for name, count in came[stands].items():
                told[name] = max(told.get(name, 0), count)
            for name, weight in told.items():
                held = seen.get(name)
                if held is None:
                    held = seen[name] = _Seen()
                held.weight = max(held.weight, weight)
                held.times += 1
                held.last = stands
    return seen


def _asked(part: Part, each: Exchange) -> Iterator[str]:
    """What the assistant said and asked."""
    yield redacted(part.region.messages[each.messages[0]].text)
    read = arguments(each.called)
    try:
        asked = "\n".join(strings(read)) if read is not None else each.called.arguments
    except Unreadable:
        asked = each.called.arguments
    yield redacted(asked)


def _covered(text: str) -> set[str]:
    """All that stands in a text as a name."""
    covered: set[str] = set()
    for word in _words(text):
        _cover(word, covered)
    return covered


def _cover(word: str, covered: set[str]) -> None:
    """Note what stands where a name does: its parts, and the ends of a path."""
    covered.add(word)
    covered.update(_parts(word))
    steps = word.split("/", _DEEPEST)
    for at in range(1, len(steps)):
        covered.add("/".join(steps[at:]))
        covered.add("/".join(steps[:at]))
