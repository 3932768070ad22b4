"""One call as the caches see it: its blocks, marks, other cache inputs, and its start and end.

All of it is fingerprints and sizes: no word of the prompt stays here.

A prompt begins with its tools, its stable slot, and all up to its conversation's first message.
Where that changes between two calls of a conversation, the later one reads nothing that the one
before wrote behind the change, whatever the provider does.

Text that a call says at its end alone, such as a reminder behind the last message, is not said
there in the next one, and what was written with it is not read.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, compress, count
from operator import eq
from typing import Final, Generic, TypeVar

import msgspec

from proxy.caches import openai_breakpoint, openai_interval
from proxy.caches.regime import Regime
from proxy.prefix.prompts.fingerprints import (
    SHORT_DIGEST_BYTES,
    join_fingerprints,
    shared_length,
)
from proxy.prefix.prompts.prompt import ASSISTANT, BYTES_PER_TOKEN, PromptBlock, PromptSlot

T = TypeVar("T")

#: The cache whose calls read where they part from others that began alike: at a mark of their own.
_OPENAI: Final = "openai-breakpoint"
#: Members of an enumeration take ten times as long to look up in a loop.
_STABLE, _VARIABLE = PromptSlot.STABLE, PromptSlot.VARIABLE

#: Fingerprints kept of the tools, leading texts or messages of one call.
MAX_DIGESTS: Final = 1_024
#: Blocks at the end of a call that are told apart where a later one does not repeat them.
MAX_LEFT_OUT: Final = 12
#: So many were not repeated, or more.
MORE_LEFT_OUT: Final = MAX_LEFT_OUT + 1


class TextLines(msgspec.Struct, frozen=True):
    """The lines of one text.

    Attributes:
        digests: Python's own hash of each line, joined; its secret is the process's.
        sizes: Bytes of each line.
    """

    digests: bytes
    sizes: "array[int]"
    size: int


class TokenScale(msgspec.Struct, frozen=True, kw_only=True):
    """Number of tokens a prompt's bytes are; what a provider counted of it before is exact.

    Attributes:
        counted_size: Bytes of a prefix whose tokens were counted; 0 for none.
    """

    size: int = 0
    total: int = 0
    counted_size: int = 0
    counted: int = 0

    def tokens_of(self, size: int) -> int:
        """Tokens in the first ``size`` bytes, rounded down."""
        if size < self.counted_size:
            return size * self.counted // self.counted_size
        rest = self.size - self.counted_size
        beyond = (size - self.counted_size) * (self.total - self.counted)
        return self.counted + (beyond // rest if rest else 0)

    def with_total(self, total: int) -> "TokenScale":
        """The same once the provider counted all of the prompt."""
        if total < self.counted:
            return TokenScale(size=self.size, total=total)
        return self if total == self.total else msgspec.structs.replace(self, total=total)


class BlockRanges(msgspec.Struct, frozen=True):
    """The ranges of a call's blocks by kind, by index.

    Attributes:
        messages: The messages that a later call may repeat.
    """

    tools: range
    heads: range
    messages: range


class _Once(Generic[T]):
    """A property that is computed when it is first asked for; without the lock of Python's own."""

    def __init__(self, make: Callable[["SentCall"], T]) -> None:
        self._make = make
        self._name = make.__name__

    def __get__(self, call: "SentCall", _: type["SentCall"]) -> T:
        computed = call.__dict__[self._name] = self._make(call)
        return computed


class SentCall(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A call that is sent, or was.

    Attributes:
        place: Whose cache that is, and where: team, provider's account, upstream, replica.
        feature: Team and feature; finds the call to compare a first one with.
        conversation: Conversation that it belongs to; empty where none is known.
        early: Digests of parameters that shape the whole prefix besides the blocks, by name.
        late: Digests of parameters that shape the messages only.
        marks: The lifetime of each mark, the caller's own included, by index of its block; ""
            for the provider's own.
        explicit: True if the provider's own choice of breakpoints is switched off (OpenAI).
        ttl: The lifetime asked for the whole call; "" for the provider's own.
        tail: Number of blocks at the end that no later call repeats.
        lines: The lines of leading texts, by index of their block.
        compacted: True if the gateway shortened the conversation for this call.
        asked_model: The beginning of the model's name as its caller wrote it, as JSON; b"" where it
            is not known.
    """

    regime: Regime
    place: bytes = b""
    feature: bytes = b""
    conversation: bytes = b""
    early: Mapping[str, bytes] = {}
    late: Mapping[str, bytes] = {}
    blocks: tuple[PromptBlock, ...] = ()
    marks: Mapping[int, str] = {}
    explicit: bool = False
    ttl: str = ""
    tail: int = 0
    lines: Mapping[int, TextLines] = {}
    compacted: bool = False
    asked_model: bytes = b""

    @_Once
    def points(self) -> tuple[int, ...]:
        """Stands for the prefix that ends with each block; the empty prefix's comes first.

        It is Python's own hash of fingerprints, so it says nothing to another process.
        """
        point = hash((self.place, *sorted(self.early.items())))
        points = [point]
        first_message, digests = self.block_ranges.messages.start, self.digests
        for digest in digests[:first_message]:
            point = hash((point, digest))
            points.append(point)
        point = hash((point, *sorted(self.late.items()))) if self.late else point
        for digest in digests[first_message:]:
            point = hash((point, digest))
            points.append(point)
        return tuple(points)

    @_Once
    def entry_points(self) -> tuple[int, ...]:
        """Stands for the entry at the end of each block; inverted where its message goes on.

        From GPT-5.6 on a message that was extended is not read up to its old end.

        Source: OpenAI, prompt caching guide, models from GPT-5.6 on (2026-09).
        """
        if self.regime.name != _OPENAI:
            return self.points
        points, messages = [*self.points], [block.message for block in self.blocks]
        for index in compress(count(1), map(eq, messages, messages[1:])):
            points[index] = ~points[index]
        return tuple(points)

    @_Once
    def digests(self) -> tuple[bytes, ...]:
        """The fingerprint of each block."""
        return tuple([block.digest for block in self.blocks])

    def once(self, make: Callable[["SentCall"], T]) -> T:
        """The value that a function makes of this call, which is computed once."""
        values = self.__dict__
        if (name := make.__name__) not in values:
            values[name] = make(self)
        value: T = values[name]
        return value

    def share(self, other: "SentCall") -> None:
        """Take over the properties of a call that differs by its marks alone."""
        ours, theirs = self.__dict__, other.__dict__
        for name in _PROPERTIES:
            if name in theirs:
                ours[name] = theirs[name]

    @_Once
    def start(self) -> "PromptStart":
        """The digest of its start."""
        return digest_start(self.blocks)

    @_Once
    def machine_key(self) -> int:
        """The key that chooses the machine: the first tokens."""
        tokens_of = self.scale().tokens_of
        routed = openai_interval.provider_rules(self.regime.provider).routed
        block = bisect_left(self.ends, routed, key=tokens_of)
        return self.points[block if block < len(self.ends) else -1]

    @_Once
    def block_ranges(self) -> BlockRanges:
        """The ranges of its tools, leading texts, and messages that may be repeated."""
        blocks = self.blocks
        tools, end = 0, len(blocks)
        while tools < end and blocks[tools].message < 0:
            tools += 1
        first_message = tools
        while first_message < end and not is_in_conversation(blocks[first_message]):
            first_message += 1
        return BlockRanges(
            range(tools),
            range(tools, first_message),
            range(first_message, max(first_message, self.repeatable_blocks)),
        )

    @_Once
    def short_fingerprints(self) -> tuple[bytes, bytes, bytes]:
        """The beginnings of the fingerprints of each range, joined; of ``MAX_DIGESTS`` at most."""
        ranges = self.block_ranges
        tools, heads, messages = [
            join_fingerprints(self.digests[which.start : which[:MAX_DIGESTS].stop])
            for which in (ranges.tools, ranges.heads, ranges.messages)
        ]
        return tools, heads, messages

    @_Once
    def ends(self) -> tuple[int, ...]:
        """Bytes of the prefix that ends with each block; the empty prefix's 0 comes first."""
        return tuple(accumulate([block.size for block in self.blocks], initial=0))

    @_Once
    def implicit_breakpoints(self) -> tuple[int, ...]:
        """The blocks that may end an implicit breakpoint, as OpenAI has them."""
        return tuple(openai_breakpoint.implicit_breakpoints(self.blocks))

    @_Once
    def size(self) -> int:
        """Bytes of all blocks."""
        return self.ends[-1]

    @_Once
    def estimate(self) -> int:
        """Tokens of the prompt, as well as they are known before it is answered."""
        return -(-self.size // BYTES_PER_TOKEN)

    def scale(self, counted_size: int = 0, counted: int = 0) -> TokenScale:
        """Number of tokens its bytes are, where so many of its first bytes were counted."""
        total = -(-self.size * counted // counted_size) if counted_size else self.estimate
        return TokenScale(size=self.size, total=total, counted_size=counted_size, counted=counted)

    @_Once
    def answers(self) -> int:
        """Number of blocks that are answers."""
        return [block.role for block in self.blocks].count(ASSISTANT)

    @_Once
    def repeatable_blocks(self) -> int:
        """Number of blocks a later call may repeat."""
        return max(0, len(self.blocks) - self.tail)


#: Name of the blocks that a call leaves out of earlier ones, once that was computed.
_LEFT_OUT: Final = "left_out"
#: Names of all that does not depend on a call's marks, and is computed once.
_PROPERTIES: Final = [name for name, one in vars(SentCall).items() if isinstance(one, _Once)]
_PROPERTIES.append(_LEFT_OUT)


def is_in_conversation(block: PromptBlock) -> bool:
    """True if the block is part of the conversation, behind tools and leading texts."""
    return block.slot is _VARIABLE


class PromptStart(msgspec.Struct, frozen=True):
    """The digest of a prompt's start.

    Attributes:
        tools: Number of blocks that are tools.
        stable: Number of blocks in the stable slot, tools among them.
        head: Stands for the stable slot.
        first: Stands for all up to the conversation's first message, and for that.
    """

    tools: int
    stable: int
    head: int
    first: int


def digest_start(blocks: Sequence[PromptBlock]) -> PromptStart:
    """Digest the start of these blocks.

    What stands for blocks is Python's own hash of fingerprints, so it says nothing to another
    process.
    """
    tools = stable = 0
    digests: list[bytes] = []
    for index, block in enumerate(blocks):
        digests.append(block.digest)
        if block.slot is _VARIABLE:
            break
        if stable == index and block.slot is _STABLE:
            stable += 1
        if tools == index and block.message < 0:
            tools += 1
    head, first = hash(tuple(digests[:stable])), hash(tuple(digests))
    return PromptStart(tools=tools, stable=stable, head=head, first=first)


class PromptEnding(msgspec.Struct, frozen=True, gc=False):
    """The digest of a prompt's end, as far as later calls may repeat it.

    Attributes:
        begins: Number of blocks before the last ones, which ``head`` stands for.
        last: The beginnings of the last ones' fingerprints, joined; of ``BACK`` at most.
        answers: Number of blocks that are answers.
    """

    begins: int
    head: int
    last: bytes
    answers: int = 0


def digest_end(call: SentCall) -> PromptEnding:
    """Digest the end of a call; it says nothing to another process."""
    digests = call.digests[: call.repeatable_blocks]
    begins = max(0, len(digests) - MAX_LEFT_OUT)
    last = join_fingerprints(digests[begins:])
    return PromptEnding(begins, hash(digests[:begins]), last, call.answers)


def blocks_left_out(call: SentCall, before: Sequence[PromptEnding]) -> int:
    """Number of blocks at the end of an earlier call that one which goes on from it leaves out.

    Callers may take turns: it is compared with the call it repeats most of, the latest of such.
    ``MORE`` where it repeats no message of any, or leaves out more than are told apart.

    ``before`` are the ends of the latest calls of its conversation, the latest last.
    """
    endings, left_out = call.__dict__.get(_LEFT_OUT, (None, 0))
    if endings is not before:
        left_out = _count_left_out(call, before)
        call.__dict__[_LEFT_OUT] = before, left_out
    return int(left_out)


def _count_left_out(call: SentCall, before: Sequence[PromptEnding]) -> int:
    repeats = left_out = 0
    for ending in reversed(before):
        length = ending.begins + len(ending.last) // SHORT_DIGEST_BYTES
        is_answered = ending.answers < call.answers or call.regime.name == _OPENAI
        same = _repeated_blocks(call.digests, ending) if is_answered and length > repeats else 0
        if same > repeats:
            repeats, left_out = same, length - same
    return left_out if repeats and is_in_conversation(call.blocks[repeats - 1]) else MORE_LEFT_OUT


def _repeated_blocks(digests: tuple[bytes, ...], before: PromptEnding) -> int:
    """Number of blocks of an earlier call this one begins with; 0 for fewer than are told apart."""
    start = before.begins
    if hash(digests[:start]) != before.head:
        return 0
    mine = join_fingerprints(digests[start : start + MAX_LEFT_OUT])
    return start + shared_length(mine, before.last) // SHORT_DIGEST_BYTES
