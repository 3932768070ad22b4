"""The blocks that a replica holds, by its own events: exact where they are read.

Engines hash blocks in their own way, and say with each stored block which tokens it holds. Its
link is computed from these tokens, so that it meets the chain of a prompt's token ids.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.caches.prefixes import WORD
from proxy.engines.routing.prompt_chain import PromptChain, block_links, chain_root


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStored:
    """Blocks that follow each other were stored. Source: vLLM 0.33.0, KV events (2026-11).

    Attributes:
        block_hashes: The engine's own hashes of them.
        parent_block_hash: The engine's hash of the block before; None at a prompt's beginning.
        block_size: Tokens of each.
        cache_salt: The salt of their prompt; "" where there is none.
    """

    block_hashes: tuple[bytes | int, ...]
    parent_block_hash: bytes | int | None
    token_ids: tuple[int, ...]
    block_size: int
    cache_salt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRemoved:
    """Blocks were evicted."""

    block_hashes: tuple[bytes | int, ...]


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """The cache was emptied."""


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


class KvEventIndex:
    """The links of all blocks that one replica holds; bounded.

    Args:
        model: Its model, as in the root of its chains.
        max_blocks: Room of the engine's cache; more can only mean that events were lost.

    Attributes:
        block_size: Tokens of a block, as events say; 0 before the first.
    """

    def __init__(self, model: str, max_blocks: int) -> None:
        self._model = model
        self._max_blocks = max_blocks
        self._next: int | None = None
        self._by_hash: dict[bytes | int, int] = {}
        self._links: set[int] = set()
        self._is_whole = False
        self._stored = 0
        self.block_size = 0

    def __len__(self) -> int:
        return len(self._by_hash)

    def apply(self, sequence: int, events: Sequence[KvEvent]) -> bool:
        """Apply a batch; False if one before it was lost, after which nothing older is known.

        Args:
            sequence: The publisher's number of the batch.
        """
        is_next = self._next in {None, sequence}
        if not is_next:
            self._clear()
            self._is_whole = False
        if not sequence:  # the engine has begun: nothing was held before
            self._is_whole = True
        self._next = sequence + 1
        for event in events:
            if isinstance(event, BlockStored):
                self._store(event)
            elif isinstance(event, BlockRemoved):
                for removed in event.block_hashes:
                    self._links.discard(self._by_hash.pop(removed, -1))
            else:
                self._clear()
                self._is_whole = True
        return is_next

    @property
    def is_complete(self) -> bool:
        """True if the engine can hold nothing else: all was seen since it was empty, or as much."""
        return self._is_whole or self._stored >= self._max_blocks

    def matched_tokens(self, chain: PromptChain) -> int:
        """Tokens of the chain's longest prefix that is held, in blocks of the engine's size.

        Engines evict the ends of chains first, so the length is found by halving.
        """
        links, low, high = chain.links, 0, len(chain.links)
        while low < high:
            middle = (low + high + 1) // 2
            if links[middle - 1] in self._links:
                low = middle
            else:
                high = middle - 1
        return chain.tokens_at(low)

    def _store(self, event: BlockStored) -> None:
        start: int | None = chain_root(self._model, event.cache_salt)
        if event.parent_block_hash is not None:
            start = self._by_hash.get(event.parent_block_hash)
        if start is None:
            return  # stored on a block whose own event was lost
        content = array("I", event.token_ids).tobytes()
        links = block_links(start, content, event.block_size * WORD)
        self.block_size = event.block_size
        self._stored += len(event.block_hashes)
        for engine_hash, link in zip(event.block_hashes, links, strict=False):
            self._by_hash[engine_hash] = link
            self._links.add(link)
        while len(self._by_hash) > self._max_blocks:
            self._links.discard(self._by_hash.pop(next(iter(self._by_hash))))

    def _clear(self) -> None:
        self._by_hash.clear()
        self._links.clear()
        self._stored = 0
