"""Candidates from what users and the assistant said; a question stands or goes with its answer."""

import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Final

import msgspec

from compaction.facts.candidates import MARK_KINDS, Candidate, CandidatePin
from compaction.facts.fact import Fact, FactKind
from compaction.facts.region_contents import RegionContents
from compaction.facts.rendering import LINE_END_SIGN
from compaction.facts.statements import mark_facts, speaker_label, user_facts
from compaction.language.courtesies import is_courtesy
from compaction.language.reply_units import LINE_STOPS, ReplyUnit, reply_units
from compaction.language.sentences import sentences
from compaction.language.speech_acts import is_acceptance, is_choice, is_refusal
from compaction.reading.message import ParsedMessage, Voice
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached

#: Maximum bytes of a user's answer that says little without the question.
_SHORT_ANSWER_BYTES: Final = 25
#: Maximum bytes of an assistant's answer that says little without the user's question.
_SHORT_REPLY_BYTES: Final = 60
#: Maximum characters of a user's answer that may need the question to be understood; a longer
#: answer is understood alone.
_MAX_REFERRING_ANSWER_CHARS: Final = 120
#: Maximum characters of a user's answer that picks an option by its letter or number.
_MAX_LETTER_ANSWER_CHARS: Final = 20
#: Maximum characters read of a reply.
_SCANNED_CHARS: Final = 20_000
_letter: Final = re.compile(r"(?:\w+ ){0,2}\(?(?:[a-f]|\d)[).!]*(?: please[.!?]?)?").fullmatch
#: Factor for the worth of a question whose answer is understood without it.
_QUESTION_FACTOR, _USER_QUESTION_FACTOR = 0.4, 0.5
#: Factor for the worth of a sentence that is only polite: no room is left to it.
_COURTESY_FACTOR: Final = 0.0
#: Factor for the worth of a reply to which the user agreed, or from which the user chose.
_ACCEPTED_FACTOR: Final = 1.6
#: A figure, or a word within that begins with a capital.
_holds_value: Final = re.compile(r"\d|\w\W+[^\W\d_a-z](?<![a-z])\w").search
#: Question marks of all scripts.
_ASKING: Final = ("?", "\uff1f", "\u061f", "\u037e")
#: Characters at a call's beginning by which it is found in the text that holds it.
_CALL_HEAD_CHARS: Final = 40
_NO_UNIT: Final = ReplyUnit("-")
#: Kinds of facts that sentences become.
_SPOKEN: Final = frozenset({FactKind.REPLY, FactKind.USER})
#: Marks a gap between two sentences of a user, and one in a list of the assistant.
_CUT: Final = " […] "
#: Begins a line that answers no line above it.
GAP: Final = "… "


class ReferenceStrength(IntEnum):
    """The degree to which an answer needs what it answers."""

    NOT = 0
    AGREES = 1  #: It says yes or no, or is only a few words: the question gives it its sense.
    CHOOSES = 2  #: It names one of several by its place or its letter.


def reference_strength(answer: str, find: TextAnalyzer = analyze_uncached) -> ReferenceStrength:
    """The degree to which an answer needs what it answers."""
    if len(answer) > _MAX_REFERRING_ANSWER_CHARS:
        return ReferenceStrength.NOT
    small = answer.strip().lower()
    if find(is_choice, small) or (len(small) <= _MAX_LETTER_ANSWER_CHARS and _letter(small)):
        return ReferenceStrength.CHOOSES
    size = len(small.encode(errors="replace"))
    says_more = size > _SHORT_ANSWER_BYTES or any(map(str.isdigit, small))
    return ReferenceStrength.NOT if says_more else ReferenceStrength.AGREES


class Speech:
    """The words of a region's users, and its assistant's replies sentence by sentence.

    Args:
        part: Part that is compacted.
    """

    def __init__(self, part: RegionContents) -> None:
        self._part = part
        self._units = {
            index: part.find(_scanned_units, _without_calls(message))
            for index, message in part.messages_of(Voice.ASSISTANT)
        }
        self._user_pieces: dict[int, Sequence[str]] = {}
        self._lines: dict[tuple[object, ...], Fact] = {}
        self._replies = _replies(part, self._units)
        self._places = {
            (FactKind.REPLY, index, unit.text): place
            for index, units in self._units.items()
            for place, unit in enumerate(units)
        }

    def candidates(self, *, is_bounded: bool) -> Iterator[Candidate]:
        """Users' messages with what they answer, then each other sentence of the assistant.

        Args:
            is_bounded: True for users' messages sentence by sentence.
        """
        marks = self._marks
        self._lines.clear()
        warnings = list(self._warnings(marks))
        taken = {id(fact) for fact in warnings}
        users = {fact.messages[0]: fact for fact in user_facts(self._part)}
        for index, message in self._part.messages_of(Voice.USER):
            if index in users:
                beside = self._beside(message, index, taken)
                standing = tuple(marks.get(index, ()))
                if is_bounded:
                    yield from self._user_sentences(users[index], beside, standing)
                else:
                    yield Candidate(((*beside, *standing, users[index]),), pin=CandidatePin.ALWAYS)
        for fact in warnings:
            yield Candidate(((fact,),), pin=CandidatePin.ALWAYS, is_mark=True)
        for index, facts in self._replies.items():
            factor = _ACCEPTED_FACTOR if self._is_accepted(index) else 1.0
            is_open = index == self._part.region.end - 1
            for fact in facts:
                if id(fact) not in taken:
                    yield self._reply_candidate(fact, factor, is_open=is_open)

    def _reply_candidate(self, fact: Fact, factor: float, *, is_open: bool) -> Candidate:
        """A sentence of the assistant's alone; an open question is answered behind the region."""
        if self._part.find(is_courtesy, fact.text):
            return Candidate(((fact,),), factor=_COURTESY_FACTOR)
        if not is_open and _asks(fact) and fact.text.isascii() and not _holds_value(fact.text):
            return Candidate(((fact,),), factor=_QUESTION_FACTOR * factor)
        return Candidate(((fact,),), pin=CandidatePin.TELLING, factor=factor)

    def _is_accepted(self, index: int) -> bool:
        """True if the user agrees to a reply, or chooses from it, and no call can record that."""
        messages = self._part.region.messages
        answer = messages[index + 1] if index + 1 < len(messages) else None
        if answer is None or answer.voice is not Voice.USER or self._part.exchanges:
            return False
        return is_acceptance(answer.text) or is_choice(answer.text)

    def _warnings(self, marks: Mapping[int, Sequence[Fact]]) -> Iterator[Fact]:
        """The sentences of replies that warn about a text."""
        for index, facts in self._replies.items():
            warning = " ".join([mark.text for mark in marks.get(index, ())])
            yield from [fact for fact in facts if warning and fact.text in warning]

    def join_sentences(self, facts: Sequence[Fact]) -> Iterator[Fact]:
        """The facts, those of one text on one line and in their order there."""
        lines: dict[tuple[FactKind, int], list[Fact]] = {}
        for fact in facts:
            if fact.kind in _SPOKEN:
                lines.setdefault((fact.kind, fact.messages[0]), []).append(fact)
            else:
                yield fact
        for kind_and_index, spoken in lines.items():
            key = (*kind_and_index, spoken[0].key, *[fact.text for fact in spoken])
            line = self._lines.get(key)
            if line is None:
                line = self._lines[key] = self._joined_line(*kind_and_index, spoken)
            yield line

    def _joined_line(self, kind: FactKind, index: int, spoken: list[Fact]) -> Fact:
        """The facts of one text as one."""
        if len(spoken) > 1:
            spoken.sort(key=lambda fact: self._places.get((kind, index, fact.text), 0))
        places = [self._places.get((kind, index, fact.text), 0) for fact in spoken]
        text = spoken[0].text
        for before, place, fact in zip(places, places[1:], spoken[1:], strict=False):
            gap = self._user_gap if kind is FactKind.USER else self._reply_gap
            text += gap(index, before, place) + fact.text
        if (kind, index, spoken[-1].text) in self._places:
            text = self._with_ends(kind, index, places, text)
        is_same = text is spoken[0].text
        return spoken[0] if is_same else msgspec.structs.replace(spoken[0], text=text)

    def mark_gaps(self, facts: Sequence[Fact]) -> Iterator[Fact]:
        """The facts in order; a line that follows the other speaker's, but not at once, says so.

        A reply whose beginning is missing says so behind a user's line alone: behind another reply
        nobody takes it for a whole answer.
        """
        gone = self._gone_messages(facts)
        before: Fact | None = None
        for fact in facts:
            is_apart = before is not None and _is_apart(before, fact, gone)
            is_next = fact.kind is FactKind.REPLY and (before is None or before.kind is fact.kind)
            text = fact.text.removeprefix(GAP) if is_apart or is_next else fact.text
            text = f"{GAP}{text}" if is_apart else text
            if fact.kind in _SPOKEN or fact.kind in MARK_KINDS:
                before = fact
            yield fact if text == fact.text else msgspec.structs.replace(fact, text=text)

    def _gone_messages(self, facts: Sequence[Fact]) -> Sequence[int]:
        """The indexes of what was said and stands in no fact, in order."""
        stands = {index for fact in facts for index in fact.messages}
        return [index for index in self._spoken_messages if index not in stands]

    @cached_property
    def _spoken_messages(self) -> Sequence[int]:
        """The indexes of what was said, in order."""
        speakers = (self._part.messages_of(voice) for voice in (Voice.USER, Voice.ASSISTANT))
        every = (one for messages in speakers for one in messages)
        return sorted([index for index, message in every if message.text.strip()])

    def _user_gap(self, _: int, before: int, place: int) -> str:
        """The sign between two sentences of a user."""
        return " " if place == before + 1 else _CUT

    def _reply_gap(self, index: int, before: int, place: int) -> str:
        """The sign between two units of a reply: for what is missing, and at a list's end."""
        if self._has_items(index, before + 1, place):
            return _CUT
        if self._tells_between(index, before + 1, place):
            return f" {GAP}"
        first, second = (self._unit_at(index, at) for at in (before, place))
        ends_list = first.is_item and not second.is_item and not first.text.endswith(LINE_STOPS)
        return ". " if ends_list else " "

    def _unit_at(self, index: int, place: int) -> ReplyUnit:
        units = self._units.get(index, ())
        return units[place] if place < len(units) else _NO_UNIT

    def _tells_between(self, index: int, start: int, end: int) -> bool:
        """True if sentences of a message that are not shown are more than polite."""
        pieces = self._user_pieces.get(index) or [unit.text for unit in self._units.get(index, ())]
        return not all(self._part.find(is_courtesy, piece) for piece in pieces[start:end])

    def _has_items(self, index: int, start: int, end: int) -> bool:
        """True if units of a reply that are not shown are items of a list."""
        return any(unit.is_item for unit in self._units.get(index, ())[start:end])

    def _with_ends(self, kind: FactKind, index: int, places: Sequence[int], text: str) -> str:
        """A line with marks for sentences that are missing before it, and items on both sides."""
        units = self._units.get(index, ())
        if kind is FactKind.USER or not any(units[place].is_item for place in places):
            text = f"{GAP}{text}" if self._tells_between(index, 0, places[0]) else text
            is_nameless = kind is FactKind.USER and places[0]
            message = self._part.region.messages[index]
            return speaker_label(message) + text if is_nameless else text
        before = _CUT.lstrip() if self._has_items(index, 0, places[0]) else ""
        behind = _CUT.rstrip() if self._has_items(index, places[-1] + 1, len(units)) else ""
        return f"{before}{text}{behind}"

    @cached_property
    def _marks(self) -> Mapping[int, Sequence[Fact]]:
        """The goals and rules of each message of a user, and warnings in each reply."""
        marks: dict[int, list[Fact]] = {}
        for fact in mark_facts(self._part):
            marks.setdefault(fact.messages[0], []).append(fact)
        return marks

    def _user_sentences(
        self, fact: Fact, beside: Sequence[Fact], marks: Sequence[Fact]
    ) -> Iterator[Candidate]:
        """A user's message sentence by sentence; with the first stands what it answers.

        A sentence that is the goal or a rule stands whatever room there is.
        """
        index = fact.messages[0]
        left = [mark for mark in marks if mark.kind is FactKind.RULE]
        self._user_pieces[index] = self._part.find(_user_pieces, fact.text)
        for place, piece in enumerate(self._user_pieces[index]):
            self._places[FactKind.USER, index, piece] = place
            held = tuple([mark for mark in marks if mark.text in piece])
            rules = tuple([mark for mark in left if mark in held])
            left = [mark for mark in left if mark not in held]
            first = tuple(beside) if not place else ()
            sentence = msgspec.structs.replace(fact, text=piece)
            is_empty = piece.endswith(_ASKING) and not _holds_value(piece)
            is_agreed = any(map(_asks, first)) or not self._part.find(is_refusal, fact.text)
            is_answer = first and is_agreed and not self._part.exchanges
            factor = _ACCEPTED_FACTOR if is_answer else 1.0
            if not first and not held and self._part.find(is_courtesy, piece):
                factor = factor if is_acceptance(piece) else _COURTESY_FACTOR
            yield Candidate(
                ((*first, *held, sentence), *([rules] if rules else [])),
                is_mark=bool(rules),
                factor=_USER_QUESTION_FACTOR if is_empty and not first else factor,
            )
        if left:
            yield Candidate((tuple(left),), is_mark=True)

    def _beside(self, message: ParsedMessage, index: int, taken: set[int]) -> Sequence[Fact]:
        """The question that a user's message answers, and a short answer to it."""
        facts = (*self._answered_by(message, index), *self._short_answer_to(message, index))
        beside = [fact for fact in facts if id(fact) not in taken]
        taken.update(map(id, beside))
        return beside

    def _answered_by(self, message: ParsedMessage, index: int) -> Sequence[Fact]:
        """The sentences of the reply before a user's message that stand or go with it.

        It says little without them, or refuses what they propose.
        """
        facts = self._replies.get(index - 1, ())
        if not facts:
            return ()
        strength = reference_strength(message.text, self._part.find)
        last = max((place for place, fact in enumerate(facts) if _asks(fact)), default=-1)
        if strength is ReferenceStrength.CHOOSES or self._is_refused(index - 1):
            return facts
        return facts[max(0, last - 1) : last + 1] if strength else ()

    def _short_answer_to(self, message: ParsedMessage, index: int) -> Sequence[Fact]:
        """The reply right behind a user's question where it says little without that."""
        if not message.text.rstrip().endswith(_ASKING) or self._is_refused(index + 1):
            return ()
        facts = self._without_courtesies(self._replies.get(index + 1, ()))
        size = sum(len(fact.text.encode(errors="replace")) for fact in facts)
        return facts if size <= _SHORT_REPLY_BYTES else ()

    def _without_courtesies(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """The sentences of a reply that tell something; all where none does."""
        return [fact for fact in facts if not self._part.find(is_courtesy, fact.text)] or facts

    def _is_refused(self, index: int) -> bool:
        """True if a user's message refuses the reply before it, which asks nothing."""
        facts, messages = self._replies.get(index, ()), self._part.region.messages
        if not facts or any(map(_asks, facts)) or index + 1 >= len(messages):
            return False
        answer = messages[index + 1]
        return answer.voice is Voice.USER and self._part.find(is_refusal, answer.text)


def _is_apart(before: Fact, fact: Fact, gone: Sequence[int]) -> bool:
    """True if one speaker's line follows the other's, and a message between them is gone."""
    is_other = (fact.kind is FactKind.REPLY) is not (before.kind is FactKind.REPLY)
    return (
        is_other
        and fact.kind in _SPOKEN
        and bisect(gone, before.messages[0]) < bisect(gone, fact.messages[0])
    )


def _asks(fact: Fact) -> bool:
    return fact.text.endswith(_ASKING)


def _replies(
    part: RegionContents, units_by_message: Mapping[int, Sequence[ReplyUnit]]
) -> Mapping[int, Sequence[Fact]]:
    """The units of each of the assistant's texts; of equal ones the last."""
    said_later: set[str] = set()
    replies: dict[int, Sequence[Fact]] = {}
    for index, units in reversed(list(units_by_message.items())):
        facts = []
        for unit in units:
            if unit.text not in said_later:
                said_later.add(unit.text)
                turn = part.turn_of(index)
                facts.append(
                    Fact(kind=FactKind.REPLY, text=unit.text, turns=(turn,), messages=(index,))
                )
        if facts:
            replies[index] = facts
    return dict(reversed(replies.items()))


def _without_calls(message: ParsedMessage) -> str:
    """A reply's text without the calls that are written in it."""
    text = message.text
    for call in message.calls:
        head = call.arguments[:_CALL_HEAD_CHARS]
        place = text.rfind(head) if head else -1
        text = text[:place] if place >= 0 else text
    return text


def _scanned_units(text: str) -> tuple[ReplyUnit, ...]:
    """The sentences and list items of a reply, without its layout."""
    return reply_units(text[:_SCANNED_CHARS])


def _user_pieces(text: str) -> tuple[str, ...]:
    """The sentences of a user's line."""
    return tuple([piece for line in text.split(LINE_END_SIGN) for piece in sentences(line)])
