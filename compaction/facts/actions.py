"""Tells which calls of a region changed something, and which of them succeeded behind a failure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compaction.agents.file_operations import CHANGES, FileEffect
from compaction.facts.call_lines import ID_ENDS, is_read_only
from compaction.facts.call_records import exchange_outcome
from compaction.facts.fact import OK
from compaction.facts.region_contents import RegionContents, ToolExchange
from compaction.reading.message import CalledTool, parse_arguments
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.results.command_outcomes import indicates_failure

#: Effects on files of calls that only look.
_LOOKS: Final = frozenset({FileEffect.VIEWED, FileEffect.SEARCHED})
#: Maximum characters of an argument by which two calls are known to be about one thing.
_MAX_OBJECT_CHARS: Final = 64
#: An argument of a call: the tool, its key and its text.
_Argument = tuple[str, str, str]


def is_action(exchange: ToolExchange, find: TextAnalyzer = analyze_uncached) -> bool:
    """True if a call changed something, or failed at what is not only a look at something."""
    called = exchange.called
    return find(_is_action, called.name, called.arguments, exchange.result)


def _is_action(name: str, arguments: str, result: str) -> bool:
    called = CalledTool(id="", name=name, arguments=arguments)
    exchange = ToolExchange(called=called, result=result, turn=0, messages=())
    effects = {one.effect for one in exchange.operations if not one.by_shell}
    if effects and effects <= _LOOKS:
        return False
    return (
        bool(effects & CHANGES)
        or exchange.is_action
        or (not is_read_only(called) and indicates_failure(result))
    )


def action_flags(part: RegionContents) -> tuple[bool, ...]:
    """For each exchange of a region, True if it changed something, or failed to.

    What succeeded at a tool of which another call is an action is one, too: a verb that is not
    known, as in ``credit``, is no look where it failed once.
    """
    flags = [is_action(exchange, part.find) for exchange in part.exchanges]
    tools = {
        exchange.called.name
        for exchange, acts in zip(part.exchanges, flags, strict=True)
        if acts and not is_read_only(exchange.called)
    }
    return tuple(
        [
            acts or (exchange.called.name in tools and _has_changed(exchange, part.find))
            for exchange, acts in zip(part.exchanges, flags, strict=True)
        ]
    )


def _has_changed(exchange: ToolExchange, find: TextAnalyzer) -> bool:
    """True if a call succeeded at more than a look at files."""
    is_look = any(one.effect in _LOOKS for one in exchange.operations)
    return not is_look and exchange_outcome(exchange, find) == OK


def recoveries(
    part: RegionContents, is_action: Sequence[bool]
) -> Mapping[tuple[int, ...], CalledTool]:
    """The newest success about each thing at which an action failed before, with that failed call.

    Calls are about one thing if they share an argument that names it; of several successes the one
    that shares the most arguments counts, then the newest. Failures of earlier segments count, too.

    Args:
        part: Part that is compacted.
        is_action: For each exchange, True if it changed something.
    """
    newest: dict[_Argument, int] = {}
    names = [
        frozenset(_object_names(exchange.called) if acts else ())
        for exchange, acts in zip(part.exchanges, is_action, strict=True)
    ]
    failed_before: dict[tuple[int, ...], CalledTool] = {}

    def note_recovery(failed: CalledTool) -> None:
        shared = frozenset(_object_names(failed))
        places = {newest[name] for name in shared if name in newest}
        if places:
            place = max(places, key=lambda index: (len(names[index] & shared), index))
            failed_before.setdefault(part.exchanges[place].messages, failed)

    for index in range(len(part.exchanges) - 1, -1, -1):
        exchange = part.exchanges[index]
        if is_action[index] and exchange_outcome(exchange, part.find) != OK:
            note_recovery(exchange.called)
        elif is_action[index]:
            for name in names[index]:
                newest.setdefault(name, index)
    for failed in _earlier_failures(part):
        note_recovery(failed)
    return failed_before


def _object_names(called: CalledTool) -> Iterator[_Argument]:
    """The arguments of a call that name what it is about, each with its tool and key."""
    arguments = parse_arguments(called)
    for key, value in arguments.items() if isinstance(arguments, dict) else ():
        is_number = isinstance(value, int) and key.lower().endswith(ID_ENDS)
        if (isinstance(value, str) or is_number) and len(str(value)) <= _MAX_OBJECT_CHARS:
            yield called.name, key, str(value)


def _earlier_failures(part: RegionContents) -> Iterator[CalledTool]:
    """The failed actions of the segments before, the newest first."""
    messages = part.region.messages
    for segment in reversed(part.region.earlier):
        for fact in reversed(segment.facts):
            if not fact.has_succeeded:
                answers = messages[fact.messages[-1]].answers
                calls = messages[fact.messages[0]].calls
                yield from [call for call in calls if call.id == answers or not answers][:1]
