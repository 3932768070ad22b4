"""The shared beginnings of texts, and the units within texts that caches store.

A cache that reads any length reads a new text as far as it begins like an earlier one in its place.
One that keeps whole prompts (DeepSeek) keeps, besides, what two prompts have in common: such a unit
may end within a text.

Where a cache ends at marks, a text is parted where it stops being equal to an earlier one:

::

    instructions, session 1    stable text   folder one …
    instructions, session 2    stable text │ folder two …
    a growing message, call 1  what was said
    call 2                     what was said │ and then
    call 3                     what was said │ and then │ and then

Texts are known by Python's own hashes, whose secret is the process's. Where one grew, the places at
which it was parted stay.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from proxy.caches.entries import EntryLife
from proxy.prefix.prediction.lookups import written_life
from proxy.prefix.prediction.sent_call import SentCall, TextLines, is_in_conversation
from proxy.prefix.prompts.fingerprints import SHORT_DIGEST_BYTES, shared_length
from proxy.prefix.prompts.prompt import BlockJson, Prompt, PromptBlock, has_words, part_text
from proxy.records.lru_cache import LruCache

#: Lines told apart in one text; the rest counts as one more.
MAX_LINES: Final = 512
#: Texts of one prompt that are taken apart.
MAX_TEXTS: Final = 256
#: Bytes beyond which a text is not taken apart.
MAX_TEXT_BYTES: Final = 2**18
#: Templates told apart in one place, and units within its texts.
_MAX_OPENINGS: Final = 3
_MAX_UNITS: Final = 8
#: Bytes of a text and of each of its lines, and of a unit besides its digests.
_OPENING_BYTES: Final = 250
_LINE_BYTES: Final = 12
_UNIT_BYTES: Final = 250
#: Bytes of a chunk, which a line's end ends: at least, and as a part of what stands before it. A
#: text that grows is parted at its own end, so that its chunks need not be fine.
_MIN_CHUNK_BYTES, _CHUNK_PART = 256, 64
_MIN_GROWING_CHUNK_BYTES, _GROWING_CHUNK_PART = 1_024, 16
#: Bytes that have to be equal, and as a part of the text, before it is parted for the first time.
MIN_SHARED_BYTES: Final = 1_024
MIN_SHARED_PART: Final = 4
#: Last lines of a text that may be words which close it in every call.
_MAX_CLOSING_LINES: Final = 12
#: Places at which one text is parted.
_MAX_SPLITS: Final = 512
#: A line's end in JSON, and what must not stand before it: it would be a backslash and an n.
_LINE_END: Final = b"\\n"
_BACKSLASH: Final = b"\\"
#: Bytes of a key and its place, of a text, and of each of its chunks, ends and places.
_KEY_BYTES: Final = 110
_TEXT_BYTES: Final = 700
_CHUNK_BYTES, _CLOSING_BYTES, _SPLIT_BYTES = 12, 220, 36
#: Bytes of a longest text whose words are not kept.
_LONGEST_BYTES: Final = 250


def leading_lines(prompt: Prompt, blocks: Sequence[PromptBlock]) -> dict[int, TextLines]:
    """The lines of each leading text, by index of its block.

    Other blocks have none, and none have texts that are too large or too many.

    Raises:
        Unplannable: If a message cannot be read.
    """
    lines_by_block: dict[int, TextLines] = {}
    pieces = BlockJson(prompt)
    for index, block in enumerate(blocks):
        if is_in_conversation(block) or len(lines_by_block) >= MAX_TEXTS:
            break
        if block.message >= 0 and block.size <= MAX_TEXT_BYTES:
            lines_by_block[index] = _text_lines(part_text(pieces.block_json(block)) or "")
    return lines_by_block


def leading_text(prompt: Prompt, block: PromptBlock) -> str:
    """The words of a leading text's block; "" where it has none.

    Raises:
        Unplannable: If its message cannot be read.
    """
    return part_text(BlockJson(prompt).block_json(block)) or ""


def split_lines(words: str) -> list[str]:
    """The lines of a text, their ends included; beyond ``MAX_LINES`` the rest is one."""
    lines = words.split("\n", MAX_LINES)
    return [*(f"{line}\n" for line in lines[:-1]), lines[-1]]


def _text_lines(words: str) -> TextLines:
    encoded = [line.encode("utf8", "surrogatepass") for line in split_lines(words)]
    digests = array("q", map(hash, encoded)).tobytes()
    sizes = array("I", map(len, encoded))
    return TextLines(digests, sizes, sum(sizes))


class _Opening(NamedTuple):
    used: float
    lines: TextLines


class TextUnit(NamedTuple):
    """A unit that ends within a text.

    Attributes:
        at: Blocks before that text.
        size: Bytes of the text in it.
    """

    at: int
    size: int
    life: EntryLife


class LeadingTexts:
    """The latest texts by place, and units within; a place is a prefix, as ``points`` has it."""

    def __init__(self) -> None:
        self._openings: LruCache[int, tuple[_Opening, ...]] = LruCache(
            weigh=lambda openings: sum(
                _OPENING_BYTES + _LINE_BYTES * len(opening.lines.sizes) for opening in openings
            )
        )
        self._units: LruCache[int, tuple[tuple[bytes, TextUnit], ...]] = LruCache(
            weigh=lambda units: sum(_UNIT_BYTES + len(digests) for digests, _ in units)
        )
        self.indexes: Sequence[LruCache[int, Any]] = (self._openings, self._units)

    def record_call(self, call: SentCall, now: float) -> None:
        """Remember the call's texts, and the latest of other templates in their places."""
        for block, lines in call.lines.items():
            openings = self._openings.peek(call.points[block]) or ()
            if len(openings) == 1 and openings[0].lines is lines:
                openings = ()
            other_openings = (
                opening
                for opening in openings
                if shared_length(opening.lines.digests, lines.digests) * 2 < len(lines.digests)
            )
            self._openings.put(
                call.points[block], (_Opening(now, lines), *other_openings)[:_MAX_OPENINGS]
            )

    def shared_starts(self, call: SentCall, block: int) -> list[tuple[int, float]]:
        """Bytes that a block's text shares with those in its place, most first, and their times."""
        starts = [
            (_shared_size(call, block, opening.lines), opening.used)
            for opening in self._latest(call, block)
        ]
        return sorted((start for start in starts if start[0]), reverse=True)

    def keep_units(self, call: SentCall, block: int, now: float) -> None:
        """Keep what a block's text shares with those in its place as units."""
        for opening in self._latest(call, block):
            digests = call.lines[block].digests
            shared = digests[: shared_length(digests, opening.lines.digests)]
            if not shared:
                continue
            units = dict(self._units.peek(call.points[block]) or ())
            before = units.pop(shared, None)
            life = written_life(call, "", before and before.life, now)
            units[shared] = TextUnit(block, _shared_size(call, block, opening.lines), life)
            self._units.put(call.points[block], tuple(units.items())[-_MAX_UNITS:])

    def units(self, call: SentCall, max_blocks: int) -> Iterator[TextUnit]:
        """The units that the call begins with, in texts with at most so many blocks before them."""
        for block, lines in call.lines.items():
            for digests, unit in (
                (self._units.peek(call.points[block]) or ()) if block <= max_blocks else ()
            ):
                if lines.digests.startswith(digests):
                    yield unit

    def _latest(self, call: SentCall, block: int) -> tuple[_Opening, ...]:
        return (self._openings.peek(call.points[block]) or ()) if block in call.lines else ()


def _shared_size(call: SentCall, block: int, other: TextLines) -> int:
    """Bytes of a block that begin as another text in its place does, in whole lines."""
    lines = call.lines[block]
    same = shared_length(lines.digests, other.digests) // SHORT_DIGEST_BYTES
    return sum(lines.sizes[:same]) * call.blocks[block].size // max(1, lines.size)


class LongText(NamedTuple):
    """A text that may be parted.

    Attributes:
        message: Index of its message.
        part: Index within that message's content.
        words: Its JSON, without quotes; b"" where only its digest is remembered.
        digest: Python's own hash of its words.
        grows: True if later calls may send it with more in it.
        is_last: True if no text of the same message, or of the instructions, stands behind it.
    """

    message: int
    part: int
    words: bytes
    digest: int
    grows: bool
    is_last: bool


class TextOwner(NamedTuple):
    """The conversation that a text stands in, and what stands for all that was said before it."""

    before: bytes
    conversation: bytes


class SeenText(NamedTuple):
    """A text that was sent.

    Attributes:
        ends: End of each chunk, in bytes.
        chain: Stands for what the text holds up to each.
        length: Bytes of the text.
        closings: Its ends that a longer one may share, by what stands for them: their bytes, and
            what stands for those between them and the last chunk before. Nothing is one.
        owner: The conversation that it stands in.
        splits: The places at which it is parted.
        weight: Bytes that each of its keys takes, about.
    """

    ends: "array[int]"
    chain: "array[int]"
    length: int
    closings: Mapping[int, tuple[int, int]]
    owner: TextOwner
    splits: tuple[int, ...] = ()
    weight: int = 0

    def grown_from(self, earlier: "SeenText", words: bytes) -> int:
        """Bytes of its end, if it is another text with more before that; -1 where it is not."""
        count = _shared_count(self.chain, earlier.chain)
        shared = earlier.closings.keys() & self.closings if self.length >= earlier.length else ()
        for closing, between in sorted(map(earlier.closings.__getitem__, shared)):
            head = earlier.length - closing
            chunks = bisect_right(earlier.ends, head)
            start = earlier.ends[chunks - 1] if chunks else 0
            if chunks <= count and hash(words[start:head]) == between:
                return closing
        return -1


class SeenTexts:
    """The latest texts of a team.

    Attributes:
        longest: The longest text of messages that were sent, by what stands for them.
    """

    def __init__(self) -> None:
        self._texts: LruCache[int, SeenText] = LruCache(weigh=lambda text: text.weight)
        self.longest: LruCache[int, LongText] = LruCache(entry_bytes=_LONGEST_BYTES)
        self.indexes: Sequence[LruCache[int, Any]] = (self._texts, self.longest)

    def knows(self, start: int, digest: int) -> bool:
        """True if words with this hash were seen, so that they need not be read again."""
        return hash((start, digest)) in self._texts

    def split(self, start: int, text: LongText, owner: TextOwner) -> SeenText:
        """A text with the places at which it is parted, by those that were seen; it is remembered.

        Args:
            start: Stands for the texts that it is compared with.
            text: It may have grown before words that close it in every call, where it grows.
            owner: The conversation that it stands in. Where it is a text of another one that grew,
                it stands in that.
        """
        key = hash((start, text.digest))
        same = self._texts.get(key)
        if same is not None:
            is_own = same.owner.before == owner.before
            return same if is_own else same._replace(owner=owner)
        words = text.words
        seen_text = _read_text(start, words, owner, grows=text.grows)
        earlier = next(filter(None, map(self._texts.peek, reversed(seen_text.chain))), None)
        if earlier is not None:
            closing = seen_text.grown_from(earlier, words)
            splits = _splits_after(earlier, seen_text, words, closing)
            seen_text = seen_text._replace(splits=splits)
            if closing >= 0 and earlier.owner.before == owner.before:
                seen_text = seen_text._replace(owner=earlier.owner)
        places = _key_places(len(seen_text.chain))
        keys = [key, *(seen_text.chain[chunk] for chunk in places)]
        weight = _KEY_BYTES + _text_bytes(seen_text) // len(keys)
        seen_text = seen_text._replace(weight=weight)
        self._texts.put_all(keys, seen_text)
        return seen_text


def _splits_after(earlier: SeenText, text: SeenText, words: bytes, closing: int) -> tuple[int, ...]:
    """The places at which a text is parted that begins as another one did.

    ``closing`` are the bytes that both end with, if it is the other one grown; else -1.
    """
    shared = earlier.length - closing
    if closing < 0:
        shared = earlier.ends[_shared_count(earlier.chain, text.chain) - 1]
    splits = [end for end in earlier.splits if end <= shared]
    if not splits and shared < max(MIN_SHARED_BYTES, text.length // MIN_SHARED_PART):
        return ()
    for place in (shared, text.length - closing) if closing >= 0 else (shared,):
        last = splits[-1] if splits else 0
        is_sound = has_words(words[last:place]) and has_words(words[place:])
        splits += [place] if is_sound and len(splits) < _MAX_SPLITS else []
    return tuple(splits)


def _text_bytes(text: SeenText) -> int:
    closings, splits = _CLOSING_BYTES * len(text.closings), _SPLIT_BYTES * len(text.splits)
    return _TEXT_BYTES + _CHUNK_BYTES * len(text.ends) + closings + splits


def _read_text(start: int, words: bytes, owner: TextOwner, *, grows: bool) -> SeenText:
    """The text in chunks, which end where nothing behind them matters, and its last lines."""
    least, part = _MIN_CHUNK_BYTES, _CHUNK_PART
    if grows:
        least, part = _MIN_GROWING_CHUNK_BYTES, _GROWING_CHUNK_PART
    ends, chain = array("I"), array("q")
    begin = 0
    while (end := _line_end(words, begin + max(least, begin // part))) >= 0:
        start = hash((start, words[begin:end]))
        ends.append(end)
        chain.append(start)
        begin = end
    closings: dict[int, tuple[int, int]] = {}
    offset = len(words)
    while offset > 0 and len(closings) <= (_MAX_CLOSING_LINES if grows else 0):
        chunks = bisect_right(ends, offset)
        between = words[ends[chunks - 1] if chunks else 0 : offset]
        closings[hash(words[offset:])] = (len(words) - offset, hash(between))
        offset = words.rfind(_LINE_END, 0, offset)
    return SeenText(ends, chain, len(words), closings, owner)


def _line_end(words: bytes, offset: int) -> int:
    """The end of the first line that ends behind a place; -1 for none."""
    while (line_end := words.find(_LINE_END, offset)) >= 0:
        offset = line_end + 2
        if words[line_end - 1 : line_end] != _BACKSLASH:
            return offset
    return -1


def _shared_count(one: "array[int]", other: "array[int]") -> int:
    """Number of values that two chains begin with."""
    return shared_length(one.tobytes(), other.tobytes()) // one.itemsize


def _key_places(count: int) -> Sequence[int]:
    """The chunks by whose ends a text of so many is found: closer to each other at both ends."""
    steps = [2**power - 1 for power in range(count.bit_length())]
    return sorted({*steps, *(count - 1 - step for step in steps)})
