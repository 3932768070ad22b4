"""The last rung: as much of a part as there is room for, by what it is worth."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Final

from compaction.facts.fact import Fact, Kind
from compaction.facts.part import Part
from compaction.facts.rendering import rendered
from compaction.facts.users import MOST, users
from compaction.facts.values import Kept, Told, bag, ranked, seen
from compaction.reading.message import Count, Voice

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


class Fitting:
    """A part on the last rung, read once however little room there is.

    Args:
        part: What is folded.
        facts: All it could say, on the rung before.
        count: Counts tokens.
        them: The values that its messages tell.
    """

    def __init__(
        self, part: Part, facts: Sequence[Fact], count: Count, them: Sequence[Told]
    ) -> None:
        spoken = part.spoken(Voice.USER)
        self._part = part
        self._count = count
        self._standing = [fact for fact in facts if fact.kind in _MARKS]
        self._rest = _Rest(facts, them, count)
        self._longest = max((len(message.text) for _, message in spoken), default=0)
        self._capped: dict[int, tuple[tuple[Fact, ...], int]] = {}

    def within(self, most: int, least: int) -> tuple[Fact, ...]:
        """What stands in so many tokens: users' words first, then the newest of the rest.

        Args:
            most: Tokens of the text.
            least: Tokens for the rest where the words alone are more: it is missed anyway.
        """
        words, taken = self._words(most)
        most = most if taken <= most else taken + least
        room = most - taken
        for _ in range(_TRIES):
            if room <= _AROUND:
                break
            found = _Room(room, self._count).filled(self._part, words, self._rest)
            over = self._count(self._text(found)) - most
            if over <= 0:
                return found
            room = int((room - over) * _LESS)
        return words

    def _words(self, most: int) -> tuple[tuple[Fact, ...], int]:
        """What users said, each message as long as there is room for, and the tokens of it.

        What they wish for all that follows stays whatever room there is.
        """
        words, taken = self._cut(CAPS[0])
        for cap in CAPS[1:]:
            if taken <= _WORDS * most:
                break
            words, taken = self._cut(cap)
        return words, taken

    def _cut(self, cap: int) -> tuple[tuple[Fact, ...], int]:
        """What users said, in messages of so many characters, and the tokens of it."""
        cap = min(cap, self._longest) if self._longest > SHORT else 0
        if cap not in self._capped:
            words = _ordered(chain(self._standing, users(self._part, cap, SHORT)))
            self._capped[cap] = words, self._count(self._text(words))
        return self._capped[cap]

    def _text(self, facts: Sequence[Fact]) -> str:
        return rendered(facts, self._part.region.notes, self._part.region.part)


class _Rest:
    """What may stand beside users' words, the worthiest first.

    Attributes:
        deeds: What was done and went wrong, each with its tokens.
        calls: The other calls.
        values: The values that the messages tell, in their order.
        ranked: The same by what they are worth.
    """

    def __init__(self, facts: Sequence[Fact], them: Sequence[Told], count: Count) -> None:
        others = [
            each for each in facts if each.kind not in _SPOKEN and each.kind is not Kind.VALUE
        ]
        newest = sorted(others, key=lambda fact: fact.messages[-1], reverse=True)
        sized = [(fact, count(fact.text) + _AROUND) for fact in newest]
        self.deeds = [each for each in sized if each[0].kind in _DONE]
        self.calls = [each for each in sized if each[0].kind not in _DONE]
        found = seen(them)
        self.values = list(found)
        self.ranked = ranked(found)


class _Room:
    """Tokens, and what they are spent on."""

    __slots__ = ("_count", "_left")

    def __init__(self, tokens: int, count: Count) -> None:
        self._left = tokens
        self._count = count

    def filled(self, part: Part, words: Sequence[Fact], rest: _Rest) -> tuple[Fact, ...]:
        """The words, and of the rest what there is room for."""
        deeds = self._facts(rest.deeds, _DEEDS)
        stands = Kept("\n".join([fact.text for fact in chain(words, deeds)]))
        found = [value for value in rest.ranked if value not in stands]
        some = self._values(found, _VALUES)
        calls = self._facts(rest.calls, 1.0)
        some |= self._values([value for value in found if value not in some], 1.0)
        stays = [value for value in rest.values if value in some]
        return (*_ordered(chain(words, deeds, calls)), *bag(part, stays))

    def _facts(self, facts: Iterable[tuple[Fact, int]], share: float) -> list[Fact]:
        """Those of the facts for which a share of the room is enough, the first ones first."""
        room = int(self._left * share)
        found = []
        for fact, size in facts:
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


def _ordered(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(sorted(facts, key=lambda fact: fact.messages[-1]))
