"""Samples of arms, from what each of their conversations cost."""

from collections.abc import Iterable

import msgspec

from proxy.prefix.guard import ArmTotals


class ConversationSums(msgspec.Struct, frozen=True):
    """Cost, tokens and cache reads of one conversation.

    Attributes:
        cost: In 1e-9 US dollars.
        tokens: Input tokens, however they were served.
        reads: Those of them that were read from a cache.
    """

    cost: int
    tokens: int
    reads: int


def sample_arm(conversations: Iterable[ConversationSums]) -> ArmTotals:
    """The sample of these conversations."""
    every = tuple(conversations)
    return ArmTotals(
        conversations=len(every),
        cost=sum(unit.cost for unit in every),
        tokens=sum(unit.tokens for unit in every),
        reads=sum(unit.reads for unit in every),
        cost_cost=float(sum(unit.cost * unit.cost for unit in every)),
        cost_tokens=float(sum(unit.cost * unit.tokens for unit in every)),
        tokens_tokens=float(sum(unit.tokens * unit.tokens for unit in every)),
        reads_reads=float(sum(unit.reads * unit.reads for unit in every)),
        reads_tokens=float(sum(unit.reads * unit.tokens for unit in every)),
    )
