"""A region as a segment: as much of it as there is room for."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from compaction.facts.actions import actions
from compaction.facts.assistant_replies import asked
from compaction.facts.call_records import Say
from compaction.facts.columns import shared
from compaction.facts.commands import NAMES, commands
from compaction.facts.errors import errors
from compaction.facts.fact import Fact
from compaction.facts.files import files
from compaction.facts.goals import goals
from compaction.facts.mentioned import say_pruned
from compaction.facts.offered import offer_commands, offer_records
from compaction.facts.plans import plans
from compaction.facts.records import records
from compaction.facts.region import Region
from compaction.facts.region_contents import Part, part
from compaction.facts.rendering import rendered
from compaction.facts.rules import rules
from compaction.facts.segment import Rung, Segment
from compaction.facts.size_fitting import Fitting
from compaction.facts.standing import standing
from compaction.facts.statements import users
from compaction.facts.values import Kept, values
from compaction.reading.message import Count
from compaction.reading.text_analysis_cache import Find, afresh
from compaction.results.pruning import PRUNED, VALUES
from compaction.results.result_lines import record
from compaction.results.result_profile import Profile, profile

__all__ = ["Ladder", "Region", "climbed", "segment"]

#: Characters of the names in what a command said that a rung keeps.
_NAMES: Final[Mapping[Rung, int]] = {
    Rung.FACTS: NAMES,
    Rung.PRUNED: NAMES // 2,
    Rung.VALUES: NAMES // 4,
}
#: Pruning is left out where facts take so many times the room there is: of records, of commands.
_FAR, _FAR_AGAIN = 1.6, 1.25
#: The share of a part that is spent on more than users' words where those are too much already.
_LEAST: Final = 16
#: What the last rung takes of the one before it, where nothing else is asked of it.
_HALF: Final = 2


def segment(region: Region, rung: Rung, count: Count) -> Segment:
    """What stands for a region on a rung of the ladder; equal regions give equal bytes."""
    ladder = Ladder(region, count)
    if rung is not Rung.BARE:
        return ladder.made(rung)
    return ladder.bare(ladder.made(Rung.VALUES).tokens // _HALF)


def climbed(region: Region, most: int, count: Count) -> Segment:
    """The first rung on which a region is at most so many tokens; the last is cut to fit.

    Args:
        region: What is folded.
        most: Tokens; 0 for no bound.
        count: Counts them.
    """
    return Ladder(region, count).climbed(most)


class Ladder:
    """A region, read once for all rungs, however often it is climbed.

    Args:
        region: What is folded.
        count: Counts tokens.
        find: What is found in its texts.
    """

    def __init__(self, region: Region, count: Count, find: Find = afresh) -> None:
        messages = region.messages[region.start : region.end]
        self._count = count
        self._read = part(region, find)
        self._made: dict[Rung, Segment] = {}
        self._bare: dict[int, Segment] = {}
        self._known: dict[Rung, tuple[Fact, ...]] = {}
        self._stand: dict[Rung, Kept] = {}
        self._again = profile(messages) is Profile.REREADABLE
        self._stands = () if self._again else standing(self._read.exchanges)
        self._before = sum(
            message.tokens
            for at, message in enumerate(messages, region.start)
            if at not in region.held
        )

    def climbed(self, most: int) -> Segment:
        """The first rung that is at most so many tokens; 0 for no bound; the last is cut to fit."""
        if 0 < most < self._least:
            return self.bare(most)
        made = self.made(Rung.FACTS)
        if not most or made.tokens <= most:
            return made
        if made.tokens <= self._far * most and (made := self.made(Rung.PRUNED)).tokens <= most:
            return made
        made = self.made(Rung.VALUES)
        return made if made.tokens <= most else self.bare(most)

    @cached_property
    def _least(self) -> int:
        """Tokens of what users said, which all rungs but the last say whole."""
        region = self._read.region
        return self._count(rendered(self._spoken, region.notes, region.part))

    @property
    def _far(self) -> float:
        """Number of times the room facts may take for pruning to be worth a try."""
        return _FAR_AGAIN if self._again else _FAR

    def made(self, rung: Rung) -> Segment:
        """What stands for it on a rung that is as long as it is."""
        if rung not in self._made:
            self._made[rung] = self._segment(rung, tuple(self._facts(rung)))
        return self._made[rung]

    def bare(self, most: int) -> Segment:
        """What stands for it in so much room."""
        if most not in self._bare:
            facts = self._fitting.within(most, self._before // _LEAST)
            self._bare[most] = self._segment(Rung.BARE, facts)
        return self._bare[most]

    @cached_property
    def _fitting(self) -> Fitting:
        """What the last level takes its facts from."""
        read = self._read
        offer = offer_commands(read) if self._again else offer_records(read, self._stands)
        return Fitting(read, offer, self._count)

    @cached_property
    def _spoken(self) -> Sequence[Fact]:
        """What users said."""
        return (*goals(self._read), *rules(self._read), *users(self._read))

    def _segment(self, rung: Rung, facts: tuple[Fact, ...]) -> Segment:
        region = self._read.region
        text = rendered(facts, region.notes, region.part)
        return Segment(
            start=region.start,
            end=region.end,
            rung=rung,
            facts=facts,
            text=text,
            tokens=self._count(text),
            before=self._before,
        )

    def _facts(self, rung: Rung) -> Iterator[Fact]:
        """The facts of a rung in the order of their messages, then values that stand in none."""
        found = self._found(rung)
        yield from found
        if rung < Rung.VALUES or not self._again:
            yield from values(self._read, self._stand[rung])

    def _found(self, rung: Rung) -> tuple[Fact, ...]:
        """What was said and what came back, in the order of their messages."""
        if rung not in self._known:
            of_results = self._masked(rung) if self._again else self._records(rung)
            rest = [*self._spoken, *of_results]
            stands = Kept("\n".join([fact.text for fact in rest]))
            unordered = chain(rest, _replies(self._read, rung, stands))
            found = sorted(unordered, key=lambda fact: fact.messages[-1])
            self._stand[rung] = stands
            self._known[rung] = shared(found)
        return self._known[rung]

    def _masked(self, rung: Rung) -> Iterator[Fact]:
        """What was run, read and changed, where results can be had again."""
        yield from commands(self._read, _NAMES[rung])
        yield from errors(self._read)
        yield from files(self._read)

    def _records(self, rung: Rung) -> Iterator[Fact]:
        """What was done, and what tools gave back."""
        say = self._say(rung)
        yield from actions(self._read, say, self._stands)
        yield from records(self._read, say, self._stands)

    def _say(self, rung: Rung) -> Say:
        """How a rung says what came back."""
        if rung is not Rung.FACTS:
            return say_pruned(self._read, PRUNED if rung is Rung.PRUNED else VALUES)
        find = self._read.find
        return lambda result: record(result, find)


def _replies(read: Part, rung: Rung, stands: Kept) -> Iterator[Fact]:
    """What the assistant said, beside the lines that stand already."""
    if rung < Rung.VALUES:
        yield from asked(read, stands=stands)
        for plan in plans(read):
            stands.read(plan.text)
            yield plan
    else:
        yield from asked(read, 0, stands)
