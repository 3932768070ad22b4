"""Token counters for compaction: fast, and close to what the provider counts; pure.

Caches tell readings apart by the counting function, so each vocabulary and ratio keeps one.
"""

from collections.abc import Sequence
from functools import cache, partial

from compaction.reading.message import Count
from compaction.reading.token_estimate import estimate_tokens
from compaction.reading.vocabulary import NEWEST, Vocabulary, vocabulary
from proxy.tokens.ratios import initial_ratio


def token_counter(model: str) -> Count:
    """Counts texts as the provider of a model does, about; equal ways share one function.

    Args:
        model: The name that the upstream knows it by.
    """
    return _counter(vocabulary(model), initial_ratio(model))


def tool_tokens(tools: Sequence[bytes], count: Count) -> int:
    """Tokens of tool definitions, each as JSON."""
    return sum(count(raw.decode(errors="replace")) for raw in tools)


def conversation_scope(team: str, model: str) -> bytes:
    """The scope of a conversation: its team and its way of counting."""
    name, ratio = vocabulary(model), initial_ratio(model)
    is_usual = token_counter(model) is estimate_tokens
    return team.encode() if is_usual else f"{team}\0{name}\0{ratio}".encode()


@cache
def _counter(name: Vocabulary, ratio: float) -> Count:
    if ratio != 1:
        return lambda text: round(estimate_tokens(text, name) * ratio)
    return estimate_tokens if name == NEWEST else partial(estimate_tokens, name=name)
