"""How tokens are counted where folds are decided: at once, and near what the provider counts; pure.

Readings are known by the function they were counted with, so each ratio has one, for ever.
"""

from collections.abc import Sequence
from functools import cache

from compaction.reading.message import Count
from compaction.reading.token_estimate import estimate
from proxy.tokens.ratios import initial_ratio


def counting(model: str) -> Count:
    """Counts texts as the provider of a model does, about; equal ratios share one function.

    Args:
        model: The name that the upstream knows it by.
    """
    return _counting(initial_ratio(model))


def declared(tools: Sequence[bytes], count: Count) -> int:
    """Tokens of tool definitions, each as JSON."""
    return sum(count(raw.decode(errors="replace")) for raw in tools)


def scope(team: str, model: str) -> bytes:
    """Whose a conversation is, and how it is counted: otherwise it may be cut elsewhere."""
    ratio = initial_ratio(model)
    return team.encode() if ratio == 1 else f"{team}\0{ratio}".encode()


@cache
def _counting(ratio: float) -> Count:
    return estimate if ratio == 1 else lambda text: round(estimate(text) * ratio)
