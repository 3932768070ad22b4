"""Validates a model's notes line by line, and keeps those grounded in the conversation.

A line that cannot be checked is dropped: a missing note costs little, a wrong one costs trust. No
check here detects a sentence that says the contrary in its source's own words.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from compaction.facts.fact import Fact, FactKind
from compaction.facts.region_contents import RegionContents
from compaction.notes.grounding import (
    holds_token,
    is_worded_from,
    on_one_line,
    order_words,
    unescape_json,
    verbatim_tokens,
    whole_sentences,
    word_stems,
)
from compaction.notes.note_prompt import MAX_NOTE_CHARS, MAX_NOTES, NOTED_KINDS, compacted_messages
from compaction.reading.message import ParsedMessage, Voice
from compaction.reading.redaction import redact_secrets

#: Version of the notes: changes whenever the instruction or the checks change a region's notes.
NOTES_KEY_VERSION: Final = b"1"
_KEY_BYTES: Final = 16


def notes_key(before: bytes, here: bytes, *, scope: bytes = b"", model: str = "") -> str:
    """The name of the notes on a part, 32 hexadecimal digits; others' parts have other names.

    The same part of the same conversation has the same name in every process. One message changed
    anywhere up to the part's end gives another.

    Args:
        before: The hash over all messages before the part; b"" for none.
        here: The hash over all messages up to the part's last.
        scope: Whose conversation it is: no notes are shared beyond it.
        model: The model that is asked.
    """
    digest = blake2b(digest_size=_KEY_BYTES, person=b"notes")
    for piece in (NOTES_KEY_VERSION, scope, before, here, model.encode(errors="replace")):
        digest.update(len(piece).to_bytes(8, "big"))
        digest.update(piece)
    return digest.hexdigest()


#: Maximum characters read of an answer, and maximum characters of all notes.
_MAX_ANSWER_CHARS: Final = 64_000
_MAX_NOTES_CHARS: Final = 6_000
_MAX_CITED_TURNS: Final = 16
_MIN_NOTE_CHARS: Final = 4
#: Kinds of notes that only a user can state, and kinds that only people can decide or plan.
_QUOTED_KINDS: Final = frozenset({FactKind.RULE, FactKind.GOAL})
_SETTLED: Final = frozenset({FactKind.DECISION, FactKind.TODO})
_PEOPLE: Final = frozenset({Voice.USER, Voice.ASSISTANT})
#: The finish reason of a complete answer.
_STOP: Final = "stop"


class RejectionReason(StrEnum):
    """The reason why a line, or the whole answer, is rejected."""

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


class ValidatedNotes(msgspec.Struct, frozen=True, kw_only=True):
    """The notes taken from an answer.

    Attributes:
        facts: In the answer's order; none of them was known.
        rejected: Lines that were not taken, by the reason.
    """

    facts: tuple[Fact, ...] = ()
    rejected: Mapping[RejectionReason, int] = {}

    def lines(self) -> tuple[str, ...]:
        """The facts as they are kept and shown; none holds a line end."""
        return tuple(f"{fact.kind} {_citation(fact.turns)}: {fact.text}" for fact in self.facts)


class _Note(msgspec.Struct, frozen=True):
    """A line as a model writes it."""

    kind: str
    text: str
    turns: list[int]


class _NoteRejected(Exception):
    """A line that is not taken."""

    def __init__(self, why: RejectionReason) -> None:
        super().__init__(why.value)
        self.why = why


class _Source(NamedTuple):
    """A message that notes may stand on.

    Attributes:
        at: Its place in the caller's list.
        text: All it says, on one line.
        stems: Its words.
        orders: The words of an order that it has; none where no person speaks.
    """

    at: int
    message: ParsedMessage
    text: str
    stems: frozenset[str]
    orders: frozenset[str]

    @property
    def is_personal(self) -> bool:
        """True if user or assistant says it."""
        return self.message.voice in _PEOPLE


_note = msgspec.json.Decoder(_Note).decode


def validate_notes(
    answer: str, finish: str, part: RegionContents, known_facts: Sequence[Fact] = ()
) -> ValidatedNotes:
    """The notes of an answer that hold; none where it did not end by itself.

    Args:
        answer: Answer of the model: JSON lines, with or without a fence around them.
        finish: Reason that it stopped, as ``finish_reason`` says.
        part: Part that it was asked about.
        known_facts: Facts that rules found in it by themselves.
    """
    if finish != _STOP:
        return ValidatedNotes(rejected={RejectionReason.UNFINISHED: 1})
    facts: list[Fact] = []
    rejected: Counter[RejectionReason] = Counter()
    had = {_note_identity(fact.kind, fact.text) for fact in known_facts}
    left = _MAX_NOTES_CHARS
    source = cache(
        partial(_note_source, {index: message for _, index, message in compacted_messages(part)})
    )
    lines = _note_lines(answer)
    rejected[RejectionReason.MANY] += max(0, len(lines) - MAX_NOTES)
    for line in lines[:MAX_NOTES]:
        try:
            fact = _validated_fact(line, part, source)
            same = _new_identity(fact, had, left)
        except _NoteRejected as refused:
            rejected[refused.why] += 1
        else:
            had.add(same)
            left -= len(fact.text)
            facts.append(fact)
    return ValidatedNotes(facts=tuple(facts), rejected=dict(+rejected))


def _note_lines(answer: str) -> list[str]:
    """The lines that say something."""
    lines = (line.strip() for line in answer[:_MAX_ANSWER_CHARS].split("\n"))
    return [line for line in lines if line and not line.startswith("```")]


def _citation(turns: Sequence[int]) -> str:
    return ",".join(f"t{turn}" for turn in turns)


def _note_identity(kind: FactKind, text: str) -> tuple[str, str]:
    return kind, on_one_line(text).casefold()


def _new_identity(fact: Fact, had: Collection[tuple[str, str]], left: int) -> tuple[str, str]:
    """The identity of a fact.

    Raises:
        _NoteRejected: If it was said already, or there is no room left for it.
    """
    same = _note_identity(fact.kind, fact.text)
    if same in had:
        raise _NoteRejected(RejectionReason.KNOWN)
    if len(fact.text) > left:
        raise _NoteRejected(RejectionReason.MANY)
    return same


def _validated_fact(line: str, part: RegionContents, source: Callable[[int], _Source]) -> Fact:
    """The fact that a line notes.

    Raises:
        _NoteRejected: If it is not believed.
    """
    kind, text, turns = _parse_line(line)
    cited = list(compacted_messages(part, turns))
    if turns - {turn for turn, _, _ in cited}:
        raise _NoteRejected(RejectionReason.TURN)
    if redact_secrets(text) != text:
        raise _NoteRejected(RejectionReason.SECRET)
    sources = [source(index) for _, index, _ in cited]
    if kind in _QUOTED_KINDS:
        text, messages = _quoted_rule(text, sources)
    else:
        messages = _grounding_messages(kind, text, sources)
    return Fact(kind=kind, text=text, turns=tuple(sorted(turns)), messages=messages)


class _Line(NamedTuple):
    kind: FactKind
    text: str
    turns: frozenset[int]


def _parse_line(line: str) -> _Line:
    """Kind, text and turns of a line.

    Raises:
        _NoteRejected: If it has not the form that was asked for.
    """
    try:
        note = _note(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise _NoteRejected(RejectionReason.FORM) from None
    kind = next((noted_kind for noted_kind in NOTED_KINDS if noted_kind == note.kind), None)
    if kind is None:
        raise _NoteRejected(RejectionReason.KIND)
    text = on_one_line(note.text)
    if not _MIN_NOTE_CHARS <= len(text) <= MAX_NOTE_CHARS:
        raise _NoteRejected(RejectionReason.LENGTH)
    if not 0 < len(note.turns) <= _MAX_CITED_TURNS:
        raise _NoteRejected(RejectionReason.TURN)
    return _Line(kind, text, frozenset(note.turns))


def _quoted_rule(text: str, sources: Sequence[_Source]) -> tuple[str, tuple[int, ...]]:
    """The user's whole sentence that is quoted, and the message it stands in.

    Raises:
        _NoteRejected: If no user said so, or the sentence is too long or holds a secret.
    """
    quote = text.strip("\"'“”`")
    users = [one for one in sources if one.message.voice is Voice.USER]
    from_there = (
        [(whole_sentences(quote, one.message.text), one.at) for one in users] if quote else []
    )
    rule, index = next(((sentence, index) for sentence, index in from_there if sentence), ("", 0))
    if not rule:
        raise _NoteRejected(RejectionReason.WANTED)
    if len(rule) > MAX_NOTE_CHARS:
        raise _NoteRejected(RejectionReason.LENGTH)
    if redact_secrets(rule) != rule:
        raise _NoteRejected(RejectionReason.SECRET)
    return rule, (index,)


def _grounding_messages(kind: FactKind, text: str, sources: Sequence[_Source]) -> tuple[int, ...]:
    """The messages a note stands on.

    What is settled or planned stands on people's words alone, and so does every order; a tool's
    text is a record, whatever it says.

    Raises:
        _NoteRejected: If it does not stand on the turns it cites.
    """
    if not text.isprintable():
        raise _NoteRejected(RejectionReason.FORM)
    people = [one for one in sources if one.is_personal]
    sources = people if kind in _SETTLED else sources
    tokens = list(dict.fromkeys(verbatim_tokens(text)))
    holding = {
        token: [one.at for one in sources if holds_token(token, one.text)] for token in tokens
    }
    if not all(holding.values()):
        raise _NoteRejected(RejectionReason.COPIED)
    if not is_worded_from(text, set().union(*(one.stems for one in sources))):
        raise _NoteRejected(RejectionReason.WORDED)
    if order_words(text) - set().union(*(one.orders for one in people)):
        raise _NoteRejected(RejectionReason.ORDER)
    places = {index for indexes in holding.values() for index in indexes} or {
        one.at for one in sources
    }
    return tuple(sorted(places))


def _note_source(messages: Mapping[int, ParsedMessage], index: int) -> _Source:
    message = messages[index]
    text = _message_text(message)
    spoken = order_words(text) if message.voice in _PEOPLE else frozenset[str]()
    return _Source(index, message, text, word_stems(text), spoken)


def _message_text(message: ParsedMessage) -> str:
    """All that a message says, on one line: as it stands, and with its escapes undone."""
    called = (piece for call in message.calls for piece in (call.name, call.arguments))
    text = "\n".join((message.text, *called))
    plain = unescape_json(text)
    return on_one_line(text if plain == text else f"{text}\n{plain}")
