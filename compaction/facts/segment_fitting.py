"""Turns a region into the segment that is worth most in a number of tokens.

Where everything fits, everything stands. Else the room is filled by worth per token; where one of
the five simple ways keeps more in the same room, that is used instead.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from compaction.facts.call_records import error_facts
from compaction.facts.candidates import (
    CALL_KINDS,
    Candidate,
    CandidatePin,
    Records,
    command_candidates,
    in_message_order,
    omission_fact,
)
from compaction.facts.coding.commands import command_facts
from compaction.facts.coding.files import file_facts, mark_changed_files, slice_facts
from compaction.facts.fact import Fact, Region, Segment
from compaction.facts.fitting import Fitting
from compaction.facts.message_worth import message_factors, region_words
from compaction.facts.region_contents import RegionContents, read_region
from compaction.facts.rendering import (
    EVERY_SIGN,
    factor_shared_columns,
    render_lines,
    segment_head,
)
from compaction.facts.simple_facts import best_simple_way, simple_facts
from compaction.facts.speech import Speech
from compaction.reading.message import Count
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.results.result_lines import result_line
from compaction.results.result_profile import ResultProfile, result_profile
from compaction.word_worth import RegionWords, worth_of_pieces

__all__ = ["Region", "SegmentFitter", "segment_within"]

#: Share of a region's tokens that a segment may take where there is no target: of records and
#: talk, and of what can be read again; and further tokens of the latter.
_RECORDS_SHARE, _REREADABLE_SHARE, _REREADABLE_TOKENS = 0.75, 0.2, 150
#: Share of a part with records as it was sent last that its segment may take where there is no
#: target. With less, values of later calls are lost; with more, few desks are compacted.
_SENT_SHARE: Final = 0.7
#: A pin above all.
_NO_PIN: Final = CandidatePin.ALWAYS + 1
#: Maximum attempts to meet the room, the share of it that may stay empty, and the factor by which
#: it shrinks after one that is too long.
_MAX_TRIES, _EMPTY_SHARE, _SHRINKING = 5, 0.03, 1.1
#: Characters of results that may stand whole, for each token of the room.
_SLICE_CHARS_PER_TOKEN: Final = 8


class _RoomSearch:
    """Searches the room, in estimated tokens, at which a segment has nearly as many as it may.

    Attributes:
        room: Room to try next.

    Args:
        room: Room to try first.
        max_tokens: Tokens that the segment may have.
    """

    def __init__(self, room: float, max_tokens: int) -> None:
        self.room = float(room)
        self._least, self._most = (1 - _EMPTY_SHARE) * max_tokens, max_tokens
        self._goal = (self._least + self._most) / 2
        self._tried: dict[bool, tuple[float, float]] = {}

    def is_met_by(self, tokens: int) -> bool:
        """True if a segment of so many tokens leaves hardly any of them empty."""
        return self._least <= tokens <= self._most

    def note_size(self, tokens: int) -> None:
        """Moves the room by the size at it: between the last too small and the last too large."""
        over = tokens - self._goal
        self._tried[over > 0] = self.room, over
        if len(self._tried) == 2:
            (small, less), (large, more) = self._tried[False], self._tried[True]
            self.room = small + (large - small) * less / (less - more)
        else:
            self.room -= over * (_SHRINKING if over > 0 else 1.0)


def segment_within(region: Region, max_tokens: int, count: Count) -> Segment:
    """The segment of a region in at most so many tokens; equal regions give equal bytes.

    Args:
        region: Part that is compacted.
        max_tokens: Tokens; 0 for no bound.
        count: Counts tokens.
    """
    return SegmentFitter(region, count).segment_within(max_tokens)


class SegmentFitter:
    """The segments of a region; it is read once.

    Args:
        region: Part that is compacted.
        count: Counts tokens.
        find: Finds the facts in its texts.
    """

    def __init__(self, region: Region, count: Count, find: TextAnalyzer = analyze_uncached) -> None:
        self._region = region
        self._count = count
        self._find = find
        self._made: dict[int, Segment] = {}
        self._fitters: dict[int, Fitting] = {}

    def segment_within(self, max_tokens: int) -> Segment:
        """The segment in at most so many tokens; 0 for no bound."""
        if max_tokens not in self._made:
            self._made[max_tokens] = self._build_segment(max_tokens)
        return self._made[max_tokens]

    def segment_without_target(self, sent_tokens: int) -> Segment:
        """The segment where there is no target: users' words whole, and less than was sent.

        Args:
            sent_tokens: Tokens of the part as it was sent last, its results trimmed.
        """
        if self._is_rereadable or not self._read.exchanges:
            return self.segment_within(0)
        room = self._desk_room(sent_tokens)
        if self._whole_segment.tokens <= room:
            return self._whole_segment
        return self._fit(self._desk_fitter, room, CandidatePin.ALWAYS)[0]

    def likely_tokens(self, sent_tokens: int) -> int:
        """The tokens of that segment, hardly more than it will have, in less time.

        It fills nearly all of the room where not everything fits.

        Args:
            sent_tokens: As above.
        """
        if self._is_rereadable:
            return int((1 - _EMPTY_SHARE) * self._room_without_target)
        if not self._read.exchanges:
            return self.segment_within(0).tokens
        filled = int((1 - _EMPTY_SHARE) * self._desk_room(sent_tokens))
        return min(self._whole_segment.tokens, filled)

    def _build_segment(self, max_tokens: int) -> Segment:
        room = max_tokens or self._room_without_target
        if not self._is_rereadable and self._whole_segment.tokens <= room:
            return self._whole_segment
        if max_tokens:
            segment, gone = self._fit(self._target_fitter(room), room, _NO_PIN)
            return self._simple_segment(segment, room) or segment if gone else segment
        least_pin = CandidatePin.ALWAYS if self._is_rereadable else CandidatePin.TELLING
        return self._fit(self._pinned_fitter, room, least_pin)[0]

    @cached_property
    def _read(self) -> RegionContents:
        return read_region(self._region, self._find)

    @cached_property
    def _speech(self) -> Speech:
        return Speech(self._read)

    @cached_property
    def _is_rereadable(self) -> bool:
        messages = self._region.messages[self._region.start : self._region.end]
        return result_profile(messages) is ResultProfile.REREADABLE

    @cached_property
    def _before(self) -> int:
        """Tokens of the messages that the segment stands for."""
        region = self._region
        return sum(
            region.messages[index].tokens
            for index in range(region.start, region.end)
            if index not in region.kept
        )

    @property
    def _room_without_target(self) -> int:
        """Tokens that what is not pinned may fill where there is no target."""
        if not self._is_rereadable:
            return int(_RECORDS_SHARE * self._before)
        share = int(_REREADABLE_SHARE * self._before) + _REREADABLE_TOKENS
        return min(share, self._before // 2)

    def _fit(
        self, fitting: Fitting, max_tokens: int, least_pin: int
    ) -> tuple[Segment, Sequence[Candidate]]:
        """The segment that fills the room, and what is gone; the shortest where none fits."""
        search = _RoomSearch(max_tokens - self._head_tokens, max_tokens)
        made: list[tuple[Segment, Sequence[Candidate]]] = []
        tried: list[Sequence[Fact]] = []
        for _ in range(_MAX_TRIES):
            facts, gone = fitting.fill(search.room, least_pin)
            earlier = made[tried.index(facts)] if facts in tried else None
            made.append(earlier or (self._segment_of(facts, gone), gone))
            tried.append(facts)
            tokens = made[-1][0].tokens
            if search.is_met_by(tokens) or not gone or search.room <= 0:
                break
            search.note_size(tokens)
        fitting_ones = [one for one in made if one[0].tokens <= max_tokens]
        if fitting_ones:
            return max(fitting_ones, key=lambda one: one[0].tokens)
        return min(made, key=lambda one: one[0].tokens)

    def _simple_segment(self, segment: Segment, max_tokens: int) -> Segment | None:
        """The segment that a simple way makes where it is worth more in the same room, or None.

        Rules stand in it, too, and so do failures.
        """
        room = min(max_tokens, self._before) - self._head_tokens
        read, factors = self._read, self._factors
        must = self._target_fitter(max_tokens).least_facts()
        room -= sum(self._count(fact.text) for fact in must)
        for _ in range(_MAX_TRIES):
            simple = best_simple_way(read, self._words, factors, room, self._before)
            if simple.worth <= self._worth_of(segment):
                break
            facts = [*must, *simple_facts(read, simple.pieces)]
            made = self._segment_of(facts, self._gone_beside(facts, max_tokens), simple.way)
            if made.tokens <= max_tokens:
                return made
            room -= made.tokens - max_tokens
        return None

    def _gone_beside(self, facts: Sequence[Fact], max_tokens: int) -> Sequence[Candidate]:
        """The calls that are in none of these facts."""
        stands = {index for fact in facts for index in fact.messages}
        return [
            candidate
            for candidate in self._target_fitter(max_tokens).candidates
            if candidate.fact.kind in CALL_KINDS and stands.isdisjoint(candidate.fact.messages)
        ]

    def _worth_of(self, segment: Segment) -> float:
        pieces = [(fact.messages[-1], fact.text) for fact in segment.facts]
        return worth_of_pieces(self._words, self._factors, pieces)

    @cached_property
    def _whole(self) -> Sequence[Candidate]:
        """The candidates as they stand where everything fits."""
        return [*self._said_whole, *self._records.candidates(is_bounded=False)]

    @cached_property
    def _whole_segment(self) -> Segment:
        """The segment in which everything stands."""
        return self._segment_of([fact for one in self._whole for fact in one.variants[0]], [])

    def _desk_room(self, sent_tokens: int) -> int:
        """Tokens that a segment with records may take where there is no target."""
        return int(_SENT_SHARE * min(sent_tokens, self._before))

    @cached_property
    def _said_whole(self) -> Sequence[Candidate]:
        """The candidates from speech, as they stand where everything fits."""
        return [*self._speech.candidates(is_bounded=False)]

    @cached_property
    def _pinned_fitter(self) -> Fitting:
        """The fitting where users' words and records stand whatever room there is."""
        if self._is_rereadable:
            commands = self._commands(self._room_without_target)
            return self._make_fitting([*self._said_whole, *commands])
        return self._make_fitting(self._whole)

    @cached_property
    def _desk_fitter(self) -> Fitting:
        """The fitting where users' words stand, and records and replies must find room."""
        return self._make_fitting([*self._said_whole, *self._records.candidates(is_bounded=True)])

    def _target_fitter(self, max_tokens: int) -> Fitting:
        """The fitting where all but rules must find room."""
        if max_tokens not in self._fitters:
            speech = self._speech.candidates(is_bounded=True)
            others = (
                self._commands(max_tokens)
                if self._is_rereadable
                else self._records.candidates(is_bounded=True)
            )
            self._fitters[max_tokens] = self._make_fitting([*speech, *others])
        return self._fitters[max_tokens]

    def _commands(self, max_tokens: int) -> Iterator[Candidate]:
        max_chars = int(max_tokens * _SLICE_CHARS_PER_TOKEN)
        return command_candidates(self._read, self._command_facts, max_chars)

    @cached_property
    def _command_facts(self) -> Sequence[tuple[Fact, ...]]:
        """The facts about commands, errors and files, each in all its forms."""
        slices = reversed([*slice_facts(self._read)])
        others = (*error_facts(self._read), *file_facts(self._read))
        return [*command_facts(self._read), *((fact,) for fact in others), *slices]

    @cached_property
    def _records(self) -> Records:
        find = self._read.find
        return Records(self._read, lambda result: result_line(result, find))

    def _make_fitting(self, candidates: Sequence[Candidate]) -> Fitting:
        failures = [
            index
            for candidate in candidates
            if not candidate.fact.has_succeeded
            for index in candidate.fact.messages
        ]
        self._factors = message_factors(self._read, failures, decays=self._is_rereadable)
        return Fitting(candidates, self._words, self._factors, self._count)

    @cached_property
    def _words(self) -> RegionWords:
        return region_words(self._read, decays=self._is_rereadable)

    @cached_property
    def _head_tokens(self) -> int:
        """Tokens of a segment without facts; lines of what can be read again hold every sign."""
        candidates = self._said_whole if self._is_rereadable else self._whole
        facts = [fact for one in candidates for fact in one.variants[0]]
        lines = EVERY_SIGN if self._is_rereadable else render_lines(facts)
        return self._count(self._head_of(facts, lines))

    def _segment_of(
        self, facts: Sequence[Fact], gone: Sequence[Candidate], simple_way: str = ""
    ) -> Segment:
        region = self._region
        ordered = in_message_order(self._speech.join_sentences(facts))
        current = [*mark_changed_files(self._read, ordered)]
        marked = factor_shared_columns([*self._speech.mark_gaps(current)])
        every = (*marked, *omission_fact(gone, region.end))
        text = self._text_of(every, simple_way)
        return Segment(
            start=region.start,
            end=region.end,
            facts=every,
            text=text,
            tokens=self._count(text),
            before=self._before,
            simple_way=simple_way,
        )

    def _text_of(self, facts: Sequence[Fact], simple_way: str = "") -> str:
        """The text of a segment: a head, then its facts, a line each."""
        lines = render_lines(facts)
        return f"{self._head_of(facts, lines, simple_way)}\n{lines}"

    def _head_of(self, facts: Sequence[Fact], lines: str, simple_way: str = "") -> str:
        """The head of a segment with these facts, and the text of their lines."""
        earlier = [segment.text for segment in self._region.earlier]
        return segment_head(facts, lines, simple_way, earlier)
