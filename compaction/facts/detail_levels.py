"""Detail levels: turns a region into the most detailed segment that fits a number of tokens."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from compaction.facts.assistant_replies import assistant_reply_facts
from compaction.facts.call_records import (
    ResultFormatter,
    action_facts,
    current_results,
    error_facts,
    pruned_formatter,
    record_facts,
)
from compaction.facts.commands import MAX_NAMES_CHARS, command_facts
from compaction.facts.fact import DetailLevel, Fact, Region, Segment
from compaction.facts.files import file_facts
from compaction.facts.region_contents import RegionContents, read_region
from compaction.facts.rendering import factor_shared_columns, render_segment
from compaction.facts.size_fitting import SizeFitter, command_candidates, record_candidates
from compaction.facts.statements import mark_facts, plan_facts, user_facts
from compaction.facts.values import KeptWords, value_facts
from compaction.reading.message import Count
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.results.pruning import PRUNED, VALUES
from compaction.results.result_lines import result_line
from compaction.results.result_profile import ResultProfile, result_profile

__all__ = ["DetailLadder", "Region", "segment_at", "segment_within"]

#: Maximum characters of the names in a command's output, by level.
_MAX_NAMES_CHARS: Final[Mapping[DetailLevel, int]] = {
    DetailLevel.FACTS: MAX_NAMES_CHARS,
    DetailLevel.PRUNED: MAX_NAMES_CHARS // 2,
    DetailLevel.VALUES: MAX_NAMES_CHARS // 4,
}
#: Ratio of the facts' tokens to the available tokens above which pruning is not tried: for records,
#: and for commands.
_RECORDS_PRUNING_FACTOR, _COMMANDS_PRUNING_FACTOR = 1.6, 1.25
#: Divisor of the region's tokens that gives the minimum tokens for other facts when users' messages
#: alone are too long.
_MIN_OTHER_FACTS_DIVISOR: Final = 16
#: Divisor of the previous level's tokens that gives the last level's tokens by default.
_LAST_LEVEL_DIVISOR: Final = 2


def segment_at(region: Region, level: DetailLevel, count: Count) -> Segment:
    """The segment of a region at a detail level; equal regions give equal bytes."""
    ladder = DetailLadder(region, count)
    if level is not DetailLevel.BARE:
        return ladder.segment_at(level)
    return ladder.bare_segment(ladder.segment_at(DetailLevel.VALUES).tokens // _LAST_LEVEL_DIVISOR)


def segment_within(region: Region, max_tokens: int, count: Count) -> Segment:
    """The first detail level at which a region is at most so many tokens; the last is cut to fit.

    Args:
        region: Part that is compacted.
        max_tokens: Tokens; 0 for no bound.
    """
    return DetailLadder(region, count).segment_within(max_tokens)


class DetailLadder:
    """The segments of a region at each detail level; the region is read once.

    Args:
        region: Part that is compacted.
        count: Counts tokens.
        find: Finds the facts in its texts.
    """

    def __init__(self, region: Region, count: Count, find: TextAnalyzer = analyze_uncached) -> None:
        messages = region.messages[region.start : region.end]
        self._count = count
        self._read = read_region(region, find)
        self._made: dict[DetailLevel, Segment] = {}
        self._bare: dict[int, Segment] = {}
        self._known: dict[DetailLevel, tuple[Fact, ...]] = {}
        self._stand: dict[DetailLevel, KeptWords] = {}
        self._is_rereadable = result_profile(messages) is ResultProfile.REREADABLE
        self._stands = () if self._is_rereadable else current_results(self._read.exchanges)
        self._before = sum(
            message.tokens
            for index, message in enumerate(messages, region.start)
            if index not in region.kept
        )

    def segment_within(self, max_tokens: int) -> Segment:
        """The first detail level within so many tokens; 0 for no bound; the last is cut to fit."""
        if 0 < max_tokens < self._user_statement_tokens:
            return self.bare_segment(max_tokens)
        segment = self.segment_at(DetailLevel.FACTS)
        if not max_tokens or segment.tokens <= max_tokens:
            return segment
        if (
            segment.tokens <= self._pruning_factor * max_tokens
            and (segment := self.segment_at(DetailLevel.PRUNED)).tokens <= max_tokens
        ):
            return segment
        segment = self.segment_at(DetailLevel.VALUES)
        return segment if segment.tokens <= max_tokens else self.bare_segment(max_tokens)

    @cached_property
    def _user_statement_tokens(self) -> int:
        """Tokens of users' statements, which all levels but the last keep whole."""
        region = self._read.region
        return self._count(render_segment(self._user_statements, region.part))

    @property
    def _pruning_factor(self) -> float:
        """Number of times the room facts may take for pruning to be worth a try."""
        return _COMMANDS_PRUNING_FACTOR if self._is_rereadable else _RECORDS_PRUNING_FACTOR

    def segment_at(self, level: DetailLevel) -> Segment:
        """The segment at a detail level, as long as it happens to be."""
        if level not in self._made:
            self._made[level] = self._build_segment(level, tuple(self._level_facts(level)))
        return self._made[level]

    def bare_segment(self, max_tokens: int) -> Segment:
        """The segment of the last level in at most so many tokens."""
        if max_tokens not in self._bare:
            facts = self._size_fitter.facts_within(
                max_tokens, self._before // _MIN_OTHER_FACTS_DIVISOR
            )
            self._bare[max_tokens] = self._build_segment(DetailLevel.BARE, facts)
        return self._bare[max_tokens]

    @cached_property
    def _size_fitter(self) -> SizeFitter:
        """The candidates from which the last level takes its facts."""
        read = self._read
        offer = (
            command_candidates(read)
            if self._is_rereadable
            else record_candidates(read, self._stands)
        )
        return SizeFitter(read, offer, self._count)

    @cached_property
    def _user_statements(self) -> Sequence[Fact]:
        """The statements of users, and warnings about texts in them."""
        return (*mark_facts(self._read), *user_facts(self._read))

    def _build_segment(self, level: DetailLevel, facts: tuple[Fact, ...]) -> Segment:
        region = self._read.region
        text = render_segment(facts, region.part)
        return Segment(
            start=region.start,
            end=region.end,
            level=level,
            facts=facts,
            text=text,
            tokens=self._count(text),
            before=self._before,
        )

    def _level_facts(self, level: DetailLevel) -> Iterator[Fact]:
        """The facts of a level in the order of their messages, then values that stand in none."""
        facts = self._statements_and_results(level)
        yield from facts
        if level < DetailLevel.VALUES or not self._is_rereadable:
            yield from value_facts(self._read, self._stand[level])

    def _statements_and_results(self, level: DetailLevel) -> tuple[Fact, ...]:
        """Statements and results, in the order of their messages."""
        if level not in self._known:
            of_results = (
                self._command_facts(level) if self._is_rereadable else self._record_facts(level)
            )
            rest = [*self._user_statements, *of_results]
            stands = KeptWords("\n".join([fact.text for fact in rest]))
            unordered = chain(rest, _reply_facts(self._read, level, stands))
            facts = sorted(unordered, key=lambda fact: fact.messages[-1])
            self._stand[level] = stands
            self._known[level] = factor_shared_columns(facts)
        return self._known[level]

    def _command_facts(self, level: DetailLevel) -> Iterator[Fact]:
        """Commands, errors and files, where results can be read again."""
        yield from command_facts(self._read, _MAX_NAMES_CHARS[level])
        yield from error_facts(self._read)
        yield from file_facts(self._read)

    def _record_facts(self, level: DetailLevel) -> Iterator[Fact]:
        """Actions, and the records that tools returned."""
        say = self._result_formatter(level)
        yield from action_facts(self._read, say, self._stands)
        yield from record_facts(self._read, say, self._stands)

    def _result_formatter(self, level: DetailLevel) -> ResultFormatter:
        """The formatter of results at a detail level."""
        if level is not DetailLevel.FACTS:
            return pruned_formatter(self._read, PRUNED if level is DetailLevel.PRUNED else VALUES)
        find = self._read.find
        return lambda result: result_line(result, find)


def _reply_facts(read: RegionContents, level: DetailLevel, kept_words: KeptWords) -> Iterator[Fact]:
    """The assistant's replies that are not among the lines already."""
    if level < DetailLevel.VALUES:
        yield from assistant_reply_facts(read, kept_words=kept_words)
        for plan in plan_facts(read):
            kept_words.add_line(plan.text)
            yield plan
    else:
        yield from assistant_reply_facts(read, 0, kept_words)
