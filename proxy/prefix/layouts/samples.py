"""Samples of a feature's instructions to learn from, in units: lines, or sentences of long ones.

The conversations of the latest hour come first, among them those of the smallest hash: the same
choice in whatever order they are seen. Of a text only fingerprints and sizes are kept.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import StringIO
from itertools import islice
from typing import Final

import msgspec

from proxy.prefix.layouts.text_pieces import PlainEvidence, plain_evidence, text_topic
from proxy.prefix.prompts.prompt import Fingerprint

#: Units a text is split into at most; what follows is one more.
MAX_TEXT_UNITS: Final = 4096
#: Characters above which a line is split into sentences.
MAX_WHOLE_LINE_CHARS: Final = 200
#: Characters above which a line is one unit again.
MAX_SPLIT_LINE_CHARS: Final = 65536
_MAX_CACHED_LINE_CHARS: Final = 1000
_CUT: Final = "\0"
_ASCII_ENDS: Final = tuple((end, end + _CUT) for end in (". ", "! ", "? "))
_ENDS: Final = (*_ASCII_ENDS, *((end, end + _CUT) for end in "\u3002\uff01\uff1f"))
_JSON_STARTS: Final = ('{"', '["', '[{"')
_FOUR_LETTERS = re.compile(r"(?:[\W_]*[^\W_]){4}")
#: Conversations kept.
MAX_CONVERSATIONS: Final = 32
#: Different instructions kept of one conversation.
MAX_VARIANTS: Final = 3
#: Units kept of one variant; longer instructions end in one large unit.
MAX_VARIANT_UNITS: Final = 2048
#: Units kept in all, eight bytes each.
MAX_UNITS: Final = 65536
#: Different units kept, about 300 bytes each: some 5 MB for a feature at worst.
MAX_DISTINCT_UNITS: Final = 16384
#: Bytes by which lengths are told apart, and how many of these; longer ones are all the same.
LENGTH_STEP_BYTES: Final = 1024
MAX_LENGTH_STEPS: Final = 32
#: Conversations that are kept however long their instructions are.
MIN_CONVERSATIONS: Final = 5
#: Characters of a unit kept where words may be shown.
SHOWN_CHARS: Final = 48
_SECONDS_PER_HOUR: Final = 3600
#: Bytes of the samples themselves, of a conversation, of a unit, and of its place in a variant.
_EMPTY_BYTES: Final = 1_000
_CONVERSATION_BYTES: Final = 900
_UNIT_BYTES: Final = 350
_SLOT_BYTES: Final = 8


def split_units(text: str, limit: int = MAX_TEXT_UNITS) -> tuple[str, ...]:
    """The text in units, whose concatenation it is; at most ``limit`` of them, none for ""."""
    lines = StringIO(text, newline="\n")
    units: list[str] = []
    for line in islice(lines, limit - 1):
        if len(line) <= MAX_WHOLE_LINE_CHARS:
            units.append(line)
        else:
            units += _split_long_line(line)
            if len(units) > limit:
                break
    last = lines.read() if len(units) <= limit else ""
    units += _split_long_line(last) if last else ()
    if len(units) <= limit:
        return tuple(units)
    head = units[: limit - 1]
    return (*head, text[sum(map(len, head)) :])


def _split_long_line(line: str) -> Sequence[str]:
    if not MAX_WHOLE_LINE_CHARS < len(line) <= MAX_SPLIT_LINE_CHARS or _CUT in line:
        return (line,)
    return _known(line) if len(line) <= _MAX_CACHED_LINE_CHARS else _split_sentences(line)


def _split_sentences(line: str) -> Sequence[str]:
    if line.startswith(_JSON_STARTS):  # its members are units, so that each can leave
        line = line[0] + _CUT + line[1:].replace('","', '",' + _CUT + '"')
        line = line.replace('", "', '", ' + _CUT + '"')
    for end, cut in _ASCII_ENDS if line.isascii() else _ENDS:
        line = line.replace(end, cut)
    sentences = line.split(_CUT)
    return sentences if sentences[-1] else sentences[:-1]


#: The same rules come with call after call: a few long lines are remembered, 16 MB at worst.
_known = lru_cache(2048)(_split_sentences)


def is_distinctive(unit: str) -> bool:
    """True if a unit is words enough to know a place by; a bullet or a fence is not."""
    return _FOUR_LETTERS.match(unit) is not None


class SeenUnit(msgspec.Struct, frozen=True):
    """A unit as it was seen.

    Attributes:
        print: Its fingerprint without the white space around it.
        size: Its characters without that white space.
        weight: Its bytes, all of them.
        telling: True if a place can be known by it.
        lines: Line breaks in it.
        evidence: The kind of text that its form alone shows to vary.
        words: Its beginning, where words may be shown.
        topic: Subject of it, of a fixed list; "" for none of these.
    """

    print: bytes
    size: int
    weight: int
    telling: bool
    lines: int
    words: str
    evidence: PlainEvidence = PlainEvidence.NONE
    topic: str = ""


Variant = tuple[SeenUnit, ...]


class ConversationSample(msgspec.Struct):
    """A conversation.

    Attributes:
        identity: Its hash.
        hour: Hour in which it was last seen.
        calls: Calls seen since it was kept.
        firsts: First calls among them: conversations that begin alike are one until they part.
        followed: Calls whose call before was seen.
        changes: Those of them whose instructions differ from that one's.
        lengths: Its further calls by the bytes behind their instructions, in steps: their number,
            these bytes, those of the call before each, and those of the one before that, in all.
        past: The bytes behind the instructions of its latest call, and of the one before.
        latest: The fingerprint of its latest instructions.
        mark: Stands for them, too, for those who have not hashed them.
        variants: Some of its instructions, by fingerprint.
        latest_at: Time of its latest call, in seconds.
        pauses: Seconds before its further calls, in all.
    """

    identity: bytes
    hour: int
    calls: int = 0
    firsts: int = 0
    followed: int = 0
    changes: int = 0
    lengths: dict[int, tuple[int, int, int, int]] = {}
    past: tuple[int, int] = (0, 0)
    latest: bytes = b""
    mark: int = 0
    variants: dict[bytes, Variant] = {}
    latest_at: float = 0.0
    pauses: float = 0.0

    @property
    def rank(self) -> tuple[int, bytes]:
        """Its place among the samples; the smallest stay."""
        return (-self.hour, self.identity)

    def record_call(self, history: int, now: float, *, first: bool) -> None:
        """Count a call of it, with so many bytes behind its instructions."""
        if not first and self.latest_at:
            self.pauses += max(0.0, now - self.latest_at)
        self.latest_at = max(now, self.latest_at)
        self.calls += 1
        self.firsts += first
        before, earlier = self.past
        self.past = history, 0 if first else before
        if first:
            return
        step = min(MAX_LENGTH_STEPS, history // LENGTH_STEP_BYTES)
        # A call met midway follows one that nobody saw: ``before`` is 0.
        count, length, length_before, length_earlier = self.lengths.get(step, (0, 0, 0, 0))
        self.lengths[step] = (
            count + 1,
            length + history,
            length_before + min(before or history, history),
            length_earlier + min(earlier, history),
        )

    @property
    def later_calls(self) -> int:
        """Calls seen that had one before them."""
        return self.calls - self.firsts

    def record_instructions(self, key: bytes, *, first: bool) -> None:
        """Count a call by whether it changed its instructions, which have this fingerprint."""
        if self.latest and not first:
            self.followed += 1
            self.changes += key != self.latest
        self.latest = key


class Samples:
    """The conversations kept of one feature; never more than the bounds above say.

    Attributes:
        version: Number of changes to what conversations and instructions are kept.
    """

    def __init__(self, fingerprint: Fingerprint, *, shows: bool = False) -> None:
        self._fingerprint = fingerprint
        self._shows = shows
        self.version = 0
        self._kept: dict[bytes, ConversationSample] = {}
        self._seen: dict[tuple[int, bool], SeenUnit] = {}
        self._slots = 0
        self._room = MAX_CONVERSATIONS
        self._hour = 0

    @property
    def size_bytes(self) -> int:
        """About how many bytes they take."""
        units = _UNIT_BYTES * len(self._seen) + _SLOT_BYTES * self._slots
        return _EMPTY_BYTES + _CONVERSATION_BYTES * len(self._kept) + units

    @property
    def conversations(self) -> Sequence[ConversationSample]:
        """The conversations, in the order of their hashes."""
        return sorted(self._kept.values(), key=lambda sample: sample.identity)

    def add_call(
        self,
        texts: Sequence[str],
        conversation: bytes,
        now: float,
        *,
        first: bool,
        history: int = 0,
        mark: int = 0,
    ) -> None:
        """Keep what a call shows, where its conversation is one to keep.

        Args:
            texts: Its instructions: the texts of its leading system and developer messages.
            conversation: The hash of its conversation.
            now: Seconds.
            first: True if it is the conversation's first call.
            history: Bytes of the conversation behind the instructions.
            mark: Stands for the instructions; 0 for nothing.
        """
        sample = self._sample_of(conversation, int(now // _SECONDS_PER_HOUR))
        if sample is None:
            return
        sample.record_call(history, now, first=first)
        sample.mark = mark
        key = self._fingerprint("\0".join(texts).encode(errors="surrogatepass"))
        sample.record_instructions(key, first=first)
        variants = sample.variants
        if key in variants or (len(variants) >= MAX_VARIANTS and key > max(variants)):
            return
        self.version += 1
        variants[key] = self._make_variant(texts)
        self._slots += len(variants[key])
        if len(variants) > MAX_VARIANTS:
            self._slots -= len(variants.pop(max(variants)))
        self._drop_excess()

    def observe_without_texts(
        self, conversation: bytes, now: float, *, first: bool, history: int, mark: int
    ) -> bool:
        """Count a call without its texts; False where those are needed.

        They are where its conversation is one to keep, and they may be others than its latest.
        The arguments are those of ``add_call``.
        """
        hour = int(now // _SECONDS_PER_HOUR)
        sample = self._kept.get(conversation)
        if sample is None:
            return not self._has_room_for(conversation, hour)
        if not mark or mark != sample.mark:
            return False
        self._sample_of(conversation, hour)
        sample.record_call(history, now, first=first)
        sample.record_instructions(sample.latest, first=first)
        return True

    def _has_room_for(self, conversation: bytes, hour: int) -> bool:
        """True if a conversation that is not kept would be."""
        if hour > self._hour or len(self._kept) < self._room:
            return True
        return (-hour, conversation) <= self._last_ranked().rank

    def _sample_of(self, conversation: bytes, hour: int) -> ConversationSample | None:
        """The conversation as it is kept; None if others go before it."""
        if hour > self._hour:
            self._hour, self._room = hour, MAX_CONVERSATIONS
        sample = self._kept.get(conversation)
        if sample is not None:
            sample.hour = max(hour, sample.hour)
            return sample
        sample = ConversationSample(identity=conversation, hour=hour, variants={})
        if len(self._kept) >= self._room:
            worst = self._last_ranked()
            if sample.rank > worst.rank:
                return None
            room = self._room
            self._drop_sample(worst)
            self._room = room
        self._kept[conversation] = sample
        self.version += 1
        return sample

    def _make_variant(self, texts: Sequence[str]) -> Variant:
        units: list[SeenUnit] = []
        for text in texts:
            left = MAX_VARIANT_UNITS - len(units)
            if left > 0:
                split = split_units(text, left)
                units += [self._seen_unit(one, ends=one is split[-1]) for one in split]
        return tuple(units)

    def _seen_unit(self, unit: str, *, ends: bool) -> SeenUnit:
        # The process's own keyed hash of a text is enough to know it again, and needs no copy.
        quick = (hash(unit), ends)
        known_unit = self._seen.get(quick)
        if known_unit is None:
            bare = unit.strip()
            known_unit = self._seen[quick] = SeenUnit(
                print=self._fingerprint(bare.encode(errors="surrogatepass")),
                size=len(bare),
                weight=len(unit.encode(errors="surrogatepass")),
                telling=is_distinctive(bare),
                lines=max(unit.count("\n"), int(ends)),
                words=bare[:SHOWN_CHARS] if self._shows else "",
                evidence=plain_evidence(bare),
                topic=text_topic(bare),
            )
        return known_unit

    def _drop_excess(self) -> None:
        """Let conversations go until what is kept is within its bounds."""
        while self._slots > MAX_UNITS:
            self._drop_sample(self._last_ranked())
        if len(self._seen) > MAX_DISTINCT_UNITS:
            self._drop_unused_units()
            while len(self._seen) > MAX_DISTINCT_UNITS * 3 // 4 and len(self._kept) > 1:
                for _ in range((len(self._kept) + 1) // 2):
                    self._drop_sample(self._last_ranked())
                self._drop_unused_units()

    def _last_ranked(self) -> ConversationSample:
        return max(self._kept.values(), key=lambda sample: sample.rank)

    def _drop_sample(self, sample: ConversationSample) -> None:
        """Let a conversation go, and take no other in its place for this hour."""
        del self._kept[sample.identity]
        self.version += 1
        self._slots -= sum(map(len, sample.variants.values()))
        self._room = max(MIN_CONVERSATIONS, len(self._kept))

    def _drop_unused_units(self) -> None:
        every = (v for sample in self._kept.values() for v in sample.variants.values())
        used_ids = {id(unit) for variant in every for unit in variant}
        self._seen = {quick: unit for quick, unit in self._seen.items() if id(unit) in used_ids}


def conversation_counts(samples: Sequence[ConversationSample]) -> Mapping[bytes, int]:
    """Number of conversations each telling unit was seen in."""
    counts: dict[bytes, int] = {}
    for sample in samples:
        for mark in {u.print for v in sample.variants.values() for u in v if u.telling}:
            counts[mark] = counts.get(mark, 0) + 1
    return counts
