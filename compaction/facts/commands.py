"""Commands as facts: what was run and what for, how it ended, and the names its output showed."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import log2
from typing import Final

from compaction.facts.call_lines import CallFormatter, parse_arguments
from compaction.facts.call_outcomes import CallOutcome, action_outcome
from compaction.facts.fact import Fact, FactKind
from compaction.facts.region_contents import RegionContents, ToolExchange
from compaction.facts.rendering import sentences, text_head
from compaction.facts.statements import settled_kind
from compaction.reading.message import CannotCompactError, Voice
from compaction.reading.redaction import REDACTED, redact_secrets
from compaction.reading.token_estimate import estimate_tokens
from compaction.results.rereadable_results import (
    MAX_FAULT_LINES,
    PATH_RANK,
    RankedNames,
    shown_names,
)
from compaction.results.result_profile import is_rereadable
from compaction.results.value_leaves import leaf_strings

#: The share of a part's tokens that purposes may take; what a short part has in any case, and no
#: more of it than this.
_PURPOSES_SHARE: Final = 0.02
_MIN_PURPOSE_TOKENS: Final = 150
_MAX_PURPOSES_SHARE: Final = 0.08
#: Characters of a purpose that stay.
_MAX_PURPOSE_CHARS: Final = 100
#: Endings that say nothing.
_ENDS: Final = ".: "
#: Tokens around one.
_PURPOSE_FRAME_TOKENS: Final = 2
#: Characters of a text that are looked through, up to where the call begins.
_SCANNED_CHARS: Final = 1_000
#: Characters of a call by which it is found in the text that it is written in.
_CALL_HEAD_CHARS: Final = 40
#: A line that only frames what is called, and what only says that words are thoughts.
_frames: Final = re.compile(r"`{3}|~{3}|</?[\w=.-]{1,64}>|[A-Z]{2,}$|Action:").match
_THOUGHT: Final = re.compile(r"(?:THOUGHT|Thought|DISCUSSION|Reasoning):\s*")
#: Beginnings of commands that only print what comes next, which needs no words.
_opens: Final = re.compile(
    r"(?:(?:Now|So|But|And|Also|Then|Next|First|Finally|Okay|OK|Good|Great|Perfect)\b[,.!]? )*"
    r"(?:[Ll]et me|[Ll]et['\u2019]s|(?:I|[Ww]e)(?:['\u2019]ll| will| need to| should)) "
    r"(?:(?:now|first|also|then|try to) )*"
).match
#: Two words, and no fewer: less tells of nothing.
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
    said = dict(part.messages_of(Voice.ASSISTANT))
    first: dict[int, int] = {}
    for at in places:
        first.setdefault(part.exchanges[at].messages[0], at)
    found: dict[int, str] = {}
    for message, at in reversed(first.items()):
        text = _call_purpose(said[message].text, part.exchanges[at]) if message in said else ""
        cost = estimate_tokens(text) + _PURPOSE_FRAME_TOKENS
        if text and cost <= room:
            room -= cost
            found[at] = text
    return found


def _call_purpose(text: str, exchange: ToolExchange) -> str:
    """The last sentence before a call that tells something; "" for none, and for a decision.

    Decisions have lines of their own. What a long text is cut in is no sentence. Nor is one told
    that held a secret: another may stand beside it that does not look like one.
    """
    asked = exchange.called.arguments[:_CALL_HEAD_CHARS]
    end = text.rfind(asked) if asked else -1
    end = end if end >= 0 else len(text)
    spoken = _spoken_sentences(text[max(0, end - _SCANNED_CHARS) : end])
    told = [
        each
        for each in islice(spoken, int(end > _SCANNED_CHARS), None)
        if _tells(_without_filler(each))
    ]
    last = told[-1] if told else REDACTED
    return (
        ""
        if REDACTED in last or settled_kind(last) is not None
        else text_head(_without_filler(last), _MAX_PURPOSE_CHARS)
    )


def _without_filler(sentence: str) -> str:
    """A sentence without what only says that something is to be done."""
    opens = _opens(sentence)
    return (sentence[opens.end() :] if opens else sentence).rstrip(_ENDS)


def _spoken_sentences(text: str) -> Iterator[str]:
    """The sentences of a text but for the lines that only frame a call."""
    for line in text.splitlines():
        if not _frames(line.strip()):
            yield from sentences(_THOUGHT.sub("", line))


#: The share of a part's tokens that paths and names may take, and of that room the paths'.
_NAMES_SHARE: Final = 0.15
_PATHS_SHARE: Final = 0.75
#: Tokens that a short part has in any case.
_MIN_NAME_TOKENS: Final = 100
#: After so many further calls a name counts half.
_NAME_HALF_LIFE_CALLS: Final = 6
#: Folders of a path that are looked at.
_MAX_PATH_FOLDERS: Final = 16
#: Facts whose lines name what was shown, each name by itself.
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
    part: RegionContents, lines: Mapping[int, str], latest: Sequence[int], share: float
) -> tuple[dict[int, list[str]], set[int]]:
    """The names that stay for each exchange, and the exchanges that showed more than they say.

    The most telling names of the part stay. A name counts more the later it was shown, the more
    calls told of it, and where it was defined or called. It stays with the exchange that showed it
    last, unless that says it already.

    Args:
        part: Part that is compacted.
        lines: Line about each exchange that stays, by its place.
        latest: The place of the last call that is equal to each.
        share: Most of the available room that may be taken, from 0 to 1.
    """
    came: dict[int, Mapping[str, int]] = {}
    seen = _names_seen(part, lines, latest, came)
    here = len(part.exchanges)
    stood = _words_sent_before(part)
    new = [name for name in seen if name not in stood]
    ranked = sorted(new, key=lambda name: _name_score(seen[name], here), reverse=True)
    room = _NamesRoom(seen, lines)
    paths = [name for name in ranked if seen[name].weight == PATH_RANK]
    size = max(_MIN_NAME_TOKENS, region_tokens(part) * _NAMES_SHARE) * share
    left = room.take(paths, size * _PATHS_SHARE)
    left = room.take(
        (name for name in ranked if seen[name].weight != PATH_RANK),
        size - size * _PATHS_SHARE + left,
    )
    room.take(paths, left)
    told: dict[int, list[str]] = {}
    for name, each in seen.items():
        if name in room.kept:
            told.setdefault(each.last, []).append(name)
    short = {at for at in lines if not room.holds(at, came[at])}
    return told, short


class _NamesRoom:
    """The names taken so far, and the room they fill."""

    def __init__(self, seen: Mapping[str, _SeenName], lines: Mapping[int, str]) -> None:
        self.kept: set[str] = set()
        self._seen = seen
        self._said = {at: _covered_names(text) for at, text in lines.items()}

    def take(self, ranked: Iterable[str], room: float) -> float:
        """Take what the room holds and what does not stand on its line yet; what room is left."""
        for name in ranked:
            covered = self._said[self._seen[name].last]
            cost = estimate_tokens(name) + 1
            if cost < room and name not in covered:
                room -= cost
                self.kept.add(name)
                _add_covered_names(name, covered)
        return room

    def holds(self, at: int, names: Iterable[str]) -> bool:
        """True if all these names stand on the line of an exchange."""
        return self._said[at].issuperset(names)


def region_tokens(part: RegionContents) -> int:
    """The tokens of the region."""
    region = part.region
    held = enumerate(region.messages[region.start : region.end], region.start)
    return sum(message.tokens for at, message in held if at not in region.kept)


def _words_sent_before(part: RegionContents) -> set[str]:
    """The words of the segments before this one: what stands there takes no room again."""
    facts = (fact for each in part.region.earlier for fact in each.facts if fact.kind in _NAMING)
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
    seen: dict[str, _SeenName] = {}
    known: dict[str, RankedNames] = {}
    for each, stands in zip(part.exchanges, latest, strict=True):
        if stands in lines:
            came[stands] = shown_names(each.result, known)
            told = shown_names("\n".join(_request_texts(part, each)), known)
            for name, count in came[stands].items():
                told[name] = max(told.get(name, 0), count)
            for name, weight in told.items():
                held = seen.get(name)
                if held is None:
                    held = seen[name] = _SeenName()
                held.weight = max(held.weight, weight)
                held.times += 1
                held.last = stands
    return seen


def _request_texts(part: RegionContents, exchange: ToolExchange) -> Iterator[str]:
    """The texts and arguments of the assistant around a call."""
    yield redact_secrets(part.region.messages[exchange.messages[0]].text)
    read = parse_arguments(exchange.called)
    try:
        asked = "\n".join(leaf_strings(read)) if read is not None else exchange.called.arguments
    except CannotCompactError:
        asked = exchange.called.arguments
    yield redact_secrets(asked)


def _covered_names(text: str) -> set[str]:
    """All that stands in a text as a name."""
    covered: set[str] = set()
    for word in _words(text):
        _add_covered_names(word, covered)
    return covered


def _add_covered_names(word: str, covered: set[str]) -> None:
    """Note what stands where a name does: its parts, and the ends of a path."""
    covered.add(word)
    covered.update(_parts(word))
    steps = word.split("/", _MAX_PATH_FOLDERS)
    for at in range(1, len(steps)):
        covered.add("/".join(steps[at:]))
        covered.add("/".join(steps[:at]))


#: Characters of an argument that stay.
MAX_ARGUMENT_CHARS: Final = 160
#: All the room that there is for names.
MAX_NAMES_CHARS: Final = 400
#: The share of a part's tokens that the lines that say what went wrong may take,
_FAULTS_SHARE: Final = 0.03
#: and what a short part has in any case.
_MIN_FAULT_CHARS: Final = 300
#: Stands where something was left out, so that no list is read as if it were whole.
MORE_SIGN: Final = "…"


def command_facts(
    part: RegionContents, names: int = MAX_NAMES_CHARS, share: float = 1.0
) -> Iterator[Fact]:
    """Each call with what for, how it ended and the names in what came back.

    Of equal calls the latest stays. What calls were for is said where names have all their room.

    Args:
        part: Part that is compacted.
        names: Characters taken of the room for names, of ``MAX_NAMES_CHARS``.
        share: The part of the calls that stays: the latest ones.
    """
    keys = [each.key for each in part.exchanges]
    last = {key: at for at, key in enumerate(keys)}
    latest = [last[key] if key else at for at, key in enumerate(keys)]
    first = len(keys) - round(len(keys) * share)
    say = CallFormatter(MAX_ARGUMENT_CHARS)
    ended = {
        at: CallOutcome(each)
        for at, each in enumerate(part.exchanges)
        if at >= first and latest[at] == at
    }
    told = {
        at: _command_with_outcome(part.exchanges[at], said)
        for at, said in _outcome_texts(part, ended).items()
    }
    called = {at: say(part.exchanges[at].called) for at in ended if keys[at]}
    if names == MAX_NAMES_CHARS:
        meant = call_purposes(part, called, region_tokens(part))
        called |= {at: f"{called[at]} # {why}" for at, why in meant.items()}
    lines = {at: (called.get(at, ""), told[at]) for at in ended}
    whole = {at: " ".join(line) for at, line in lines.items()}
    shown, short = names_to_keep(part, whole, latest, names / MAX_NAMES_CHARS)
    for at, line in lines.items():
        each = part.exchanges[at]
        more = _more_sign(ended[at], short=at in short, empty=not shown.get(at))
        named = " ".join([*shown.get(at, ()), *more])
        yield Fact(
            kind=FactKind.COMMAND,
            text=redact_secrets(" → ".join(filter(None, [*line, named]))),
            turns=(each.turn,),
            messages=each.messages,
            key=keys[at],
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
    room = max(_MIN_FAULT_CHARS, region_tokens(part) * _FAULTS_SHARE)
    told: dict[int, str] = {}
    for at in reversed(list(ended)):
        most = MAX_FAULT_LINES if room > 0 else int(ended[at].is_wrong)
        told[at] = ended[at].text(most)
        if not ended[at].is_whole:
            room -= estimate_tokens(told[at])
    return told


def _more_sign(ended: CallOutcome, *, short: bool, empty: bool) -> tuple[str, ...]:
    """The sign that more came back than is said: other names, or what has none."""
    if ended.is_whole:
        return ()
    return (MORE_SIGN,) if short or (empty and not ended.faults(1)) else ()
