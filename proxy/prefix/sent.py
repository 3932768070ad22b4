"""One call as the caches see it: its blocks, its marks, and what else shapes its prefix.

All of it is fingerprints and sizes: no word of the prompt stays here.
"""

from array import array
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import Final

import msgspec

from proxy.prefix.prompt import Block, Fingerprint, Pieces, Prompt, Slot, text
from proxy.prefix.regime import Regime

#: Bytes of a chain's digests.
DIGEST: Final = 16
#: Bytes kept of a fingerprint that is only compared with the one of another call.
SHORT: Final = 8
#: Lines told apart in one text; the rest counts as one more.
LINES: Final = 512
#: Texts of one prompt that are taken apart.
TEXTS: Final = 256
#: Bytes beyond which a text is not taken apart.
LARGE: Final = 2**18
_BYTES_PER_TOKEN: Final = 4


class Lines(msgspec.Struct, frozen=True):
    """The lines of one text.

    Attributes:
        digests: The beginning of each line's fingerprint, joined.
        sizes: Bytes of each line.
    """

    digests: bytes
    sizes: "array[int]"

    @property
    def size(self) -> int:
        """Bytes of all lines."""
        return sum(self.sizes)


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a prompt's bytes are; what a provider counted of it before is exact.

    Attributes:
        size: Bytes of the prompt.
        total: Its tokens.
        counted_size: Bytes of a prefix whose tokens were counted; 0 for none.
        counted: Its tokens.
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

    def of(self, total: int) -> "Scale":
        """The same once the provider counted all of the prompt."""
        if total < self.counted:
            return Scale(size=self.size, total=total)
        return msgspec.structs.replace(self, total=total)


class Sent(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A call that is sent, or was.

    Attributes:
        regime: The cache it meets.
        place: Whose cache that is, and where: team, provider's account, upstream, replica.
        feature: What part of whose product asks; finds the call to compare a first one with.
        conversation: Which conversation it belongs to; empty where none is known.
        early: What shapes the whole prefix besides the blocks, by name.
        late: What shapes the messages only.
        blocks: The prompt's blocks in wire order.
        marks: The lifetime of each mark, the caller's own included, by index of its block; ""
            for the provider's own.
        explicit: Whether the provider's own choice of breakpoints is switched off (OpenAI).
        tail: How many blocks at the end no later call repeats.
        tokens: Tokens of the prompt, as estimated; 0 for what its bytes suggest.
        lines: The lines of leading texts, by index of their block.
        compacted: Whether the gateway shortened the conversation for this call.
    """

    regime: Regime
    place: bytes = b""
    feature: bytes = b""
    conversation: bytes = b""
    early: Mapping[str, bytes] = {}
    late: Mapping[str, bytes] = {}
    blocks: tuple[Block, ...] = ()
    marks: Mapping[int, str] = {}
    explicit: bool = False
    tail: int = 0
    tokens: int = 0
    lines: Mapping[int, Lines] = {}
    compacted: bool = False

    @cached_property
    def points(self) -> tuple[bytes, ...]:
        """The digest of the prefix that ends with each block; the empty prefix's comes first."""
        chain = blake2b(digest_size=DIGEST)
        _add(chain, self.place, *_named(self.early))
        found = [chain.digest()]
        talks = False
        for block in self.blocks:
            if not talks and in_talk(block):
                talks = True
                _add(chain, *_named(self.late))
            chain.update(block.digest)
            found.append(chain.digest())
        return tuple(found)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Bytes of the prefix that ends with each block; the empty prefix's 0 comes first."""
        return tuple(accumulate((block.size for block in self.blocks), initial=0))

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return self.ends[-1]

    @property
    def estimate(self) -> int:
        """Tokens of the prompt, as well as they are known before it is answered."""
        return self.tokens or -(-self.size // _BYTES_PER_TOKEN)

    def scale(self, counted_size: int = 0, counted: int = 0) -> Scale:
        """How many tokens its bytes are, where so many of its first bytes were counted."""
        total = self.estimate
        if not self.tokens and counted_size:
            total = -(-self.size * counted // counted_size)
        if counted > total:
            counted_size = counted = 0
        return Scale(size=self.size, total=total, counted_size=counted_size, counted=counted)

    @property
    def kept(self) -> int:
        """How many blocks a later call may repeat."""
        return max(0, len(self.blocks) - self.tail)


def in_talk(block: Block) -> bool:
    """Whether the block is part of the conversation, behind tools and leading texts."""
    return block.slot is Slot.VARIABLE


class Texts:
    """The lines of leading texts; each text is taken apart once while it is remembered.

    A text takes up to 7 KB: 12 bytes a line.

    Args:
        most: Texts remembered.
    """

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._known: OrderedDict[bytes, Lines] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def lines(
        self, prompt: Prompt, blocks: tuple[Block, ...], fingerprint: Fingerprint
    ) -> dict[int, Lines]:
        """The lines of each leading text, by index of its block.

        Other blocks have none, and none have texts that are too large or too many.

        Raises:
            Unplannable: If a message cannot be read.
        """
        found: dict[int, Lines] = {}
        pieces = Pieces(prompt)
        for index, block in enumerate(blocks):
            if in_talk(block) or len(found) >= TEXTS:
                break
            if block.message >= 0 and block.size <= LARGE:
                known = self._known.get(block.digest)
                if known is None:
                    known = _lines(text(pieces.of(block)) or "", fingerprint)
                self._known[block.digest] = known
                self._known.move_to_end(block.digest)
                found[index] = known
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return found


def said(prompt: Prompt, block: Block) -> str:
    """The words of a leading text's block; "" where it has none.

    Raises:
        Unplannable: If its message cannot be read.
    """
    return text(Pieces(prompt).of(block)) or ""


def split(words: str) -> list[str]:
    """The lines of a text, their ends included; beyond ``LINES`` the rest is one."""
    found = words.split("\n", LINES)
    return [*(f"{line}\n" for line in found[:-1]), found[-1]]


def parted(joined: bytes) -> list[bytes]:
    """Short fingerprints that were joined."""
    return [joined[at : at + SHORT] for at in range(0, len(joined), SHORT)]


def _lines(words: str, fingerprint: Fingerprint) -> Lines:
    encoded = [line.encode("utf8", "surrogatepass") for line in split(words)]
    digests = b"".join([fingerprint(line)[:SHORT] for line in encoded])
    return Lines(digests, array("I", map(len, encoded)))


def _named(parameters: Mapping[str, bytes]) -> list[bytes]:
    return [each for name in sorted(parameters) for each in (name.encode(), parameters[name])]


def _add(chain: blake2b, *pieces: bytes) -> None:
    """Hash pieces so that where one ends and the next begins makes a difference."""
    for piece in pieces:
        chain.update(len(piece).to_bytes(4, "big"))
        chain.update(piece)
