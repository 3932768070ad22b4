"""Digests of a prompt's start and end.

It begins with its tools, its stable slot, and all up to its conversation's first message. Where
that changes between two calls of a conversation, the later one reads nothing that the one before
wrote behind the change, whatever the provider does.

What a call says at its end alone, such as a reminder behind the last message, is not said there in
the next one, and what was written with it is not read.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

import msgspec

from proxy.prefix.prediction.sent import DIGEST_BYTES, is_in_conversation, split_fingerprints
from proxy.prefix.prompts.prompt import PromptBlock, PromptSlot

#: Calls of a conversation that are compared with the next one.
MAX_COMPARED_CALLS: Final = 4
#: Openings of its calls that are remembered; several agents may speak in one conversation.
MAX_STARTS: Final = 12
#: Blocks at the end of a call that are told apart where a later one does not repeat them.
MAX_LEFT_OUT: Final = 12
#: So many were not repeated, or more.
MORE: Final = MAX_LEFT_OUT + 1


class PromptStart(msgspec.Struct, frozen=True):
    """The digest of a prompt's start.

    Attributes:
        tools: How many blocks are tools.
        stable: How many are the stable slot, tools among them.
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
    stable = sum(1 for _ in takewhile(lambda block: block.slot is PromptSlot.STABLE, blocks))
    before = sum(1 for _ in takewhile(lambda block: block.slot is not PromptSlot.VARIABLE, blocks))
    return PromptStart(
        tools=sum(1 for _ in takewhile(lambda block: block.message < 0, blocks)),
        stable=stable,
        head=_hash(blocks[:stable]),
        first=_hash(blocks[: before + 1]),
    )


class PromptEnding(msgspec.Struct, frozen=True, gc=False):
    """The digest of a prompt's end, as far as later calls may repeat it.

    Attributes:
        begins: How many blocks stand before the last ones.
        head: Stands for those.
        last: The beginnings of the last ones' fingerprints, joined; of ``BACK`` at most.
    """

    begins: int
    head: int
    last: bytes


def digest_end(blocks: Sequence[PromptBlock]) -> PromptEnding:
    """Digest the end of these blocks; the digests say nothing to another process."""
    begins = max(0, len(blocks) - MAX_LEFT_OUT)
    last = b"".join([block.digest[:DIGEST_BYTES] for block in blocks[begins:]])
    return PromptEnding(begins, _hash(blocks[:begins]), last)


def blocks_left_out(blocks: Sequence[PromptBlock], before: Sequence[PromptEnding]) -> int:
    """Number of blocks at the end of an earlier call this one does not repeat.

    Callers may take turns: it is compared with the call it repeats most of, the latest of such.
    ``MORE`` where it repeats no message of any, or leaves out more than are told apart.

    Args:
        blocks: This call's.
        before: How the latest calls of its conversation ended, the latest last.
    """
    shared = [(_repeated_blocks(blocks, each), each) for each in reversed(before)]
    repeats, last = max(shared, key=lambda one: one[0], default=(0, None))
    if last is None or not repeats or not is_in_conversation(blocks[repeats - 1]):
        return MORE
    return last.begins + len(last.last) // DIGEST_BYTES - repeats


def _repeated_blocks(blocks: Sequence[PromptBlock], before: PromptEnding) -> int:
    """Number of blocks of an earlier call this one begins with; 0 for fewer than are told apart."""
    at = before.begins
    if _hash(blocks[:at]) != before.head:
        return 0
    pairs = zip(blocks[at:], split_fingerprints(before.last), strict=False)
    same = takewhile(lambda pair: pair[0].digest[:DIGEST_BYTES] == pair[1], pairs)
    return at + sum(1 for _ in same)


def _hash(blocks: Sequence[PromptBlock]) -> int:
    return hash(tuple([block.digest for block in blocks]))
