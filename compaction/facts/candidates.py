"""The candidates for a segment: facts that stand or go together, each in one or more variants."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Final

import msgspec

from compaction.facts.actions import action_flags, recoveries
from compaction.facts.call_lines import call_line, short_call_line
from compaction.facts.call_outcomes import UNKNOWN
from compaction.facts.call_records import (
    ResultFormatter,
    action_facts,
    current_results,
    error_facts,
    exchange_outcome,
    pruned_formatters,
    record_facts,
    say_nothing,
)
from compaction.facts.coding.files import is_file_work
from compaction.facts.fact import ARROW, OK, Fact, FactKind
from compaction.facts.region_contents import RegionContents, ToolExchange
from compaction.facts.rendering import flatten_text, words_that_fit
from compaction.reading.message import CalledTool

#: Maximum characters of a tool's name.
_MAX_TOOL_NAME_CHARS: Final = 64
#: Maximum characters of a call and its result that stand whole as it can be read again.
_MAX_SLICE_CHARS: Final = 40_000

#: Maximum tools that the line of calls that are gone names, and characters of arguments of each.
_MAX_NAMED_TOOLS, _MAX_ARGUMENTS_CHARS = 8, 100
#: Kinds of facts about calls.
CALL_KINDS: Final = frozenset({FactKind.ACTION, FactKind.RECORD, FactKind.COMMAND})

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
        is_recovery: True if it is the newest success at what failed before, and stands where that
            does.
        factor: Of its worth.
    """

    variants: tuple[tuple[Fact, ...], ...]
    pin: CandidatePin = CandidatePin.NOT
    is_mark: bool = False
    is_recovery: bool = False
    factor: float = 1.0

    @property
    def fact(self) -> Fact:
        """The fact that it is about."""
        return self.variants[0][-1]

    @property
    def is_outcome(self) -> bool:
        """True if it tells how an action ended that failed, or may have."""
        return self.is_recovery or not self.fact.has_succeeded


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
            yield Candidate(
                tuple([(fact,) for fact in variants]),
                pin=pin,
                is_recovery=facts[0].messages in self._recoveries,
            )
        for fact in self._earlier_failures:
            yield Candidate(((fact,),), pin=pin)

    @cached_property
    def _earlier_failures(self) -> Sequence[Fact]:
        """The errors of calls whose results no longer stand, for they were made again."""
        stands = {
            exchange.messages
            for exchange, still, acts in zip(
                self._part.exchanges, self._is_current, self._is_action, strict=True
            )
            if still or acts
        }
        return [fact for fact in error_facts(self._part) if fact.messages not in stands]

    def _short_actions(self, fact: Fact) -> Iterator[Fact]:
        """An action with the arguments that say what it was about; its outcome behind it.

        A success behind a failure keeps its ids and what was other in it.
        """
        if fact.kind is FactKind.ACTION:
            exchange = self._exchanges[fact.messages]
            ended = exchange_outcome(exchange, self._part.find)
            failed = self._recoveries.get(fact.messages)
            bare = [] if ended == OK else [f"{_tool_name(fact)}(…)"]
            for call in (short_call_line(exchange.called, failed), *bare):
                yield msgspec.structs.replace(fact, text=f"{call}{ARROW}{ended}")

    @cached_property
    def _recoveries(self) -> Mapping[tuple[int, ...], CalledTool]:
        return recoveries(self._part, self._is_action)

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

    @cached_property
    def _is_action(self) -> Sequence[bool]:
        """For each exchange, True if it changed something."""
        return action_flags(self._part)

    def _facts(self, say: ResultFormatter) -> Sequence[Fact]:
        flags = self._is_current, self._is_action
        return (*action_facts(self._part, say, *flags), *record_facts(self._part, say, *flags))


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
            line = call_line(exchange.called, _MAX_SLICE_CHARS)
            text = f"{line}{ARROW}{flatten_text(exchange.result)}"
            variants.insert(0, msgspec.structs.replace(forms[0], text=text))
        factor = _SLICE_FACTOR if forms[0].kind is FactKind.SLICE else 1.0
        yield Candidate(tuple([(fact,) for fact in dict.fromkeys(variants)]), factor=factor)


def in_message_order(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """The facts in the order of their messages."""
    return tuple(sorted(facts, key=lambda fact: fact.messages[-1]))


def omission_fact(candidates: Sequence[Candidate], end: int) -> Iterator[Fact]:
    """A line that names the calls that are gone; nothing for none.

    Args:
        candidates: Those that do not stand.
        end: End of the region.
    """
    gone = [one for one in candidates if one.fact.kind in CALL_KINDS]
    if not gone:
        return
    turns = sorted({turn for one in gone for turn in one.fact.turns})
    yield Fact(
        kind=FactKind.GONE,
        text=_gone_calls(gone),
        turns=(turns[0], turns[-1]) if len(turns) > 1 else (turns[0],),
        messages=(end - 1,),
    )


def _gone_calls(gone: Sequence[Candidate]) -> str:
    """The tools of calls: failures and unknown outcomes first, then those called most.

    Of what was changed the arguments of the newest calls are named, as far as they are short.
    """
    tools: dict[str, list[Candidate]] = {}
    for one in sorted(gone, key=lambda one: one.fact.has_succeeded):
        tools.setdefault(f"{_tool_name(one.fact)}{_outcome_mark(one)}", []).append(one)
    ordered = sorted(tools, key=lambda tool: (not tool.endswith(")"), -len(tools[tool])))
    named = [
        f"{tool}{f' ({len(tools[tool])} times)' if len(tools[tool]) > 1 else ''}"
        f"{_named_arguments(tools[tool])}"
        for tool in ordered[:_MAX_NAMED_TOOLS]
    ]
    more = len(tools) - len(named)
    return ", ".join(named) + (f" and {more} more tools" if more > 0 else "")


def _named_arguments(gone: Sequence[Candidate]) -> str:
    """The arguments of calls of a tool that changed something, the newest first, in brackets."""
    facts = [one.variants[-1][-1] for one in reversed(gone) if one.fact.kind is FactKind.ACTION]
    inner = [
        fact.text.rpartition(ARROW)[0].partition("(")[2].removesuffix(")").removesuffix(", …")
        for fact in facts
        if fact.has_succeeded
    ]
    named = [*words_that_fit(filter(None, inner), _MAX_ARGUMENTS_CHARS)]
    more = "; …" if len(named) < len(inner) else ""
    return f" [{'; '.join(named)}{more}]" if named else ""


def _tool_name(fact: Fact) -> str:
    """The tool that a call's line names."""
    return fact.text.partition("(")[0][:_MAX_TOOL_NAME_CHARS]


def _outcome_mark(gone: Candidate) -> str:
    """The mark of an action that failed, may have, or succeeded behind a failure; else ""."""
    if gone.is_recovery:
        return " (ok after a failure)"
    if gone.fact.has_succeeded:
        return ""
    return " (unknown)" if gone.fact.text.endswith(f"{ARROW}{UNKNOWN}") else " (failed)"
