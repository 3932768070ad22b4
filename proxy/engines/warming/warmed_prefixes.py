"""The prompts that one replica read ahead, and the tokens that later calls gained by them."""

from collections import Counter, OrderedDict
from typing import Final, NamedTuple

from proxy.engines.routing.prompt_chain import PromptChain
from proxy.engines.warming.accounts import WarmingKind

#: Prompts remembered; the oldest is forgotten.
_MAX_PREFIXES: Final = 256


class WarmedPrefix(NamedTuple):
    """A prompt that was read ahead.

    Attributes:
        links: Full blocks of its chain; a call that begins with it has the last one there, too.
        tokens: Tokens that the engine computed for it.
    """

    kind: WarmingKind
    links: int
    tokens: int


class WarmedPrefixes:
    """Remembers the prompts that were read ahead at one replica; bounded.

    Prompts shorter than a block of the chain are left out: they cannot be told apart.
    """

    def __init__(self) -> None:
        self._prefixes: OrderedDict[int, WarmedPrefix] = OrderedDict()

    def __len__(self) -> int:
        return len(self._prefixes)

    def add(self, kind: WarmingKind, chain: PromptChain, tokens: int) -> None:
        """Remember a prompt; one that was read twice counts with what both times computed."""
        if not chain.links or tokens <= 0:
            return
        had = self._prefixes.pop(chain.links[-1], None)
        before = 0 if had is None else had.tokens
        self._prefixes[chain.links[-1]] = WarmedPrefix(kind, len(chain.links), before + tokens)
        while len(self._prefixes) > _MAX_PREFIXES:
            self._prefixes.popitem(last=False)

    def use(self, chain: PromptChain, cached_tokens: int) -> Counter[WarmingKind]:
        """The tokens by kind that a call read of prompts that were warmed for it.

        Each prompt counts once: what later calls find is there because a call has used it.

        Args:
            cached_tokens: Tokens of it that the engine read from its cache, as it reports.
        """
        begun = [
            link
            for link, prefix in self._prefixes.items()
            if prefix.links <= len(chain.links) and chain.links[prefix.links - 1] == link
        ]
        read_tokens: Counter[WarmingKind] = Counter()
        left = cached_tokens
        for link in begun:
            prefix = self._prefixes.pop(link)
            read = min(prefix.tokens, left)
            if read:
                read_tokens[prefix.kind] += read
                left -= read
        return read_tokens
