"""The last rung: as much of a part as there is room for, by what it is worth."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Final

from compaction.facts.fact import Fact, Kind
from compaction.facts.part import Part
from compaction.facts.rendering import rendered
from compaction.facts.users import MOST, users
from compaction.facts.values import Told, bag, gathered, ranked
from compaction.reading.message import Count

#: Letters of a user's message that stay: about 2,000 tokens of English, 500, 150 and 40.
CAPS: Final = (MOST, 2_000, 600, 160)
#: Messages up to so many letters are never cut.
SHORT: Final = 600
#: The share of the room that users' words may take before they are cut further.
_WORDS: Final = 0.6
#: Shares of what is then left: for what was done and went wrong, and of the rest for values.
_DEEDS, _VALUES = 0.5, 0.6
#: Tokens around a fact.
_AROUND: Final = 4
#: How often less is tried, and how much less, where the whole is more than its lines.
_TRIES, _LESS = 4, 0.9
_MARKS: Final = frozenset({Kind.GOAL, Kind.RULE})
_SPOKEN: Final = _MARKS | {Kind.USER}
_DONE: Final = frozenset({Kind.ACTION, Kind.FILE, Kind.ERROR})


def fitted(
    part: Part, facts: Sequence[Fact], most: int, least: int, count: Count, them: Sequence[Told]
) -> tuple[Fact, ...]:
    """What stands in so many tokens: users' words first, cut short, then the newest of the rest.

    Args:
        part: What is folded.
        facts: All it could say, on the rung before.
        most: Tokens of the text.
        least: Tokens for the rest where the words alone are more than that: it is missed anyway.
        count: Counts them.
        them: The values that its messages tell.
    """
    words, taken = _words(part, facts, most, count)
    others = [fact for fact in facts if fact.kind not in _SPOKEN and fact.kind is not Kind.VALUE]
    most = most if taken <= most else taken + least
    room = most - taken
    for _ in range(_TRIES):
        if room <= _AROUND:
            break
        found = _Room(room, count).filled(part, words, others, them)
        over = count(_text(part, found)) - most
        if over <= 0:
            return found
        room = int((room - over) * _LESS)
    return words


def _words(
    part: Part, facts: Sequence[Fact], most: int, count: Count
) -> tuple[tuple[Fact, ...], int]:
    """What users said, each message as long as there is room for, and the tokens of it.

    What they wish for all that follows stays whatever room there is.
    """
    standing = [fact for fact in facts if fact.kind in _MARKS]
    found: tuple[Fact, ...] = ()
    taken = 0
    for cap in CAPS:
        found = _ordered(chain(standing, users(part, cap, SHORT)))
        taken = count(_text(part, found))
        if taken <= _WORDS * most:
            break
    return found, taken


class _Room:
    """Tokens, and what they are spent on."""

    __slots__ = ("_count", "_left")

    def __init__(self, tokens: int, count: Count) -> None:
        self._left = tokens
        self._count = count

    def filled(
        self, part: Part, words: Sequence[Fact], others: Sequence[Fact], them: Sequence[Told]
    ) -> tuple[Fact, ...]:
        """The words, and of the rest what there is room for."""
        newest = sorted(others, key=lambda fact: fact.messages[-1], reverse=True)
        deeds = self._facts([fact for fact in newest if fact.kind in _DONE], _DEEDS)
        kept = "\n".join([fact.text for fact in chain(words, deeds)])
        found = gathered(them, kept)
        some = self._values(ranked(found), _VALUES)
        calls = self._facts([fact for fact in newest if fact.kind not in _DONE], 1.0)
        some |= self._values([value for value in ranked(found) if value not in some], 1.0)
        stays = [value for value in found if value in some]
        return (*_ordered(chain(words, deeds, calls)), *bag(part, stays))

    def _facts(self, facts: Iterable[Fact], share: float) -> list[Fact]:
        """Those of the facts for which a share of the room is enough, the first ones first."""
        room = int(self._left * share)
        found = []
        for fact in facts:
            size = self._count(fact.text) + _AROUND
            if size <= room:
                found.append(fact)
                room -= size
                self._left -= size
        return found

    def _values(self, values: Sequence[str], share: float) -> set[str]:
        """The first of the values for which a share of the room is enough."""
        letters = sum(map(len, values)) + len(values)
        each = self._count(" ".join(values)) / max(1, letters)
        most = int(self._left * share) - _AROUND
        taken = [at * each for at in accumulate(len(value) + 1 for value in values)]
        found = values[: bisect_right(taken, most)]
        self._left -= int(taken[len(found) - 1]) + _AROUND if found else 0
        return set(found)


def _text(part: Part, facts: Sequence[Fact]) -> str:
    return rendered(facts, part.region.notes, part.region.part)


def _ordered(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(sorted(facts, key=lambda fact: fact.messages[-1]))
