"""The value of a warm prefix: high while few calls share it, zero once every replica will have it.

A prefix that a share of all calls have needs that share of the replicas. While fewer hold it, one
more copy soon pays. A prefix that is far rarer is best kept where it is, the more so the larger a
part of the prompt it is.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from proxy.engines.routing.policy import RoutingPolicy
from proxy.engines.routing.prompt_chain import PromptChain

#: Calls among which the share of a prefix is counted: so many for each replica, and at most.
_CALLS_PER_REPLICA: Final = 8
_MAX_CALLS: Final = 256
#: Parts whose share is counted; those before the last ones are at least as common.
_MAX_PARTS: Final = 4


class RecentPrompts:
    """The prompts that were sent last, whatever the replica."""

    def __init__(self) -> None:
        self._prompts: deque[tuple[int, ...]] = deque(maxlen=_MAX_CALLS)

    def note(self, chain: PromptChain) -> None:
        """Note that a prompt is sent."""
        self._prompts.append(chain.links)

    def share(self, chain: PromptChain, links: int, calls: int) -> float:
        """The share of the last calls, so many of them, that begin with these links of a chain.

        Earlier turns of the same conversation do not count: one replica is enough for them.
        """
        own, place = chain.links, links - 1
        link, count = own[place], 0
        for prompt in islice(reversed(self._prompts), calls):
            if len(prompt) > place and prompt[place] == link and not _is_earlier_turn(prompt, own):
                count += 1
        return count / min(calls, len(self._prompts)) if count else 0.0


def _is_earlier_turn(links: tuple[int, ...], own: tuple[int, ...]) -> bool:
    """True if a prompt goes on where another one ended."""
    return len(links) < len(own) and own[len(links) - 1] == links[-1]


class PrefixPart(NamedTuple):
    """A part of a prompt, from where some replicas' match ends to where that of others does.

    Attributes:
        end: Tokens of the prompt up to its end.
        weighted_tokens: Its tokens, times the worth of each.
    """

    end: int
    weighted_tokens: float


class PrefixWorth(NamedTuple):
    """The worth of the parts of a prompt that some replica holds.

    Attributes:
        parts: From the first to the last.
        common_links: Links that are too common to be kept at one replica.
    """

    parts: Sequence[PrefixPart]
    common_links: int

    def missing_tokens(self, matched: int, new_tokens: int = 0) -> float:
        """The weighted tokens that a replica lacks and another holds.

        They count by the share that they are of all that it would have to read: to save a small
        part of a call's prefill is not worth waiting for.

        Args:
            matched: Tokens of the prompt that the replica holds.
            new_tokens: Tokens of it that none holds.
        """
        if not self.parts or matched >= self.parts[-1].end:
            return 0.0
        missing = self.parts[-1].end - matched
        weighted = sum(part.weighted_tokens for part in self.parts if part.end > matched)
        return weighted * missing / (missing + new_tokens)


def prefix_worth(
    chain: PromptChain, matches: Sequence[int], recent: RecentPrompts, policy: RoutingPolicy
) -> PrefixWorth:
    """The worth of what replicas hold of a prompt.

    Args:
        matches: Tokens of it that each replica holds.
    """
    parts, before, common = [], 0, 0
    calls = _CALLS_PER_REPLICA * len(matches)
    for end in sorted(set(matches) - {0})[-_MAX_PARTS:]:
        links = min(len(chain.links), max(1, round(end / chain.block_tokens)))
        holders = sum(matched >= end for matched in matches)
        # Calls with it, over what its holders would get of calls that are spread evenly.
        load = recent.share(chain, links, calls) * len(matches) / holders if chain.links else 0.0
        rarity = max(0.0, 1 - load / policy.full_share)
        if load >= policy.full_share:
            common = links
        parts.append(PrefixPart(end, (end - before) * rarity * policy.rare_weight))
        before = end
    return PrefixWorth(parts, common)
