"""The block cache of vLLM, and of providers that behave like it: full blocks, chained by hash."""

from collections import OrderedDict
from dataclasses import dataclass
from math import inf

from proxy.caches import prefixes
from proxy.caches.bills import ALWAYS_FRESH, readable_tokens
from proxy.caches.port import CachedPrompt, Served
from proxy.caches.prefixes import WORD, token_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockChainRules:
    """The numbers of this regime.

    Source: vLLM 0.33.0, V1 engine (2026-11), unless said otherwise.

    Attributes:
        block: Tokens of a block; full blocks only are stored.
        blocks: Blocks kept by the replica; the least recently used goes first, tails before heads.
        least: Shorter prompts, and shorter hits, count as nothing.
        at_once: True if blocks can be shared from the moment a prompt is scheduled; otherwise once
            its answer has begun.
        generated: True if blocks filled by the answer are kept.
        lifetime: Seconds a block lives after its last use; infinite where only room matters.
        needs_key: True if a prompt without a key is neither read nor stored.
    """

    block: int = 16
    blocks: int = 32_768
    least: int = 0
    at_once: bool = True
    generated: bool = True
    lifetime: float = inf
    needs_key: bool = False


VLLM = BlockChainRules()
#: Source: Mistral, prompt caching (2026-11): blocks of 64, only with a ``prompt_cache_key``;
#: no lifetime is published.
MISTRAL = BlockChainRules(block=64, least=64, at_once=False, generated=False, needs_key=True)
#: Source: measured steps of 128 at xAI (2026-11); no lifetime is published.
XAI = BlockChainRules(block=128, at_once=False, generated=False)


def provider_rules(provider: str) -> BlockChainRules:
    """The rules of a provider's cache; vLLM's for any but Mistral and xAI."""
    return {"mistral": MISTRAL, "xai": XAI}.get(provider, VLLM)


class BlockChain:
    """One replica's blocks; bounded by ``Rules.blocks``.

    The prompt's key is its ``cache_salt``: hashed into the first block, it parts the whole chain.
    """

    def __init__(self, rules: BlockChainRules = VLLM) -> None:
        self._rules = rules
        self._ends: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ends)

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Read the longest chain of stored blocks, at least one token short of the prompt."""
        chain, total = self._chain(prompt)
        hits = next(
            (index for index, link in enumerate(chain) if self._ends.get(link, -inf) < now),
            len(chain),
        )
        if self._rules.at_once:
            self._store(chain, now)
        rules = self._rules
        read = readable_tokens(
            hits * rules.block, total, step=rules.block, least=rules.least, fresh=ALWAYS_FRESH
        )
        return Served(read=read, fresh=total - read)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Store the prompt's full blocks, or mark them as just used."""
        self._store(self._chain(prompt)[0], now)

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Store the blocks the answer filled; its last token was never computed on."""
        if self._rules.generated:
            self._store(self._chain(prompt, generated[:-1])[0], now)

    def _chain(
        self, prompt: CachedPrompt, generated: tuple[int, ...] = ()
    ) -> tuple[list[bytes], int]:
        content = prefixes.prompt_bytes(prompt) + token_bytes(generated)
        total = len(content) // WORD
        if total < self._rules.least or (self._rules.needs_key and not prompt.key):
            return [], total
        return prefixes.block_digests(
            prefixes.root_digest(prompt), content, self._rules.block
        ), total

    def _store(self, chain: list[bytes], now: float) -> None:
        ends = now + self._rules.lifetime
        for link in reversed(chain):
            self._ends[link] = ends
            self._ends.move_to_end(link)
        while len(self._ends) > self._rules.blocks:
            self._ends.popitem(last=False)
