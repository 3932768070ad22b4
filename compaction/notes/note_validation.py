"""Which of a model's notes are believed: those that stand on what was said, line by line.

A note is no fact because a model wrote it. What cannot be checked is not taken: a line that is
dropped costs a note, a line that is wrong costs trust. What no check here can see is a sentence
that says the contrary in the source's own words.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from typing import Final, NamedTuple

import msgspec

from compaction.facts.fact import Fact, Kind
from compaction.facts.region_contents import Part
from compaction.notes.grounding import (
    copied,
    on_one_line,
    orders,
    stands,
    stems,
    unescaped,
    whole,
    worded,
)
from compaction.notes.note_prompt import ASKED, LONGEST, MOST, said
from compaction.reading.message import Message, Voice
from compaction.reading.redaction import redacted

#: Characters of an answer that are read, and of all notes together.
_READ: Final = 64_000
_TOTAL: Final = 6_000
_CITED: Final = 16
_SHORTEST: Final = 4
#: What only a user can want, and what only people can settle or plan.
_WANTED: Final = frozenset({Kind.RULE, Kind.GOAL})
_SETTLED: Final = frozenset({Kind.DECISION, Kind.TODO})
_PEOPLE: Final = frozenset({Voice.USER, Voice.ASSISTANT})
#: The one way in which an answer is complete.
_STOP: Final = "stop"


class Why(StrEnum):
    """Why a line, or the whole answer, is not believed."""

    UNFINISHED = "the answer did not end by itself"
    FORM = "not of the form asked for"
    KIND = "of a kind that is not asked for"
    LENGTH = "empty or too long"
    TURN = "cites a turn that is not there"
    SECRET = "holds a secret"  # noqa: S105 - a reason
    WANTED = "not in the user's own words"
    COPIED = "an id, a number or a quote is not in the turns it cites"
    WORDED = "not in the words of the turns it cites"
    ORDER = "an order that no person gave"
    KNOWN = "said already"
    MANY = "more than is read"


class Believed(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken of an answer.

    Attributes:
        facts: In the answer's order; none of them was known.
        rejected: Lines that were not taken, by the reason.
    """

    facts: tuple[Fact, ...] = ()
    rejected: Mapping[Why, int] = {}

    def lines(self) -> tuple[str, ...]:
        """The facts as they are kept and shown; none holds a line end."""
        return tuple(f"{fact.kind} {_cited(fact.turns)}: {fact.text}" for fact in self.facts)


class _Note(msgspec.Struct, frozen=True):
    """A line as a model writes it."""

    kind: str
    text: str
    turns: list[int]


class _Refused(Exception):
    """A line that is not taken."""

    def __init__(self, why: Why) -> None:
        super().__init__(why.value)
        self.why = why


class _Source(NamedTuple):
    """A message that notes may stand on.

    Attributes:
        at: Its place in the caller's list.
        message: The message.
        text: All it says, on one line.
        stems: Its words.
        orders: The words of an order that it has; none where no person speaks.
    """

    at: int
    message: Message
    text: str
    stems: frozenset[str]
    orders: frozenset[str]

    @property
    def is_personal(self) -> bool:
        """True if user or assistant says it."""
        return self.message.voice in _PEOPLE


_note = msgspec.json.Decoder(_Note).decode


def believed(answer: str, finish: str, part: Part, known: Sequence[Fact] = ()) -> Believed:
    """The notes of an answer that hold; none where it did not end by itself.

    Args:
        answer: What the model wrote: JSON lines, with or without a fence around them.
        finish: Why it stopped, as ``finish_reason`` says.
        part: What it was asked about.
        known: What rules found in it by themselves.
    """
    if finish != _STOP:
        return Believed(rejected={Why.UNFINISHED: 1})
    facts: list[Fact] = []
    rejected: Counter[Why] = Counter()
    had = {_same(fact.kind, fact.text) for fact in known}
    left = _TOTAL
    source = cache(partial(_source, {at: message for _, at, message in said(part)}))
    lines = _lines(answer)
    rejected[Why.MANY] += max(0, len(lines) - MOST)
    for line in lines[:MOST]:
        try:
            fact = _fact(line, part, source)
            same = _new(fact, had, left)
        except _Refused as refused:
            rejected[refused.why] += 1
        else:
            had.add(same)
            left -= len(fact.text)
            facts.append(fact)
    return Believed(facts=tuple(facts), rejected=dict(+rejected))


def _lines(answer: str) -> list[str]:
    """The lines that say something."""
    lines = (line.strip() for line in answer[:_READ].split("\n"))
    return [line for line in lines if line and not line.startswith("```")]


def _cited(turns: Sequence[int]) -> str:
    return ",".join(f"t{turn}" for turn in turns)


def _same(kind: Kind, text: str) -> tuple[str, str]:
    return kind, on_one_line(text).casefold()


def _new(fact: Fact, had: Collection[tuple[str, str]], left: int) -> tuple[str, str]:
    """What a fact says, to know it again.

    Raises:
        _Refused: If it was said already, or there is no room left for it.
    """
    same = _same(fact.kind, fact.text)
    if same in had:
        raise _Refused(Why.KNOWN)
    if len(fact.text) > left:
        raise _Refused(Why.MANY)
    return same


def _fact(line: str, part: Part, source: Callable[[int], _Source]) -> Fact:
    """The fact that a line notes.

    Raises:
        _Refused: If it is not believed.
    """
    kind, text, turns = _read(line)
    cited = list(said(part, turns))
    if turns - {turn for turn, _, _ in cited}:
        raise _Refused(Why.TURN)
    if redacted(text) != text:
        raise _Refused(Why.SECRET)
    sources = [source(at) for _, at, _ in cited]
    if kind in _WANTED:
        text, messages = _wanted(text, sources)
    else:
        messages = _grounded(kind, text, sources)
    return Fact(kind=kind, text=text, turns=tuple(sorted(turns)), messages=messages)


class _Line(NamedTuple):
    kind: Kind
    text: str
    turns: frozenset[int]


def _read(line: str) -> _Line:
    """Kind, text and turns of a line.

    Raises:
        _Refused: If it has not the form that was asked for.
    """
    try:
        found = _note(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise _Refused(Why.FORM) from None
    kind = next((each for each in ASKED if each == found.kind), None)
    if kind is None:
        raise _Refused(Why.KIND)
    text = on_one_line(found.text)
    if not _SHORTEST <= len(text) <= LONGEST:
        raise _Refused(Why.LENGTH)
    if not 0 < len(found.turns) <= _CITED:
        raise _Refused(Why.TURN)
    return _Line(kind, text, frozenset(found.turns))


def _wanted(text: str, sources: Sequence[_Source]) -> tuple[str, tuple[int, ...]]:
    """The user's whole sentence that is quoted, and the message it stands in.

    Raises:
        _Refused: If no user said so, or the sentence is too long or holds a secret.
    """
    quote = text.strip("\"'“”`")
    users = [one for one in sources if one.message.voice is Voice.USER]
    from_there = [(whole(quote, one.message.text), one.at) for one in users] if quote else []
    found, at = next(((each, at) for each, at in from_there if each), ("", 0))
    if not found:
        raise _Refused(Why.WANTED)
    if len(found) > LONGEST:
        raise _Refused(Why.LENGTH)
    if redacted(found) != found:
        raise _Refused(Why.SECRET)
    return found, (at,)


def _grounded(kind: Kind, text: str, sources: Sequence[_Source]) -> tuple[int, ...]:
    """The messages a note stands on.

    What is settled or planned stands on people's words alone, and so does every order; a tool's
    text is a record, whatever it says.

    Raises:
        _Refused: If it does not stand on the turns it cites.
    """
    if not text.isprintable():
        raise _Refused(Why.FORM)
    people = [one for one in sources if one.is_personal]
    sources = people if kind in _SETTLED else sources
    tokens = list(dict.fromkeys(copied(text)))
    holding = {token: [one.at for one in sources if stands(token, one.text)] for token in tokens}
    if not all(holding.values()):
        raise _Refused(Why.COPIED)
    if not worded(text, set().union(*(one.stems for one in sources))):
        raise _Refused(Why.WORDED)
    if orders(text) - set().union(*(one.orders for one in people)):
        raise _Refused(Why.ORDER)
    places = {at for held in holding.values() for at in held} or {one.at for one in sources}
    return tuple(sorted(places))


def _source(messages: Mapping[int, Message], at: int) -> _Source:
    message = messages[at]
    text = _text(message)
    spoken = orders(text) if message.voice in _PEOPLE else frozenset[str]()
    return _Source(at, message, text, stems(text), spoken)


def _text(message: Message) -> str:
    """All that a message says, on one line: as it stands, and with its escapes undone."""
    called = (piece for call in message.calls for piece in (call.name, call.arguments))
    text = "\n".join((message.text, *called))
    plain = unescaped(text)
    return on_one_line(text if plain == text else f"{text}\n{plain}")
