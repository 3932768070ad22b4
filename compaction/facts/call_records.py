"""Facts from tool calls and their results: actions, records, errors; drops outdated results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from compaction.facts.call_lines import call_line, is_read_only
from compaction.facts.call_outcomes import ERROR, action_outcome
from compaction.facts.fact import ARROW, Fact, FactKind
from compaction.facts.region_contents import RegionContents, ToolExchange
from compaction.facts.rendering import flatten_text, unquote_json
from compaction.reading.message import CalledTool, Voice, parse_arguments
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.results.command_outcomes import CallOutcome, indicates_failure
from compaction.results.pruning import SPOKEN, VALUES, MentionedWords, text_words
from compaction.results.result_lines import matched_words, pruned_result_lines

#: Renders a result on one line.
ResultFormatter = Callable[[str], str]

#: Maximum characters kept of an argument.
_MAX_ARGUMENT_CHARS: Final = 400
#: Maximum characters kept of an argument when the call has no result: thoughts, pending calls.
_MAX_THOUGHT_CHARS: Final = 100
#: Replaces an omitted result; a line without an arrow means that there was no result.
_LEFT_OUT: Final = "…"
#: Degrees of detail of a result that is not stated whole.
_DETAILS: Final = (VALUES, SPOKEN)
#: Maximum characters before an error's message that only say that it is an error.
_MAX_TITLE_CHARS: Final = 12


def say_nothing(_: str) -> str:
    """Nothing of a result."""
    return ""


def exchange_fact(
    exchange: ToolExchange,
    kind: FactKind,
    format_result: ResultFormatter,
    key: str = "",
    replaces: int = 0,
    find: TextAnalyzer = analyze_uncached,
) -> Fact:
    """A call and what came back as a fact; an action's line ends with how it ended."""
    called, result_text = exchange.called, format_result(exchange.result)
    came, ended = _LEFT_OUT if exchange.result else "", exchange_outcome(exchange, find)
    return Fact(
        kind=kind,
        text=find(
            _exchange_line, kind.value, called.name, called.arguments, came, result_text, ended
        ),
        turns=(exchange.turn,),
        messages=exchange.messages,
        key=key,
        replaces=replaces,
    )


def exchange_outcome(exchange: ToolExchange, find: TextAnalyzer) -> str:
    """The outcome of a call, as ``action_outcome`` tells it."""
    called = exchange.called
    return find(_outcome, called.name, called.arguments, exchange.result)


def _outcome(name: str, arguments: str, result: str) -> str:
    return action_outcome(_bare_exchange(name, arguments, result))


def _exchange_line(
    kind: str, name: str, arguments: str, came: str, said_result: str, ended: str
) -> str:
    """The line of a call.

    Args:
        came: Stands for its result where that is left out; "" if nothing came back.
        said_result: Its result as it is said, on one line or several.
        ended: Its outcome.
    """
    exchange = _bare_exchange(name, arguments, came)
    result_text = unquote_json(flatten_text(said_result))
    result_text = "" if _says_no_more(result_text, ended) else result_text
    max_chars = _MAX_ARGUMENT_CHARS if came else _MAX_THOUGHT_CHARS
    text = call_line(exchange.called, max_chars, result_text) if name or arguments else "result"
    says_outcome = kind == FactKind.ACTION
    outcome_text = (
        result_text if says_outcome or result_text else _outcome_in_place(exchange, ended)
    )
    line = f"{text}{ARROW}{outcome_text}" if outcome_text else text
    words = ended.partition(": ")[2] or ended
    is_left_out = ended.startswith(ERROR) and words not in line
    if ended.startswith(ERROR) and words in result_text:
        ended = ERROR
    return f"{line}{ARROW}{ended}" if says_outcome or is_left_out else line


def _bare_exchange(name: str, arguments: str, result: str) -> ToolExchange:
    """A call and what came back, wherever it was made."""
    called = CalledTool(id="", name=name, arguments=arguments)
    return ToolExchange(called=called, result=result, turn=0, messages=())


def _outcome_in_place(exchange: ToolExchange, ended: str) -> str:
    """The outcome of a call whose result is left out; "" for a read that succeeded."""
    if ended.startswith(ERROR) or not is_read_only(exchange.called):
        return ended
    return _LEFT_OUT if exchange.result else ""


def _says_no_more(result: str, ended: str) -> bool:
    """True if a result says no more than how its call ended."""
    words = ended.partition(": ")[2] or ended
    return result.endswith(words) and len(result) <= len(words) + _MAX_TITLE_CHARS


def action_facts(
    part: RegionContents,
    format_result: ResultFormatter,
    is_current: Sequence[bool],
    is_action: Sequence[bool],
) -> Iterator[Fact]:
    """Each call that changed something, with its outcome; equal ones stand each for itself.

    Args:
        part: Part that is compacted.
        format_result: Says a result on one line; "" leaves it out.
        is_current: For each exchange, True if its result still stands; of others only how they
            ended.
        is_action: For each exchange, True if it changed something.
    """
    for exchange, still, acts in zip(part.exchanges, is_current, is_action, strict=True):
        if acts:
            say = format_result if still else say_nothing
            yield exchange_fact(exchange, FactKind.ACTION, say, find=part.find)


#: Tools that only record the model's thoughts.
_THINK: Final = frozenset({"think", "thinking", "sequentialthinking", "sequential_thinking"})


def record_facts(
    part: RegionContents,
    format_result: ResultFormatter,
    is_current: Sequence[bool],
    is_action: Sequence[bool],
) -> Iterator[Fact]:
    """Calls that only read, with what came back; those whose results no longer stand are left out.

    Thoughts that were noted in the form of a call, and nothing came back of, are left out too.

    Args:
        part: Part that is compacted.
        format_result: Says a result on one line; "" leaves it out.
        is_current: For each exchange, True if its result still stands.
        is_action: For each exchange, True if it changed something.
    """
    before = _earlier_record_turns(part)
    for exchange, still, acts in zip(part.exchanges, is_current, is_action, strict=True):
        if still and not acts and not _is_thought(exchange):
            replaces = before.get(exchange.key, 0)
            yield exchange_fact(
                exchange, FactKind.RECORD, format_result, exchange.key, replaces, part.find
            )


def _is_thought(exchange: ToolExchange) -> bool:
    return not exchange.result and exchange.called.name.lower() in _THINK


def _earlier_record_turns(part: RegionContents) -> Mapping[str, int]:
    """The turn of the latest record of each call in the segments before, by its key."""
    return {
        fact.key: fact.turns[-1]
        for segment in part.region.earlier
        for fact in segment.facts
        if fact.kind is FactKind.RECORD
    }


#: Maximum characters kept of a call.
_MAX_CALL_CHARS: Final = 80
#: Maximum lines kept of an open error, and of a fixed error.
_MAX_ERROR_LINES, _MAX_FIXED_LINES = 2, 1


def error_facts(part: RegionContents) -> Iterator[Fact]:
    """Errors of calls that were made again, as fixed where they then succeeded.

    The line of its command says it of the latest of equal calls.
    """
    keys = [exchange.key for exchange in part.exchanges]
    latest = {key: index for index, key in enumerate(keys)}
    again = {key for index, key in enumerate(keys) if key and latest[key] > index}
    ended = {
        index: exchange.outcome
        for index, exchange in enumerate(part.exchanges)
        if keys[index] in again
    }
    good = {keys[index]: index for index, outcome in ended.items() if not outcome.has_failed}
    reported_texts = {
        _failed_call_line(part.exchanges[latest[key]], ended[latest[key]], is_fixed=False)
        for key in again
    }
    reported_texts.add("")
    for index, how in ended.items():
        exchange = part.exchanges[index]
        text = _failed_call_line(exchange, how, is_fixed=good.get(keys[index], -1) > index)
        if latest[keys[index]] > index and text not in reported_texts:
            reported_texts.add(text)
            yield Fact(
                kind=FactKind.ERROR, text=text, turns=(exchange.turn,), messages=exchange.messages
            )


def _failed_call_line(exchange: ToolExchange, ended: CallOutcome, *, is_fixed: bool) -> str:
    """A call with what went wrong in it; "" where it does not say so."""
    wrong = ended.faults(_MAX_FIXED_LINES if is_fixed else _MAX_ERROR_LINES)
    if not wrong:
        return ""
    text = f"{call_line(exchange.called, _MAX_CALL_CHARS)}: {wrong}"
    return f"{text} (went well later)" if is_fixed else text


#: Maximum later results with which a result is compared; only a loop has more of one subject.
_MAX_LATER_RESULTS: Final = 8
_ID: Final = ("id", "number", "uuid")


class _ReturnedObject(msgspec.Struct, frozen=True):
    """The object that a result is about.

    Attributes:
        asked: The arguments it was asked with.
        keys: Of the object that came back.
    """

    asked: Mapping[str, Any]
    keys: frozenset[str]


def current_results(exchanges: Sequence[ToolExchange]) -> tuple[bool, ...]:
    """The results that are current: no later one came for an equal call, or said as much.

    A result tells as much when it is an object with the same ids and at least the same keys, and
    was asked for with at least the same arguments. A failure replaces nothing, and stands until an
    equal call went well.
    """
    stands = [True] * len(exchanges)
    later_keys: set[str] = set()
    later_objects: dict[bytes, list[_ReturnedObject]] = {}
    for index in range(len(exchanges) - 1, -1, -1):
        exchange = exchanges[index]
        key = exchange.key
        if not exchange.result or indicates_failure(exchange.result):
            stands[index] = not exchange.result or not key or key not in later_keys
            continue
        stands[index] = not key or (
            key not in later_keys and not _is_superseded(exchange, later_objects)
        )
        later_keys.add(key)
    return tuple(stands)


def _is_superseded(
    exchange: ToolExchange, later_objects: dict[bytes, list[_ReturnedObject]]
) -> bool:
    """True if a later result tells as much; what this one tells of is noted."""
    ids, keys = _object_ids_and_keys(exchange.result)
    read = parse_arguments(exchange.called)
    if not ids or not isinstance(read, dict):
        return False
    later = later_objects.setdefault(ids, [])
    fits = any(keys <= one.keys and _is_subset(read, one.asked) for one in later)
    if len(later) < _MAX_LATER_RESULTS:
        later.append(_ReturnedObject(read, keys))
    return fits


def _object_ids_and_keys(result: str) -> tuple[bytes, frozenset[str]]:
    """The ids of an object that came back, and its keys; nothing for what is none."""
    if result[:1] != "{":
        return b"", frozenset()
    try:
        read = orjson.loads(result)
    except ValueError:
        return b"", frozenset()
    ids = {
        key: value
        for key, value in read.items()
        if key.lower().endswith(_ID) and isinstance(value, str | int)
    }
    return orjson.dumps(ids, option=orjson.OPT_SORT_KEYS) if ids else b"", frozenset(read)


def _is_subset(few: Mapping[str, Any], many: Mapping[str, Any]) -> bool:
    """True if arguments stand among others, with the same values."""
    return all(key in many and many[key] == value for key, value in few.items())


def mentioned_words(part: RegionContents) -> MentionedWords:
    """The words of users, of the assistant and of the arguments of calls."""
    texts = [message.text for _, message in part.messages_of(Voice.USER)]
    texts += [message.text for _, message in part.messages_of(Voice.ASSISTANT)]
    texts += [exchange.called.arguments for exchange in part.exchanges]
    return frozenset().union(*[part.find(text_words, text) for text in texts])


def pruned_formatters(part: RegionContents) -> list[ResultFormatter]:
    """State results by what tells in them or was spoken of, one for each degree of detail."""
    words = mentioned_words(part)

    def state_pruned(place: int, result: str) -> str:
        spoken = sorted(words.intersection(part.find(matched_words, result)))
        lines: Sequence[str] = part.find(_pruned_lines, result, " ".join(spoken))
        return lines[place]

    return [partial(state_pruned, place) for place in range(len(_DETAILS))]


def _pruned_lines(result: str, spoken: str) -> tuple[str, ...]:
    """A result in each degree of detail, by the words of it that were spoken of."""
    return tuple(pruned_result_lines(result, frozenset(spoken.split()), _DETAILS))
