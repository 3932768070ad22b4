"""Token counters for compaction: fast, and close to what the provider counts; pure.

Caches tell readings apart by the counting function, so each ratio keeps one function.
"""

from collections.abc import Sequence
from functools import cache

from compaction.reading.message import Count
from compaction.reading.token_estimate import estimate_tokens
from proxy.tokens.ratios import initial_ratio


def token_counter(model: str) -> Count:
    """Counts texts as the provider of a model does, about; equal ratios share one function.

    Args:
        model: The name that the upstream knows it by.
    """
    return _ratio_counter(initial_ratio(model))


def tool_tokens(tools: Sequence[bytes], count: Count) -> int:
    """Tokens of tool definitions, each as JSON."""
    return sum(count(raw.decode(errors="replace")) for raw in tools)


def conversation_scope(team: str, model: str) -> bytes:
    """The scope of a conversation: its team and its way of counting."""
    ratio = initial_ratio(model)
    return team.encode() if ratio == 1 else f"{team}\0{ratio}".encode()


@cache
def _ratio_counter(ratio: float) -> Count:
    return estimate_tokens if ratio == 1 else lambda text: round(estimate_tokens(text) * ratio)
