"""Facts from shell commands: the command and its purpose, its outcome, and names in its output."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import log2
from typing import Final

from compaction.facts.call_lines import CallFormatter
from compaction.facts.call_outcomes import action_outcome
from compaction.facts.coding.files import call_without_texts, is_made_edit
from compaction.facts.fact import OK, Fact, FactKind
from compaction.facts.region_contents import RegionContents, ToolExchange
from compaction.facts.rendering import text_head
from compaction.language.sentences import sentences
from compaction.reading.message import CannotCompactError, Voice, parse_arguments
from compaction.reading.token_estimate import estimate_tokens
from compaction.results.command_outcomes import CallOutcome
from compaction.results.rereadable_results import (
    MAX_FAULT_LINES,
    PATH_RANK,
    shown_names,
)
from compaction.results.result_profile import is_rereadable
from compaction.results.value_leaves import leaf_strings

#: Maximum share of a region's tokens for purposes of commands; the minimum tokens for a short
#: region, and the maximum share of it that this minimum may take.
_PURPOSES_SHARE: Final = 0.02
_MIN_PURPOSE_TOKENS: Final = 150
_MAX_PURPOSES_SHARE: Final = 0.08
#: Maximum characters kept of a purpose.
_MAX_PURPOSE_CHARS: Final = 100
#: Characters removed at the end of a purpose.
_ENDS: Final = ".: "
#: Tokens of a purpose's punctuation.
_PURPOSE_FRAME_TOKENS: Final = 2
#: Maximum characters scanned before a call for its purpose.
_SCANNED_CHARS: Final = 1_000
#: Characters at a call's beginning by which it is found in the text that holds it.
_CALL_HEAD_CHARS: Final = 40
#: Regular expressions for a line that only frames a call, and for a label before thoughts.
_frames: Final = re.compile(r"`{3}|~{3}|</?[\w=.-]{1,64}>|[A-Z]{2,}$|Action:").match
_THOUGHT: Final = re.compile(r"(?:THOUGHT|Thought|DISCUSSION|Reasoning):\s*")
#: Regular expression for openings such as "Now let me", which say nothing of the purpose.
_opens: Final = re.compile(
    r"(?:(?:Now|So|But|And|Also|Then|Next|First|Finally|Okay|OK|Good|Great|Perfect)\b[,.!]? )*"
    r"(?:[Ll]et me|[Ll]et['\u2019]s|(?:I|[Ww]e)(?:['\u2019]ll| will| need to| should)) "
    r"(?:(?:now|first|also|then|try to) )*"
).match
#: Regular expression for two words in a row, the minimum of a purpose.
_tells: Final = re.compile(r"[^\W\d_]{2}\W+[^\W\d_]{2}").search


def call_purposes(part: RegionContents, places: Iterable[int], weight: int) -> Mapping[int, str]:
    """The purposes of the exchanges at these places; the latest ones, as there is room.

    Of calls of one message the first one has it.

    Args:
        part: Part that is compacted.
        places: The exchanges that are told of.
        weight: The tokens of what is compacted.
    """
    room = min(max(_MIN_PURPOSE_TOKENS, weight * _PURPOSES_SHARE), weight * _MAX_PURPOSES_SHARE)
    replies = dict(part.messages_of(Voice.ASSISTANT))
    first: dict[int, int] = {}
    for index in places:
        first.setdefault(part.exchanges[index].messages[0], index)
    purposes: dict[int, str] = {}
    for message, index in reversed(first.items()):
        text = (
            _call_purpose(replies[message].text, part.exchanges[index])
            if message in replies
            else ""
        )
        cost = estimate_tokens(text) + _PURPOSE_FRAME_TOKENS
        if text and cost <= room:
            room -= cost
            purposes[index] = text
    return purposes


def _call_purpose(text: str, exchange: ToolExchange) -> str:
    """The last sentence before a call that tells something; "" for none.

    What a long text is cut in is no sentence.
    """
    arguments = exchange.called.arguments[:_CALL_HEAD_CHARS]
    end = text.rfind(arguments) if arguments else -1
    end = end if end >= 0 else len(text)
    spoken = _spoken_sentences(text[max(0, end - _SCANNED_CHARS) : end])
    purposes = [
        sentence
        for sentence in islice(spoken, int(end > _SCANNED_CHARS), None)
        if _tells(_without_filler(sentence))
    ]
    return text_head(_without_filler(purposes[-1]), _MAX_PURPOSE_CHARS) if purposes else ""


def _without_filler(sentence: str) -> str:
    """A sentence without what only says that something is to be done."""
    opens = _opens(sentence)
    return (sentence[opens.end() :] if opens else sentence).rstrip(_ENDS)


def _spoken_sentences(text: str) -> Iterator[str]:
    """The sentences of a text but for the lines that only frame a call."""
    for line in text.splitlines():
        if not _frames(line.strip()):
            yield from sentences(_THOUGHT.sub("", line))


#: Maximum share of a region's tokens for paths and names; the paths' share of those tokens.
_NAMES_SHARE: Final = 0.15
_PATHS_SHARE: Final = 0.75
#: Minimum tokens for paths and names in a short region.
_MIN_NAME_TOKENS: Final = 100
#: Further calls after which a name's weight is halved.
_NAME_HALF_LIFE_CALLS: Final = 6
#: Maximum folders of a path that are read.
_MAX_PATH_FOLDERS: Final = 16
#: Kinds of facts whose lines list the names that an output showed.
_NAMING: Final = (FactKind.COMMAND, FactKind.FILE)
_words = re.compile(r"[\w.@/+~%#-]+").findall
_parts = re.compile(r"\w+").findall


class _SeenName:
    """A name: how telling it is, how many calls told of it, and the last that stays."""

    __slots__ = ("last", "times", "weight")

    def __init__(self) -> None:
        self.weight = 0
        self.times = 0
        self.last = 0


def names_to_keep(
    part: RegionContents, lines: Mapping[int, str], latest: Sequence[int]
) -> tuple[dict[int, list[str]], set[int]]:
    """The names that stay for each exchange, and the exchanges that showed more than they say.

    The most telling names of the part stay. A name counts more the later it was shown, the more
    calls told of it, and where it was defined or called. It stays with the exchange that showed it
    last, unless that says it already.

    Args:
        part: Part that is compacted.
        lines: Line about each exchange that stays, by its place.
        latest: The place of the last call that is equal to each.
    """
    came: dict[int, Mapping[str, int]] = {}
    seen_names = _names_seen(part, lines, latest, came)
    here = len(part.exchanges)
    stood = _words_sent_before(part)
    new = [name for name in seen_names if name not in stood]
    ranked = sorted(new, key=lambda name: _name_score(seen_names[name], here), reverse=True)
    room = _NamesRoom(seen_names, lines)
    paths = [name for name in ranked if seen_names[name].weight == PATH_RANK]
    size = max(_MIN_NAME_TOKENS, region_tokens(part) * _NAMES_SHARE)
    left = room.take(paths, size * _PATHS_SHARE)
    left = room.take(
        (name for name in ranked if seen_names[name].weight != PATH_RANK),
        size - size * _PATHS_SHARE + left,
    )
    room.take(paths, left)
    names_by_exchange: dict[int, list[str]] = {}
    for name, seen_name in seen_names.items():
        if name in room.kept:
            names_by_exchange.setdefault(seen_name.last, []).append(name)
    short = {index for index in lines if not room.holds(index, came[index])}
    return names_by_exchange, short


class _NamesRoom:
    """The names taken so far, and the room they fill."""

    def __init__(self, seen_names: Mapping[str, _SeenName], lines: Mapping[int, str]) -> None:
        self.kept: set[str] = set()
        self._seen = seen_names
        self._said = {index: _covered_names(text) for index, text in lines.items()}

    def take(self, ranked: Iterable[str], room: float) -> float:
        """Take what the room holds and what does not stand on its line yet; what room is left."""
        for name in ranked:
            covered = self._said[self._seen[name].last]
            cost = estimate_tokens(name) + 1 if name not in covered else room
            if cost < room:
                room -= cost
                self.kept.add(name)
                _add_covered_names(name, covered)
        return room

    def holds(self, index: int, names: Iterable[str]) -> bool:
        """True if all these names stand on the line of an exchange."""
        return self._said[index].issuperset(names)


def region_tokens(part: RegionContents) -> int:
    """The tokens of the region."""
    region = part.region
    indexed_messages = enumerate(region.messages[region.start : region.end], region.start)
    return sum(message.tokens for index, message in indexed_messages if index not in region.kept)


def _words_sent_before(part: RegionContents) -> set[str]:
    """The words of the segments before this one: what stands there takes no room again."""
    facts = (
        fact for segment in part.region.earlier for fact in segment.facts if fact.kind in _NAMING
    )
    return {word for fact in facts for word in fact.text.split()}


def _name_score(name: _SeenName, here: int) -> float:
    """The score of a name; equal ones stay in the order of their first appearance."""
    return (
        name.weight * (1 + log2(name.times)) / (1 + (here - 1 - name.last) / _NAME_HALF_LIFE_CALLS)
    )


def _names_seen(
    part: RegionContents,
    lines: Mapping[int, str],
    latest: Sequence[int],
    came: dict[int, Mapping[str, int]],
) -> dict[str, _SeenName]:
    """The names of a part; those of a call that was made again stand with the last one like it.

    Those of what came back last are put into ``came``.
    """
    seen_names: dict[str, _SeenName] = {}
    for exchange, stands in zip(part.exchanges, latest, strict=True):
        if stands in lines:
            came[stands] = dict(part.find(shown_names, exchange.result))
            weights = dict(part.find(shown_names, "\n".join(_request_texts(part, exchange))))
            for name, count in came[stands].items():
                if weights.get(name, 0) < count:
                    weights[name] = count
            for name, weight in weights.items():
                seen_name = seen_names.get(name)
                if seen_name is None:
                    seen_name = seen_names[name] = _SeenName()
                seen_name.weight = max(seen_name.weight, weight)
                seen_name.times += 1
                seen_name.last = stands
    return seen_names


def _request_texts(part: RegionContents, exchange: ToolExchange) -> Iterator[str]:
    """The texts and arguments of the assistant around a call."""
    yield part.region.messages[exchange.messages[0]].text
    read = parse_arguments(exchange.called)
    try:
        yield "\n".join(leaf_strings(read)) if read is not None else exchange.called.arguments
    except CannotCompactError:
        yield exchange.called.arguments


def _covered_names(text: str) -> set[str]:
    """All that stands in a text as a name."""
    words = _words(text)
    covered = {*words, *_parts(text)}
    for word in words:
        if "/" in word:
            _add_covered_names(word, covered)
    return covered


def _add_covered_names(word: str, covered: set[str]) -> None:
    """Note what stands where a name does: its parts, and the ends of a path."""
    covered.add(word)
    covered.update(_parts(word))
    steps = word.split("/", _MAX_PATH_FOLDERS)
    for index in range(1, len(steps)):
        covered.add("/".join(steps[index:]))
        covered.add("/".join(steps[:index]))


#: Maximum characters kept of an argument.
MAX_ARGUMENT_CHARS: Final = 160
#: Maximum share of a region's tokens for lines with errors.
_FAULTS_SHARE: Final = 0.03
#: Minimum tokens for lines with errors in a short region.
_MIN_FAULT_TOKENS: Final = 300
#: Marks an omission, so that no list is read as complete.
MORE_SIGN: Final = "…"


def command_facts(part: RegionContents) -> Iterator[tuple[Fact, Fact]]:
    """Each call with what for, how it ended and the names in what came back; and bare.

    Of equal calls the latest stays.
    """
    keys = [exchange.key for exchange in part.exchanges]
    last = {key: index for index, key in enumerate(keys)}
    latest = [last[key] if key else index for index, key in enumerate(keys)]
    say = CallFormatter(MAX_ARGUMENT_CHARS)
    ended = {
        index: exchange.outcome
        for index, exchange in enumerate(part.exchanges)
        if latest[index] == index
    }
    edits = {index for index in ended if is_made_edit(part.exchanges[index], ended[index])}
    outcome_lines = {
        index: OK if index in edits else _command_with_outcome(part.exchanges[index], text)
        for index, text in _outcome_texts(part, ended).items()
    }
    calls = {index: part.exchanges[index].called for index in ended if keys[index]}
    short_calls = {index: call_without_texts(calls[index]) for index in edits & calls.keys()}
    called = {index: say(one) for index, one in (calls | short_calls).items()}
    purposes = call_purposes(part, called, region_tokens(part))
    lines = {
        index: (
            f"{called[index]} # {purposes[index]}" if index in purposes else called.get(index, ""),
            outcome_lines[index],
        )
        for index in ended
    }
    whole = {index: " ".join(line) for index, line in lines.items()}
    shown, short = names_to_keep(part, whole, latest)
    for index, line in lines.items():
        names = shown.get(index, [])
        more = _more_sign(ended[index], short=index in short, empty=not names)
        less = _more_sign(ended[index], short=bool(names) or index in short, empty=True)
        bare = (called.get(index, ""), outcome_lines[index], *less)
        yield (
            _command_fact(part.exchanges[index], (*line, " ".join([*names, *more]))),
            _command_fact(part.exchanges[index], bare),
        )


def _command_fact(exchange: ToolExchange, pieces: Iterable[str]) -> Fact:
    return Fact(
        kind=FactKind.COMMAND,
        text=" → ".join(filter(None, pieces)),
        turns=(exchange.turn,),
        messages=exchange.messages,
        key=exchange.key,
    )


def _command_with_outcome(exchange: ToolExchange, outcome: str) -> str:
    """A command with its outcome; one word where nothing else tells how it ended."""
    if (
        outcome
        or not (exchange.is_action or not exchange.result)
        or (exchange.result and is_rereadable("", exchange.called))
    ):
        return outcome
    return action_outcome(exchange)


def _outcome_texts(part: RegionContents, ended: Mapping[int, CallOutcome]) -> Mapping[int, str]:
    """The outcome of each; the latest name all failures, others as many as fit."""
    room = max(_MIN_FAULT_TOKENS, region_tokens(part) * _FAULTS_SHARE)
    texts: dict[int, str] = {}
    for index in reversed(list(ended)):
        max_lines = MAX_FAULT_LINES if room > 0 else int(ended[index].is_wrong)
        texts[index] = ended[index].text(max_lines)
        if not ended[index].is_whole:
            room -= estimate_tokens(texts[index])
    return texts


def _more_sign(ended: CallOutcome, *, short: bool, empty: bool) -> tuple[str, ...]:
    """The sign that more came back than is said: other names, or what has none."""
    if ended.is_whole:
        return ()
    return (MORE_SIGN,) if short or (empty and not ended.faults(1)) else ()
