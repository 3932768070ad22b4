"""Usage objects of OpenAI-type upstreams, in disjoint buckets.

Their convention is inclusive: prompt tokens hold those read from and written to a cache, generated
tokens hold reasoning. Writes that cost nothing (vLLM's ``created_cache_tokens``, DeepSeek's misses)
stay in the input. Source: OpenAI, DeepSeek, xAI, Gemini and vLLM references, usage (2026-11).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from slo.usage import Usage

#: More than any answer holds; larger counts are taken for it, and nobody believes it.
_MAX_TOKENS: Final = 10**12

#: Beyond what one call uses: of no window, not even where tools make many passes.
_UNBELIEVABLE_TOKENS: Final = 10**10

_HIT: Final = "prompt_cache_hit_tokens"
_MISS: Final = "prompt_cache_miss_tokens"
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


def openai_usage(reported: Mapping[str, Any], *, reasoning_apart: bool = False) -> Usage | None:
    """The buckets of a chat, completions, Responses or embeddings usage; None if it has no counts.

    Counts that contradict each other are clamped, so that no bucket is negative and the buckets
    of the prompt add up to the prompt. A usage of zeros is a ``Usage`` of zeros.

    Args:
        reasoning_apart: True if the provider leaves reasoning out of the generated tokens; then it
            is what the total has over. Elsewhere a total tells nothing that the counts do not.
    """
    prompt = token_count(reported, "prompt_tokens", "input_tokens")
    generated = token_count(reported, "completion_tokens", "output_tokens")
    if prompt is None:
        prompt = _prompt_from_other_counts(reported, generated or 0)
    if prompt is None and generated is None:
        return None
    over = 0
    if reasoning_apart:
        total = token_count(reported, "total_tokens") or 0
        over = max(total - (prompt or 0) - (generated or 0), 0)
    return _split(reported, prompt or 0, generated or 0, over)


def believable_usage(reported: Mapping[str, Any]) -> Usage | None:
    """Usage to tell a caller of another API; None for no counts, or impossible ones."""
    usage = openai_usage(reported)
    if usage is None or max(usage.prompt_tokens, usage.generated_tokens) >= _UNBELIEVABLE_TOKENS:
        return None
    return usage


def reported_total(reported: Mapping[str, Any]) -> int | None:
    """The total that an upstream reports; None for none, or an impossible one."""
    total = token_count(reported, "total_tokens")
    return None if total is None or total >= _UNBELIEVABLE_TOKENS else total


def _prompt_from_other_counts(reported: Mapping[str, Any], generated: int) -> int | None:
    """The prompt tokens that other counts add up to; None if none do."""
    hit, miss = token_count(reported, _HIT), token_count(reported, _MISS)
    if hit is not None or miss is not None:
        return (hit or 0) + (miss or 0)
    total = token_count(reported, "total_tokens")
    return None if total is None else max(total - generated, 0)


def merge_usage(into: dict[str, Any], new: Mapping[str, Any], depth: int = 4) -> None:
    """Merge a later usage object over an earlier one; its nulls replace nothing.

    Args:
        depth: Levels of objects that are merged; usage objects nest no deeper.
    """
    for key, value in new.items():
        old = into.get(key)
        if depth and isinstance(old, dict) and isinstance(value, dict):
            merge_usage(old, value, depth - 1)
        elif value is not None:
            into[key] = value


def _split(reported: Mapping[str, Any], prompt: int, generated: int, over: int) -> Usage:
    details = _object(reported, "prompt_tokens_details", "input_tokens_details")
    cached = token_count(details, "cached_tokens")
    if cached is None:
        cached = token_count(reported, _HIT, "cached_tokens") or 0
    read = min(cached, prompt)
    write = min(token_count(details, "cache_write_tokens") or 0, prompt - read)
    write_12h = 0
    if write:
        ttls = _object(details, "cache_write_tokens_details")
        write_12h = min(token_count(ttls, "ttl_12h_tokens") or 0, write)
    output_details = _object(reported, "completion_tokens_details", "output_tokens_details")
    reasoning = token_count(output_details, "reasoning_tokens") or 0
    if over and reasoning in {0, over}:
        output, reasoning = generated, over
    else:  # it is inside the generated tokens
        reasoning = min(reasoning, generated)
        output = generated - reasoning
    return Usage(
        input=prompt - read - write,
        cache_read=read,
        write_30m=write - write_12h,
        write_12h=write_12h,
        output=output,
        reasoning=reasoning,
    )


def _object(reported: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The first of the named objects; an empty one if there is none."""
    for name in names:
        value = reported.get(name)
        if isinstance(value, dict):
            return value
    return _NONE


def token_count(reported: Mapping[str, Any], *names: str) -> int | None:
    """The first of the named that is a count, and not negative; None if none is.

    Some servers write whole numbers with a decimal point.
    """
    for name in names:
        count = reported.get(name)
        if type(count) is float and count.is_integer():
            count = int(count)
        if type(count) is int and count >= 0:
            return min(count, _MAX_TOKENS)
    return None
