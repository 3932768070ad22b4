"""What identifies a message and a prefix: the same bytes give the same 16, on every replica."""

from collections.abc import Iterable
from hashlib import blake2b
from itertools import accumulate
from typing import Final

from blake3 import blake3

#: Bytes of a digest: none will ever be met twice by chance.
SIZE: Final = 16
#: Bytes from which on BLAKE3 is the quicker of the two.
_LONG: Final = 4_096


def digest(raw: bytes) -> bytes:
    """16 bytes that stand for a message as it came."""
    if len(raw) >= _LONG:
        return blake3(raw).digest(SIZE)
    return blake2b(raw, digest_size=SIZE).digest()


def chain(digests: Iterable[bytes], root: bytes) -> tuple[bytes, ...]:
    """16 bytes for each prefix: the first stands for the root and the first message, and so on.

    Args:
        digests: Of the messages, 16 bytes each.
        root: What must be equal beside the messages, so that prefixes are; of any length.
    """
    every = accumulate(digests, _joined, initial=blake2b(root, digest_size=SIZE).digest())
    return tuple(every)[1:]


def _joined(before: bytes, one: bytes) -> bytes:
    return blake2b(before + one, digest_size=SIZE).digest()
