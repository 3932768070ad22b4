"""The last level: as much of a part as there is room for, by what it is worth.

A record stands with its key and its fields, or goes whole and is named as gone; an action stands
with its outcome, or goes whole. Where that is more than the room there is, the room is exceeded.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Final

import msgspec

from compaction.facts.columns import shared
from compaction.facts.fact import Fact, Kind
from compaction.facts.region_contents import Part
from compaction.facts.rendering import rendered
from compaction.facts.statements import MOST, users
from compaction.facts.values import Kept, bag
from compaction.reading.message import Count, Voice

#: Letters of a user's message that stay: about 2,000 tokens of English, 1,000, 500 … 40.
CAPS: Final = (MOST, 4_000, 2_000, 1_200, 600, 300, 160)
#: Messages up to so many letters are never cut.
SHORT: Final = 600
#: The share of the room that users' words may take before they are cut further.
_WORDS: Final = 0.6
#: Shares of what is then left: for what was done and went wrong, and of the rest for records.
_DEEDS, _RECORDS = 0.3, 1.0
#: The second where names of code may stand too; the share of either that a single line may take.
_COMMANDS, _ONE = 0.8, 0.7
#: Tokens around a fact, and those that name what is gone.
_AROUND, _GONE = 4, 48
#: Tools that are named as gone; more are counted.
_TOOLS: Final = 8
#: Characters of a tool's name there.
_NAME: Final = 64
#: How often less is tried, and how much less, where the whole is more than its lines.
_TRIES, _LESS = 4, 0.9
_MARKS: Final = frozenset({Kind.GOAL, Kind.RULE})
_SPOKEN: Final = _MARKS | {Kind.USER}
_DONE: Final = frozenset({Kind.ACTION, Kind.FILE, Kind.ERROR})
_EXCHANGED: Final = frozenset({Kind.ACTION, Kind.RECORD, Kind.COMMAND})

#: The ways to say the same, the longest first.
Ways = Sequence[Fact]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What may stand in a part.

    Attributes:
        marks: Goals and rules, which always stand.
        exchanged: Each call with what came back, the worthiest first.
        said: What else was said, the worthiest first.
        names: Paths and names of code, the worthiest first.
    """

    marks: Sequence[Fact]
    exchanged: Sequence[Ways]
    said: Sequence[Fact]
    names: Sequence[str] = ()


class Fitting:
    """A part on the last level, read once however little room there is.

    Args:
        part: What is folded.
        offer: All it could say.
        count: Counts tokens.
    """

    def __init__(self, part: Part, offer: Offer, count: Count) -> None:
        spoken = part.spoken(Voice.USER)
        self._part = part
        self._count = count
        self._marks = offer.marks
        self._names = offer.names
        self._rest = _Rest(offer, count)
        self._longest = max((len(message.text) for _, message in spoken), default=0)
        self._capped: dict[int, tuple[tuple[Fact, ...], int]] = {}

    def within(self, most: int, least: int) -> tuple[Fact, ...]:
        """What stands in so many tokens: users' words first, then the worthiest of the rest.

        Args:
            most: Tokens of the text.
            least: Tokens for the rest where the words alone are more: it is missed anyway.
        """
        words, taken = self._words(most)
        is_missed = taken > most
        most = taken + least if is_missed else most
        room = most - taken
        for _ in range(_TRIES):
            if room <= _AROUND:
                break
            found = self._filled(words, room)
            over = self._count(self._text(found)) - most
            if over <= 0:
                return (not is_missed and self._longer(taken, room, most + over, most)) or found
            room = int((room - over) * _LESS)
        return self._filled(words, 0)

    def _longer(self, words: int, room: int, taken: int, most: int) -> tuple[Fact, ...]:
        """The same with more of users' words where the rest left room; () for no more.

        Args:
            words: Tokens of the words so far.
            room: Tokens for the rest.
            taken: Tokens of all that stands so far.
            most: Tokens it may be.
        """
        for cap in CAPS:
            more, size = self._cut(cap)
            if size <= words:
                break
            if size - words <= most - taken:
                found = self._filled(more, room)
                return found if self._count(self._text(found)) <= most else ()
        return ()

    def _filled(self, words: Sequence[Fact], tokens: int) -> tuple[Fact, ...]:
        """The words, of the rest what there is room for, and what is gone."""
        room = _Room(tokens - (_GONE if self._rest.exchanged else 0))
        taken = room.filled(self._rest, has_names=bool(self._names))
        stays = {id(ways) for ways, _ in taken}
        gone = [each[0][0] for each in self._rest.exchanged if id(each) not in stays]
        found = shared(_ordered(chain(words, (fact for _, fact in taken))))
        stands = Kept("\n".join([fact.text for fact in found])) if self._names else Kept("")
        named = [name for name in self._names if name not in stands]
        return (*found, *bag(self._part, room.fitting(named, self._count)), *self._gone(gone))

    def _gone(self, gone: Sequence[Fact]) -> Iterator[Fact]:
        """A line that names what is gone; nothing for none."""
        if not gone:
            return
        did = [each for each in gone if each.kind is Kind.ACTION]
        rest = [each for each in gone if each.kind is not Kind.ACTION]
        told = [f"actions: {_counted(did)}"] if did else []
        told += [f"results of {_counted(rest)}"] if rest else []
        turns = sorted({turn for each in gone for turn in each.turns})
        yield Fact(
            kind=Kind.GONE,
            text="; ".join(told),
            turns=(turns[0], turns[-1]) if len(turns) > 1 else (turns[0],),
            messages=(self._part.region.end - 1,),
        )

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
            words = _ordered(chain(self._marks, users(self._part, cap, SHORT)))
            self._capped[cap] = words, self._count(self._text(words))
        return self._capped[cap]

    def _text(self, facts: Sequence[Fact]) -> str:
        return rendered(facts, self._part.region.notes, self._part.region.part)


#: The ways to say the same, each with its tokens.
_Sized = Sequence[tuple[Fact, int]]


class _Rest:
    """What may stand beside users' words, the worthiest first; each in all its ways, with tokens.

    Attributes:
        exchanged: All calls.
        deeds: What was done and went wrong.
        records: The other calls.
        said: What else there is.
    """

    def __init__(self, offer: Offer, count: Count) -> None:
        def sized(ways: Ways) -> _Sized:
            every = dict.fromkeys([*ways, *_briefly(ways[0])])
            return [(each, count(each.text) + _AROUND) for each in every]

        them = [sized(ways) for ways in offer.exchanged]
        done = [each for each in them if each[0][0].kind in _DONE]
        self.exchanged = [each for each in them if each[0][0].kind in _EXCHANGED]
        self.deeds = sorted(done, key=lambda each: each[0][0].messages[-1], reverse=True)
        self.records = [each for each in them if each[0][0].kind not in _DONE]
        self.said = [sized((each,)) for each in offer.said]


class _Room:
    """Tokens, and what they are spent on."""

    __slots__ = ("_left",)

    def __init__(self, tokens: int) -> None:
        self._left = tokens

    def filled(self, rest: _Rest, *, has_names: bool) -> list[tuple[_Sized, Fact]]:
        """Of the rest what there is room for."""
        found = self._taken(rest.deeds, _DEEDS)
        found += self._taken(rest.records, _COMMANDS if has_names else _RECORDS)
        found += self._taken(rest.said, 1.0)
        stays = {id(ways) for ways, _ in found}
        others = [each for each in (*rest.deeds, *rest.records) if id(each) not in stays]
        return found + ([] if has_names else self._taken(others, 1.0))

    def _taken(self, them: Iterable[_Sized], share: float) -> list[tuple[_Sized, Fact]]:
        """Those for which a share of the room is enough, the first ones first, at most length."""
        room = int(self._left * share)
        one = int(room * _ONE)
        found = []
        for ways in them:
            most = min(room, one)
            fact, size = next((each for each in ways if each[1] <= most), ways[-1])
            if size <= room:
                found.append((ways, fact))
                room -= size
                self._left -= size
        return found

    def fitting(self, names: Sequence[str], count: Count) -> Sequence[str]:
        """The first of the names that the room is enough for."""
        letters = sum(map(len, names)) + len(names)
        each = count(" ".join(names)) / max(1, letters) if self._left > _AROUND else 0.0
        taken = [at * each for at in accumulate(len(name) + 1 for name in names)]
        return names[: bisect_right(taken, self._left - _AROUND)] if each else ()


def _briefly(fact: Fact) -> Iterator[Fact]:
    """An action without its arguments, its outcome behind it."""
    if fact.kind is Kind.ACTION:
        _, arrow, ended = fact.text.rpartition(" → ")
        yield msgspec.structs.replace(fact, text=f"{_tool(fact)}(…){arrow}{ended}")


def _tool(fact: Fact) -> str:
    """The tool that a call's line names."""
    return fact.text.partition("(")[0][:_NAME]


def _counted(facts: Sequence[Fact]) -> str:
    """How often each tool was called, the most frequent first."""
    tools = Counter(map(_tool, facts))
    named = [
        f"{tool} ({times})" if times > 1 else tool for tool, times in tools.most_common(_TOOLS)
    ]
    more = len(tools) - len(named)
    return ", ".join(named) + (f" and {more} more tools" if more > 0 else "")


def _ordered(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(sorted(facts, key=lambda fact: fact.messages[-1]))
