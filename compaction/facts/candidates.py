"""The candidates for a segment: facts that stand or go together, each in one or more variants."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Final

import msgspec

from compaction.facts.call_lines import call_line, short_call_line
from compaction.facts.call_outcomes import OK
from compaction.facts.call_records import (
    ARROW,
    ResultFormatter,
    action_facts,
    current_results,
    error_facts,
    exchange_outcome,
    is_action,
    pruned_formatters,
    record_facts,
    say_nothing,
)
from compaction.facts.fact import Fact, FactKind
from compaction.facts.files import is_file_work
from compaction.facts.region_contents import RegionContents, ToolExchange
from compaction.facts.rendering import flatten_text

#: Maximum characters of a tool's name.
_MAX_TOOL_NAME_CHARS: Final = 64
#: Maximum characters of a result that stands whole because it can be read again.
_MAX_SLICE_CHARS: Final = 40_000
#: Maximum characters of an argument of a call whose result stands whole.
_MAX_SLICE_ARGUMENT_CHARS: Final = 40_000

#: Factor of the worth of files' lines: an edit has to match them to the letter.
_SLICE_FACTOR: Final = 3.0
#: Kinds of facts that mark sentences within a user's message.
MARK_KINDS: Final = frozenset({FactKind.GOAL, FactKind.RULE})


class CandidatePin(IntEnum):
    """The degree to which a candidate stands where there is no target."""

    NOT = 0
    TELLING = 1
    ALWAYS = 2


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """Facts that stand or go together.

    Attributes:
        variants: Its forms, the richest first.
        pin: Where there is no target, the richest stands whatever room there is if this is ALWAYS,
            and as far as the segment is shorter than the messages if it is TELLING.
        is_mark: True if the last variant stands whatever room there is.
        factor: Of its worth.
    """

    variants: tuple[tuple[Fact, ...], ...]
    pin: CandidatePin = CandidatePin.NOT
    is_mark: bool = False
    factor: float = 1.0

    @property
    def fact(self) -> Fact:
        """The fact that it is about."""
        return self.variants[0][-1]


def has_succeeded(fact: Fact) -> bool:
    """True unless an action failed, or its outcome is unknown."""
    return fact.kind is not FactKind.ACTION or fact.text.endswith(f"{ARROW}{OK}")


class Records:
    """The calls of a region with their records; what is said of each whole is said once.

    Args:
        part: Part that is compacted.
        whole: Says a result whole.
    """

    def __init__(self, part: RegionContents, whole: ResultFormatter) -> None:
        self._part = part
        self._whole = whole

    def candidates(self, *, is_bounded: bool) -> Iterator[Candidate]:
        """Each call with its record, whole, by its values, by what was spoken of, and without.

        Args:
            is_bounded: True if shorter variants may be needed.
        """
        columns = [self._whole_facts]
        if is_bounded:
            formatters = [*pruned_formatters(self._part), say_nothing]
            columns += [self._facts(say) for say in formatters]
        pin = CandidatePin.NOT if is_bounded else CandidatePin.ALWAYS
        for facts in zip(*columns, strict=True):
            short_ones = self._short_actions(facts[0]) if is_bounded else ()
            variants = dict.fromkeys([*facts, *short_ones])
            yield Candidate(tuple([(fact,) for fact in variants]), pin=pin)
        for fact in self._earlier_failures:
            yield Candidate(((fact,),), pin=pin)

    @cached_property
    def _earlier_failures(self) -> Sequence[Fact]:
        """The errors of calls whose results no longer stand, for they were made again."""
        stands = {
            exchange.messages
            for exchange, still in zip(self._part.exchanges, self._is_current, strict=True)
            if still or is_action(exchange, self._part.find)
        }
        return [fact for fact in error_facts(self._part) if fact.messages not in stands]

    def _short_actions(self, fact: Fact) -> Iterator[Fact]:
        """An action with its ids, and without arguments; its outcome behind it."""
        if fact.kind is FactKind.ACTION:
            exchange = self._exchanges[fact.messages]
            ended = exchange_outcome(exchange, self._part.find)
            for call in (short_call_line(exchange.called), f"{tool_name(fact)}(…)"):
                yield msgspec.structs.replace(fact, text=f"{call}{ARROW}{ended}")

    @cached_property
    def _exchanges(self) -> Mapping[tuple[int, ...], ToolExchange]:
        return {exchange.messages: exchange for exchange in self._part.exchanges}

    @cached_property
    def _whole_facts(self) -> Sequence[Fact]:
        return self._facts(self._whole)

    @cached_property
    def _is_current(self) -> Sequence[bool]:
        """For each exchange, True if its result still stands."""
        return current_results(self._part.exchanges)

    def _facts(self, say: ResultFormatter) -> Sequence[Fact]:
        part, is_current = self._part, self._is_current
        return (*action_facts(part, say, is_current), *record_facts(part, say, is_current))


def command_candidates(
    part: RegionContents, facts: Sequence[tuple[Fact, ...]], max_chars: int
) -> Iterator[Candidate]:
    """Each command with its result, with the names in it, and bare; errors and files.

    Args:
        part: Part that is compacted.
        facts: Facts about commands, errors and files, each in all its forms.
        max_chars: Characters of the newest results that may stand whole.
    """
    results = {exchange.messages: exchange for exchange in part.exchanges}
    for forms in reversed(facts):
        variants = list(forms)
        exchange = results[forms[0].messages] if forms[0].kind is FactKind.COMMAND else None
        size = len(exchange.result) + len(exchange.called.arguments) if exchange else max_chars + 1
        is_offered = exchange is not None and not is_file_work(exchange)
        if exchange and is_offered and size <= min(max_chars, _MAX_SLICE_CHARS):
            max_chars -= size
            line = call_line(exchange.called, _MAX_SLICE_ARGUMENT_CHARS)
            text = f"{line}{ARROW}{flatten_text(exchange.result)}"
            variants.insert(0, msgspec.structs.replace(forms[0], text=text))
        factor = _SLICE_FACTOR if forms[0].kind is FactKind.SLICE else 1.0
        yield Candidate(tuple([(fact,) for fact in dict.fromkeys(variants)]), factor=factor)


def tool_name(fact: Fact) -> str:
    """The tool that a call's line names."""
    return fact.text.partition("(")[0][:_MAX_TOOL_NAME_CHARS]


def in_message_order(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """The facts in the order of their messages."""
    return tuple(sorted(facts, key=lambda fact: fact.messages[-1]))
