"""Digests of messages and prefixes: 16 bytes, equal on every replica for equal input."""

from collections.abc import Iterable
from hashlib import blake2b
from itertools import accumulate
from typing import Final

from blake3 import blake3

#: Bytes of a digest: long enough that no two inputs share one by chance.
DIGEST_BYTES: Final = 16
#: Minimum bytes for which BLAKE3 is the faster of the two hash functions.
_MIN_BLAKE3_BYTES: Final = 4_096


def message_digest(raw: bytes) -> bytes:
    """The 16 bytes that stand for an unmodified message."""
    if len(raw) >= _MIN_BLAKE3_BYTES:
        return blake3(raw).digest(DIGEST_BYTES)
    return blake2b(raw, digest_size=DIGEST_BYTES).digest()


def prefix_digests(digests: Iterable[bytes], root: bytes) -> tuple[bytes, ...]:
    """16 bytes for each prefix: the first stands for the root and the first message, and so on.

    Args:
        digests: Of the messages, 16 bytes each.
        root: Bytes that must be equal beside the messages for prefixes to be equal; of any length.
    """
    every = accumulate(
        digests, _next_digest, initial=blake2b(root, digest_size=DIGEST_BYTES).digest()
    )
    return tuple(every)[1:]


def _next_digest(before: bytes, one: bytes) -> bytes:
    return blake2b(before + one, digest_size=DIGEST_BYTES).digest()
