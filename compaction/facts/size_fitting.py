"""The last detail level: keeps the most valuable facts of a region that fit a number of tokens.

A record keeps its key and fields, or is dropped whole and named as dropped; an action keeps its
outcome, or is dropped whole. Where even that does not fit, the limit is exceeded.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final

import msgspec

from compaction.facts.assistant_replies import assistant_reply_facts
from compaction.facts.call_records import (
    ResultFormatter,
    action_facts,
    error_facts,
    pruned_formatter,
    record_facts,
    say_nothing,
)
from compaction.facts.commands import MAX_NAMES_CHARS, command_facts
from compaction.facts.fact import Fact, FactKind
from compaction.facts.files import file_facts
from compaction.facts.region_contents import RegionContents
from compaction.facts.rendering import factor_shared_columns, render_segment
from compaction.facts.statements import MAX_USER_CHARS, mark_facts, user_facts
from compaction.facts.values import (
    KeptWords,
    MessageValues,
    argument_values,
    count_occurrences,
    names_fact,
    rank_values,
    stated_values,
    value_facts,
)
from compaction.reading.message import Count, Voice
from compaction.results.pruning import SPOKEN, VALUES
from compaction.results.result_profile import is_rereadable
from compaction.results.value_leaves import find_ids

#: Maximum characters kept of a user's message, by attempt: 2,000 tokens of English, 1,000 … 40.
MESSAGE_CAPS_CHARS: Final = (MAX_USER_CHARS, 4_000, 2_000, 1_200, 600, 300, 160)
#: Maximum characters of a message that is never shortened.
SHORT_MESSAGE_CHARS: Final = 600
#: Maximum share of the available tokens for users' messages before they are shortened further.
_USER_WORDS_SHARE: Final = 0.6
#: Shares of the remaining tokens: for actions and errors, and of the rest after those for records.
_ACTIONS_SHARE, _RECORDS_SHARE = 0.3, 1.0
#: The records' share when names of code are kept too; maximum share of either for a single line.
_COMMANDS_SHARE, _MAX_LINE_SHARE = 0.8, 0.7
#: Tokens of a fact's punctuation, and of the line that lists omissions.
_FACT_FRAME_TOKENS, _OMISSION_TOKENS = 4, 48
#: Maximum omitted tools that are named; further ones are counted.
_MAX_NAMED_TOOLS: Final = 8
#: Maximum characters of an omitted tool's name.
_MAX_TOOL_NAME_CHARS: Final = 64
#: Maximum retries when the text has more tokens than its lines, and the share kept at each.
_MAX_TRIES, _RETRY_SHARE = 4, 0.9
_MARKS: Final = frozenset({FactKind.GOAL, FactKind.RULE})
_SPOKEN: Final = _MARKS | {FactKind.USER}
_DONE: Final = frozenset({FactKind.ACTION, FactKind.FILE, FactKind.ERROR})
_EXCHANGED: Final = frozenset({FactKind.ACTION, FactKind.RECORD, FactKind.COMMAND})

#: Variants of one fact, the longest first.
FactVariants = Sequence[Fact]


class FactCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates for the facts of a segment.

    Attributes:
        marks: Goals, rules and warnings, which always stand.
        exchanges: Each call with what came back, the worthiest first.
        statements: Other statements, the worthiest first.
        names: Paths and names of code, the worthiest first.
    """

    marks: Sequence[Fact]
    exchanges: Sequence[FactVariants]
    statements: Sequence[Fact]
    names: Sequence[str] = ()


class SizeFitter:
    """A part on the last level, read once however little room there is.

    Args:
        part: Part that is compacted.
        candidates: All it could say.
        count: Counts tokens.
    """

    def __init__(self, part: RegionContents, candidates: FactCandidates, count: Count) -> None:
        spoken = part.messages_of(Voice.USER)
        self._part = part
        self._count = count
        self._marks = candidates.marks
        self._names = candidates.names
        self._others = _RemainingCandidates(candidates, count)
        self._longest = max((len(message.text) for _, message in spoken), default=0)
        self._capped: dict[int, tuple[tuple[Fact, ...], int]] = {}

    def facts_within(self, max_tokens: int, least: int) -> tuple[Fact, ...]:
        """The facts that fit in so many tokens: users' words first, then the worthiest of the rest.

        Args:
            max_tokens: Tokens of the text.
            least: Tokens for the rest where the words alone are more: it is missed anyway.
        """
        words, words_tokens = self._user_words_within(max_tokens)
        is_missed = words_tokens > max_tokens
        max_tokens = words_tokens + least if is_missed else max_tokens
        room = max_tokens - words_tokens
        for _ in range(_MAX_TRIES):
            if room <= _FACT_FRAME_TOKENS:
                break
            facts = self._fill_room(words, room)
            over = self._count(self._segment_text(facts)) - max_tokens
            if over <= 0:
                return (
                    not is_missed
                    and self._with_longer_words(words_tokens, room, max_tokens + over, max_tokens)
                ) or facts
            room = int((room - over) * _RETRY_SHARE)
        return self._fill_room(words, 0)

    def _with_longer_words(
        self, words: int, room: int, words_tokens: int, max_tokens: int
    ) -> tuple[Fact, ...]:
        """The same with more of users' words where the rest left room; () for no more.

        Args:
            words: Tokens of the words so far.
            room: Tokens for the rest.
            words_tokens: Tokens of all that stands so far.
        """
        for cap in MESSAGE_CAPS_CHARS:
            more, size = self._user_words_capped_at(cap)
            if size <= words:
                break
            if size - words <= max_tokens - words_tokens:
                facts = self._fill_room(more, room)
                return facts if self._count(self._segment_text(facts)) <= max_tokens else ()
        return ()

    def _fill_room(self, words: Sequence[Fact], tokens: int) -> tuple[Fact, ...]:
        """The words, of the rest what there is room for, and what is gone."""
        room = _TokenRoom(tokens - (_OMISSION_TOKENS if self._others.exchanges else 0))
        choices = room.fill(self._others, has_names=bool(self._names))
        stays = {id(ways) for ways, _ in choices}
        gone = [variants[0][0] for variants in self._others.exchanges if id(variants) not in stays]
        facts = factor_shared_columns(
            _in_message_order(chain(words, (fact for _, fact in choices)))
        )
        stands = (
            KeptWords("\n".join([fact.text for fact in facts])) if self._names else KeptWords("")
        )
        named = [name for name in self._names if name not in stands]
        return (
            *facts,
            *names_fact(self._part, room.names_that_fit(named, self._count)),
            *self._omission_fact(gone),
        )

    def _omission_fact(self, gone: Sequence[Fact]) -> Iterator[Fact]:
        """A line that names what is gone; nothing for none."""
        if not gone:
            return
        did = [fact for fact in gone if fact.kind is FactKind.ACTION]
        rest = [fact for fact in gone if fact.kind is not FactKind.ACTION]
        pieces = [f"actions: {_tool_counts(did)}"] if did else []
        pieces += [f"results of {_tool_counts(rest)}"] if rest else []
        turns = sorted({turn for fact in gone for turn in fact.turns})
        yield Fact(
            kind=FactKind.GONE,
            text="; ".join(pieces),
            turns=(turns[0], turns[-1]) if len(turns) > 1 else (turns[0],),
            messages=(self._part.region.end - 1,),
        )

    def _user_words_within(self, max_tokens: int) -> tuple[tuple[Fact, ...], int]:
        """Users' words, each message as long as there is room for, and their tokens.

        What they wish for all that follows stays whatever room there is.
        """
        words, words_tokens = self._user_words_capped_at(MESSAGE_CAPS_CHARS[0])
        for cap in MESSAGE_CAPS_CHARS[1:]:
            if words_tokens <= _USER_WORDS_SHARE * max_tokens:
                break
            words, words_tokens = self._user_words_capped_at(cap)
        return words, words_tokens

    def _user_words_capped_at(self, cap: int) -> tuple[tuple[Fact, ...], int]:
        """Users' words, in messages of so many characters, and their tokens."""
        cap = min(cap, self._longest) if self._longest > SHORT_MESSAGE_CHARS else 0
        if cap not in self._capped:
            words = _in_message_order(
                chain(self._marks, user_facts(self._part, cap, SHORT_MESSAGE_CHARS))
            )
            self._capped[cap] = words, self._count(self._segment_text(words))
        return self._capped[cap]

    def _segment_text(self, facts: Sequence[Fact]) -> str:
        return render_segment(facts, self._part.region.part)


#: Variants of one fact, each with its tokens.
_SizedVariants = Sequence[tuple[Fact, int]]


class _RemainingCandidates:
    """The candidates beside users' words, the worthiest first; each in all variants, with tokens.

    Attributes:
        deeds: Facts about what was done and what went wrong.
        records: The other calls.
        said: Other facts.
    """

    def __init__(self, candidates: FactCandidates, count: Count) -> None:
        def with_tokens(ways: FactVariants) -> _SizedVariants:
            every = dict.fromkeys([*ways, *_short_action(ways[0])])
            return [(fact, count(fact.text) + _FACT_FRAME_TOKENS) for fact in every]

        them = [with_tokens(ways) for ways in candidates.exchanges]
        done = [variants for variants in them if variants[0][0].kind in _DONE]
        self.exchanges = [variants for variants in them if variants[0][0].kind in _EXCHANGED]
        self.actions = sorted(done, key=lambda variants: variants[0][0].messages[-1], reverse=True)
        self.records = [variants for variants in them if variants[0][0].kind not in _DONE]
        self.statements = [with_tokens((fact,)) for fact in candidates.statements]


class _TokenRoom:
    """Tokens, and what they are spent on."""

    __slots__ = ("_left",)

    def __init__(self, tokens: int) -> None:
        self._left = tokens

    def fill(
        self, candidates: _RemainingCandidates, *, has_names: bool
    ) -> list[tuple[_SizedVariants, Fact]]:
        """Of the rest what there is room for."""
        choices = self._take_share(candidates.actions, _ACTIONS_SHARE)
        choices += self._take_share(
            candidates.records, _COMMANDS_SHARE if has_names else _RECORDS_SHARE
        )
        choices += self._take_share(candidates.statements, 1.0)
        stays = {id(ways) for ways, _ in choices}
        rest = [
            variants
            for variants in (*candidates.actions, *candidates.records)
            if id(variants) not in stays
        ]
        return choices + ([] if has_names else self._take_share(rest, 1.0))

    def _take_share(
        self, candidates: Iterable[_SizedVariants], share: float
    ) -> list[tuple[_SizedVariants, Fact]]:
        """Those for which a share of the room is enough, the first ones first, at most length."""
        room = int(self._left * share)
        one = int(room * _MAX_LINE_SHARE)
        choices = []
        for ways in candidates:
            limit = min(room, one)
            fact, size = next((variant for variant in ways if variant[1] <= limit), ways[-1])
            if size <= room:
                choices.append((ways, fact))
                room -= size
                self._left -= size
        return choices

    def names_that_fit(self, names: Sequence[str], count: Count) -> Sequence[str]:
        """The first of the names that the room is enough for."""
        letters = sum(map(len, names)) + len(names)
        tokens_per_char = (
            count(" ".join(names)) / max(1, letters) if self._left > _FACT_FRAME_TOKENS else 0.0
        )
        cumulative_tokens = [
            chars * tokens_per_char for chars in accumulate(len(name) + 1 for name in names)
        ]
        return (
            names[: bisect_right(cumulative_tokens, self._left - _FACT_FRAME_TOKENS)]
            if tokens_per_char
            else ()
        )


def _short_action(fact: Fact) -> Iterator[Fact]:
    """An action without its arguments, its outcome behind it."""
    if fact.kind is FactKind.ACTION:
        _, arrow, ended = fact.text.rpartition(" → ")
        yield msgspec.structs.replace(fact, text=f"{_tool_name(fact)}(…){arrow}{ended}")


def _tool_name(fact: Fact) -> str:
    """The tool that a call's line names."""
    return fact.text.partition("(")[0][:_MAX_TOOL_NAME_CHARS]


def _tool_counts(facts: Sequence[Fact]) -> str:
    """The number of calls of each tool, the most frequent first."""
    tools = Counter(map(_tool_name, facts))
    named = [
        f"{tool} ({times})" if times > 1 else tool
        for tool, times in tools.most_common(_MAX_NAMED_TOOLS)
    ]
    more = len(tools) - len(named)
    return ", ".join(named) + (f" and {more} more tools" if more > 0 else "")


def _in_message_order(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(sorted(facts, key=lambda fact: fact.messages[-1]))


def record_candidates(part: RegionContents, is_current: Sequence[bool]) -> FactCandidates:
    """The candidates for a region whose results are records.

    Args:
        part: Part that is compacted.
        is_current: For each exchange, True if its result still stands.
    """

    def exchange_facts(say: ResultFormatter) -> list[Fact]:
        return [*action_facts(part, say, is_current), *record_facts(part, say, is_current)]

    says = (pruned_formatter(part, VALUES), pruned_formatter(part, SPOKEN), say_nothing)
    ways: list[FactVariants] = [*zip(*map(exchange_facts, says), strict=True)]
    again = _results_named_again(part)
    ways.sort(
        key=lambda variants: (again.get(variants[0].messages[-1], 0), _last_message(variants)),
        reverse=True,
    )
    spoken = KeptWords("\n".join([message.text for _, message in part.messages_of(Voice.USER)]))
    statements = [*assistant_reply_facts(part, 0, spoken), *value_facts(part, spoken)]
    return FactCandidates(
        marks=list(mark_facts(part)), exchanges=ways, statements=_newest_first(statements)
    )


def command_candidates(part: RegionContents) -> FactCandidates:
    """The candidates for a region whose results can be read again."""
    full, bare = command_facts(part, MAX_NAMES_CHARS // 4), command_facts(part, 0)
    ways: list[FactVariants] = [*zip(full, bare, strict=True)]
    ways += [(fact,) for fact in (*error_facts(part), *file_facts(part))]
    ways.sort(key=_last_message, reverse=True)
    return FactCandidates(
        marks=list(mark_facts(part)),
        exchanges=ways,
        statements=_newest_first([*assistant_reply_facts(part, 0)]),
        names=rank_values(count_occurrences(_code_names(part))),
    )


def _last_message(variants: FactVariants) -> int:
    """The last message that something is of."""
    return variants[0].messages[-1]


def _newest_first(facts: Sequence[Fact]) -> Sequence[Fact]:
    """The facts, the newest first."""
    return sorted(facts, key=lambda fact: fact.messages[-1], reverse=True)


def _results_named_again(part: RegionContents) -> Mapping[int, int]:
    """Of each result whether values of it stand in other messages too: 1 where some do."""
    texts = [*stated_values(part, (Voice.RESULT,))]
    every = [*texts, *stated_values(part, (Voice.ASSISTANT, Voice.USER)), *argument_values(part)]
    occurrences = count_occurrences(every)
    return {
        index: int(any(occurrences[value].times > 1 for value in them)) for index, them in texts
    }


def _code_names(part: RegionContents) -> Iterator[MessageValues]:
    """The paths and names of code that messages tell; no record's values, no bare numbers."""
    records = {
        exchange.messages[-1]
        for exchange in part.exchanges
        if not is_rereadable(exchange.result, exchange.called)
    }
    voices = (Voice.RESULT, Voice.ASSISTANT, Voice.USER)
    every = [*stated_values(part, voices, find_ids), *argument_values(part, find_ids)]
    for index, them in every:
        if index not in records:
            yield index, [name for name in them if any(map(str.isalpha, name))]
