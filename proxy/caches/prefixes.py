"""Prefixes as digests: two prompts share a prefix exactly when they share its digest.

Token ids are hashed as 32-bit words. The scope and the key of a prompt are hashed in front of its
tokens, so prompts of different owners never meet.
"""

from array import array
from hashlib import blake2b
from typing import NamedTuple

from proxy.caches.port import CachedPrompt

#: Bytes of one token id.
WORD = array("I").itemsize
_DIGEST_BYTES = 16


class Point(NamedTuple):
    """The end of a block.

    Attributes:
        tokens: Tokens from the start of the prompt up to here.
        digest: Stands for all of them, and for whose they are.
    """

    tokens: int
    digest: bytes


def root_digest(prompt: CachedPrompt) -> bytes:
    """The digest of the empty prefix: whose cache the prompt may hit."""
    owner = f"{len(prompt.scope)}:{prompt.scope}{prompt.key}"
    return blake2b(owner.encode(), digest_size=_DIGEST_BYTES).digest()


def token_bytes(tokens: tuple[int, ...]) -> bytes:
    """The token ids as bytes, ``WORD`` of them each."""
    return array("I", tokens).tobytes()


def prompt_bytes(prompt: CachedPrompt) -> bytes:
    """The token ids of the whole prompt as bytes."""
    return b"".join([token_bytes(block.tokens) for block in prompt.blocks])


def block_ends(prompt: CachedPrompt) -> list[Point]:
    """The end of each block, in order."""
    points = []
    length = 0
    hashed = blake2b(root_digest(prompt), digest_size=_DIGEST_BYTES)
    for block in prompt.blocks:
        hashed.update(token_bytes(block.tokens))
        length += len(block.tokens)
        points.append(Point(length, hashed.digest()))
    return points


def points_at_lengths(start: bytes, content: bytes, lengths: list[int]) -> list[Point]:
    """The prefixes of the given lengths in tokens, ascending; the content is bytes of tokens."""
    points = []
    done = 0
    hashed = blake2b(start, digest_size=_DIGEST_BYTES)
    for length in lengths:
        hashed.update(content[done : length * WORD])
        done = length * WORD
        points.append(Point(length, hashed.digest()))
    return points


def block_digests(start: bytes, content: bytes, size: int) -> list[bytes]:
    """A chain of digests, one per full block of ``size`` tokens, each hashed over the one before.

    Source: vLLM 0.33.0, prefix caching: a block's hash covers its parent's (2026-11).
    """
    digests = []
    step = size * WORD
    link = start
    for offset in range(0, len(content) - step + 1, step):
        link = blake2b(link + content[offset : offset + step], digest_size=_DIGEST_BYTES).digest()
        digests.append(link)
    return digests


def seeded_chance(seed: int, *parts: bytes) -> float:
    """A number from 0 up to 1, always the same for the same seed and parts."""
    drawn = blake2b(b"".join(parts), digest_size=8, key=seed.to_bytes(8, "big")).digest()
    return int.from_bytes(drawn, "big") / 2**64
