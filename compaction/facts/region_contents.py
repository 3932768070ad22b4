"""The contents of a region, read once: messages by speaker, and calls with their results.

A region is a run of consecutive messages that one segment of facts replaces; messages that are kept
in it stay as they are.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final

import msgspec

from compaction.agents.file_operations import CHANGES, FileOperation, file_operations
from compaction.facts.call_lines import call_key, is_change
from compaction.facts.fact import Region
from compaction.language.speech_acts import tells_success
from compaction.reading.message import CalledTool, ParsedMessage, Voice
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.results.command_outcomes import CallOutcome

#: Maximum characters of a result that are searched for such phrases.
_SCANNED_CHARS: Final = 300


def indicates_change(result: str) -> bool:
    """True if the beginning of a result says that something was changed."""
    return tells_success(result[:_SCANNED_CHARS])


#: The nameless call that is assigned to a result without a call.
_UNASKED: Final = (CalledTool(id="", name="", arguments=""), -1)

_start = attrgetter("start")


class _CallAnalysis:
    """The analysis of a call and what came back, wherever it was made."""

    def __init__(self, called: CalledTool, result: str) -> None:
        self.called = called
        self.result = result

    @cached_property
    def key(self) -> str:
        """A key that calls with the same request to the same tool share; "" if unknown."""
        return call_key(self.called)

    @cached_property
    def outcome(self) -> CallOutcome:
        """The exit, the short answer or the error that came back."""
        return CallOutcome(self.called, self.result)

    @cached_property
    def operations(self) -> tuple[FileOperation, ...]:
        """The operations of the call on the files that it names."""
        return file_operations(self.called, self.result)

    @cached_property
    def is_action(self) -> bool:
        """True if it changed something: by its tool's name, or by what came back."""
        return is_change(self.called) or indicates_change(self.result)


def _analyze_call(name: str, arguments: str, result: str) -> tuple[_CallAnalysis]:
    return (_CallAnalysis(CalledTool(id="", name=name, arguments=arguments), result),)


class ToolExchange(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A call and what came back.

    Attributes:
        called: The call; one without a name where a result answers none.
        result: Result of the call; "" for none.
        turn: The turn that the call is part of.
        messages: Indexes of the messages with the call and with the result.
        find: Analyzes its texts.
    """

    called: CalledTool
    result: str
    turn: int
    messages: tuple[int, ...]
    find: TextAnalyzer = analyze_uncached

    @cached_property
    def _analysis(self) -> _CallAnalysis:
        called = self.called
        analysis: _CallAnalysis
        (analysis,) = self.find(_analyze_call, called.name, called.arguments, self.result)
        return analysis

    @cached_property
    def key(self) -> str:
        """A key that calls with the same request to the same tool share; "" if unknown."""
        return self._analysis.key

    @cached_property
    def outcome(self) -> CallOutcome:
        """The exit, the short answer or the error that came back."""
        return self._analysis.outcome

    @cached_property
    def operations(self) -> tuple[FileOperation, ...]:
        """The operations of the call on the files that it names."""
        return self._analysis.operations

    @property
    def is_action(self) -> bool:
        """True if it changed something: by its tool's name, or by what came back."""
        return self._analysis.is_action


class RegionContents(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The contents of a region.

    Attributes:
        turns: The turn of each of its messages, from the first on.
        exchanges: Its calls with their results, in the order in which they were answered.
        messages_by_voice: The messages that become part of the segment, by who speaks.
        find: Finds the facts in its texts.
    """

    region: Region
    turns: tuple[int, ...]
    exchanges: tuple[ToolExchange, ...]
    messages_by_voice: Mapping[Voice, Sequence[tuple[int, ParsedMessage]]]
    find: TextAnalyzer = analyze_uncached

    @cached_property
    def exchanges_by_end(self) -> Mapping[int, ToolExchange]:
        """The calls by the message at which they ended."""
        return {exchange.messages[-1]: exchange for exchange in self.exchanges}

    @cached_property
    def changing_ends(self) -> Sequence[int]:
        """The messages at which calls ended that would change files."""
        return [
            place
            for place, exchange in self.exchanges_by_end.items()
            if any(operation.effect in CHANGES for operation in exchange.operations)
        ]

    def messages_of(self, voice: Voice) -> Sequence[tuple[int, ParsedMessage]]:
        """The messages of a voice that become part of the segment, each with its index."""
        return self.messages_by_voice.get(voice, ())

    def turn_of(self, index: int) -> int:
        """The turn of a message of the region."""
        return self.turns[index - self.region.start]


def read_region(region: Region, find: TextAnalyzer = analyze_uncached) -> RegionContents:
    """Reads the contents of a region."""
    turns = _message_turns(region)
    messages_by_voice: dict[Voice, list[tuple[int, ParsedMessage]]] = {}
    for index in range(region.start, region.end):
        message = region.messages[index]
        if index not in region.kept:
            messages_by_voice.setdefault(message.voice, []).append((index, message))
    return RegionContents(
        region=region,
        turns=turns,
        exchanges=tuple(_exchanges(region, turns, find)),
        messages_by_voice=messages_by_voice,
        find=find,
    )


def _message_turns(region: Region) -> tuple[int, ...]:
    """The turn of each message of a region."""
    turns = [0] * (region.end - region.start)
    units = region.units
    first = max(bisect_right(units, region.start, key=_start) - 1, 0)
    for unit in units[first : bisect_left(units, region.end, key=_start)]:
        for index in range(max(unit.start, region.start), min(unit.end, region.end)):
            turns[index - region.start] = unit.turn
    return tuple(turns)


def _exchanges(
    region: Region, turns: tuple[int, ...], find: TextAnalyzer
) -> Iterator[ToolExchange]:
    """Calls with their results; then those that nothing answered."""
    pending_calls: dict[str, tuple[CalledTool, int]] = {}
    for index in range(region.start, region.end):
        message = region.messages[index]
        if index in region.kept:
            continue
        pending_calls |= {called.id: (called, index) for called in message.calls}
        if message.voice is Voice.RESULT:
            called, where = pending_calls.pop(message.answers, _UNASKED)
            yield ToolExchange(
                called=called,
                result=message.text,
                turn=turns[index - region.start],
                messages=(index,) if where < 0 else (where, index),
                find=find,
            )
    for called, index in pending_calls.values():
        yield ToolExchange(
            called=called,
            result="",
            turn=turns[index - region.start],
            messages=(index,),
            find=find,
        )
