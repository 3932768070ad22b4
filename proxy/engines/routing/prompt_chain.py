"""A prompt as a chain of digests, one per block, so that equal links mean equal prefixes."""

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b

from proxy.caches.prefixes import WORD, block_digests

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class PromptChain:
    """The links of a prompt; link ``n`` stands for its first ``n + 1`` blocks and for whose it is.

    Attributes:
        links: One digest for each full block.
        block_tokens: Tokens of a block; of text, an estimate.
        tokens: Tokens of the whole prompt.
    """

    links: tuple[bytes, ...]
    block_tokens: float
    tokens: int

    def tokens_at(self, links: int) -> int:
        """Tokens of so many links, never more than the prompt has."""
        return min(int(links * self.block_tokens), self.tokens)


def chain_root(model: str, salt: str) -> bytes:
    """The digest that a chain begins with: prompts of other models or organisations never meet."""
    owner = f"{len(model)}:{model}{salt}"
    return blake2b(owner.encode(), digest_size=_DIGEST_BYTES, person=b"route").digest()


def chain_of_token_ids(root: bytes, token_bytes: bytes, block_tokens: int) -> PromptChain:
    """The chain of token ids, ``WORD`` bytes each, in the engine's own blocks."""
    links = block_digests(root, token_bytes, block_tokens)
    return PromptChain(tuple(links), block_tokens, len(token_bytes) // WORD)


@dataclass(frozen=True, slots=True)
class _Hashed:
    """A prompt that was hashed: its full blocks, and their links."""

    content: bytes
    links: tuple[bytes, ...]


class ChainBuilder:
    """Hashes prompts; of a conversation that goes on, only the blocks that are new.

    The bytes of each conversation's last prompt are kept and compared, which costs a tenth of
    hashing them. They are bounded together; the least recently used conversation goes first.

    Args:
        block_bytes: Bytes of a block.
        max_bytes: Bytes of prompts kept.
    """

    def __init__(self, block_bytes: int = 1_024, max_bytes: int = 64 * 2**20) -> None:
        self._block_bytes = block_bytes
        self._max_bytes = max_bytes
        self._bytes = 0
        self._hashed: OrderedDict[bytes, _Hashed] = OrderedDict()

    def __len__(self) -> int:
        return len(self._hashed)

    @property
    def kept_bytes(self) -> int:
        """Bytes of prompts that are kept."""
        return self._bytes

    def chain(self, root: bytes, content: bytes, tokens: int, conversation: str) -> PromptChain:
        """The chain of a prompt's canonical bytes.

        Args:
            root: From ``chain_root``.
            content: The prompt as the engine will see it, or a stable stand-in of it.
            tokens: Tokens of the prompt, counted or estimated.
            conversation: Names the conversation; "" where there is none.
        """
        size = self._block_bytes
        full = len(content) // size
        links: tuple[bytes, ...] = ()
        key = root + conversation.encode()
        if conversation and (before := self._hashed.get(key)) is not None:
            links = before.links[: _shared_blocks(before.content, content, size)]
        if len(links) < full:
            start = links[-1] if links else root
            rest = content[len(links) * size :]
            links = (*links, *block_digests(start, rest, size // WORD))
        if conversation:
            self._keep(key, _Hashed(content[: full * size], links))
        block_tokens = tokens * size / len(content) if content else 1.0
        return PromptChain(links, block_tokens, tokens)

    def _keep(self, key: bytes, hashed: _Hashed) -> None:
        if (before := self._hashed.pop(key, None)) is not None:
            self._bytes -= len(before.content)
        if len(hashed.content) > self._max_bytes:
            return
        self._hashed[key] = hashed
        self._bytes += len(hashed.content)
        while self._bytes > self._max_bytes:
            _, oldest = self._hashed.popitem(last=False)
            self._bytes -= len(oldest.content)


def _shared_blocks(before: bytes, now: bytes, size: int) -> int:
    """Full blocks that both begin with; found by halving, each step compares bytes only."""
    if now.startswith(before):
        return len(before) // size
    low, high = 0, min(len(before), len(now)) // size
    while low < high:
        middle = (low + high + 1) // 2
        if now.startswith(before[low * size : middle * size], low * size):
            low = middle
        else:
            high = middle - 1
    return low
