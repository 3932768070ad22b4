"""An estimate of a replica's prefix cache from the calls sent there, corrected by its reports."""

from collections import OrderedDict
from typing import Final

from proxy.engines.routing.prompt_chain import PromptChain

#: A guess that is off by less than this share of the match and these tokens is not corrected:
#: text is not cut where the engine's blocks end, and answers are cached, too.
_SLACK_SHARE: Final = 0.1
_SLACK_TOKENS: Final = 1_024
#: The room that is assumed falls and rises by these factors, and stays within these bounds.
_SHRINK: Final = 0.9
_GROWTH: Final = 1.2
#: A link is old if more than this share of the room was used since.
_OLD_SHARE: Final = 0.5
_LEAST_SCALE: Final = 1 / 16
_MOST_SCALE: Final = 4.0
#: Stale links that one call drops; those that remain count as absent meanwhile.
_DROPS_AT_ONCE: Final = 512


class CacheModel:
    """Links that a replica is thought to hold, the least recently used first; bounded.

    A chain is touched from its tail to its head, so that its tail is dropped first, as engines do.
    A link is therefore held only if all before it are, and a match is found by halving.
    Source: vLLM 0.33.0, V1 engine, queue of free blocks (2026-11).

    Args:
        tokens: Room of the cache, as its engine says.
    """

    def __init__(self, tokens: float) -> None:
        self._tokens = tokens
        self._scale = 1.0
        self._uses = 0
        self._stale_at = 0
        self._most_links = 0.0
        self._links: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._links)

    @property
    def capacity_tokens(self) -> float:
        """Tokens for which the replica is thought to have room."""
        return self._tokens * self._scale

    def free_tokens(self, block_tokens: float) -> float:
        """Tokens that can be stored before anything is dropped."""
        return max(0.0, self.capacity_tokens - len(self._links) * block_tokens)

    def resize(self, tokens: float) -> None:
        """Go by another room; its engine was started anew with it."""
        self._tokens = tokens

    def matched_links(self, chain: PromptChain, guess: int = 0) -> int:
        """Links of the chain's longest prefix that is thought to be held.

        Args:
            guess: Number of links to try first, such as another replica's; 0 for none.
        """
        links, used, stale_at = chain.links, self._links, self._stale_at
        low, high = 0, len(links)
        if not high or used.get(links[0], 0) <= stale_at:
            return 0
        if 0 < guess <= high:
            if used.get(links[guess - 1], 0) <= stale_at:
                high = guess - 1
            elif guess == high or used.get(links[guess], 0) <= stale_at:
                return guess
            else:
                low = guess + 1
        while low < high:
            middle = (low + high + 1) // 2
            if used.get(links[middle - 1], 0) > stale_at:
                low = middle
            else:
                high = middle - 1
        return low

    def used_at(self, chain: PromptChain, links: int) -> int:
        """The number of uses after which the last of so many links was used; 0 for none."""
        return self._links.get(chain.links[links - 1], 0) if links else 0

    def touch(self, chain: PromptChain) -> None:
        """Note that the replica reads this prompt."""
        self._uses += len(chain.links)
        links, uses = self._links, self._uses
        for link in reversed(chain.links):
            links[link] = uses
            links.move_to_end(link)
        self._most_links = self.capacity_tokens / chain.block_tokens
        while len(links) > self._most_links:
            links.popitem(last=False)
        self._drop_stale()

    def learn(self, expected_tokens: int, used_at: int, cached_tokens: int) -> None:
        """Correct the guess by what the engine says it had.

        Less than expected: the engine dropped a link, so also all that were used before it. If
        that link was among the older ones, there is less room; if not, the engine was restarted.
        More than expected, although the guess was full: there is more room.

        Args:
            expected_tokens: Tokens of the match when the call was sent.
            used_at: From ``used_at``, before the call was sent.
            cached_tokens: Tokens that the engine reports as read from its cache.
        """
        slack = _SLACK_TOKENS + _SLACK_SHARE * expected_tokens
        if cached_tokens < expected_tokens - min(slack, expected_tokens / 2):
            if self._uses - used_at > _OLD_SHARE * self._most_links:
                self._scale = max(self._scale * _SHRINK, _LEAST_SCALE)
            self._stale_at = max(self._stale_at, used_at)
            self._drop_stale()
        elif cached_tokens > expected_tokens + slack and len(self._links) >= self._most_links - 1:
            self._scale = min(self._scale * _GROWTH, _MOST_SCALE)

    def clear(self) -> None:
        """Forget all links: the engine was restarted, or its cache emptied."""
        self._stale_at = self._uses
        self._drop_stale()

    def _drop_stale(self) -> None:
        links = self._links
        for _ in range(_DROPS_AT_ONCE):
            if not links or next(iter(links.values())) > self._stale_at:
                return
            links.popitem(last=False)
