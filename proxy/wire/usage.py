"""Usage objects of OpenAI-type upstreams, in disjoint buckets.

Their convention is inclusive: prompt tokens hold those read from and written to a cache, generated
tokens hold reasoning. Writes that cost nothing (vLLM's ``created_cache_tokens``, DeepSeek's misses)
stay in the input. Source: OpenAI, DeepSeek, xAI, Gemini and vLLM references, usage (2026-11).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from slo.usage import Usage

#: More than any answer holds; a larger count is a mistake that no ledger should have to store.
_MOST: Final = 10**12

_HIT: Final = "prompt_cache_hit_tokens"
_MISS: Final = "prompt_cache_miss_tokens"
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


def openai_usage(found: Mapping[str, Any]) -> Usage | None:
    """The buckets of a chat, completions, Responses or embeddings usage; None if it has no counts.

    Counts that contradict each other are clamped, so that no bucket is negative and the buckets
    of the prompt add up to the prompt. A usage of zeros is a ``Usage`` of zeros.
    """
    counts = _counts(found)
    prompt = counts.get("prompt_tokens", counts.get("input_tokens"))
    generated = counts.get("completion_tokens", counts.get("output_tokens"))
    if prompt is None:
        prompt = _untold(counts, generated or 0)
    if prompt is None and generated is None:
        return None
    return _split(found, counts, prompt or 0, generated or 0)


def _untold(counts: Mapping[str, int], generated: int) -> int | None:
    """The prompt tokens that other counts add up to; None if none do."""
    if _HIT in counts or _MISS in counts:
        return counts.get(_HIT, 0) + counts.get(_MISS, 0)
    total = counts.get("total_tokens")
    return None if total is None else max(total - generated, 0)


def merge(into: dict[str, Any], new: Mapping[str, Any], depth: int = 4) -> None:
    """Let what a later usage object says replace what it names; null names nothing.

    Args:
        into: What was said so far.
        new: What is said now.
        depth: How deep objects are merged; usage objects nest no deeper.
    """
    for key, value in new.items():
        old = into.get(key)
        if depth and isinstance(old, dict) and isinstance(value, dict):
            merge(old, value, depth - 1)
        elif value is not None:
            into[key] = value


def _split(
    found: Mapping[str, Any], counts: Mapping[str, int], prompt: int, generated: int
) -> Usage:
    details = _object(found, "prompt_tokens_details", "input_tokens_details")
    told = _counts(details)
    cached = told.get("cached_tokens", counts.get(_HIT, counts.get("cached_tokens", 0)))
    read = min(cached, prompt)
    write = min(told.get("cache_write_tokens", 0), prompt - read)
    ttls = _counts(_object(details, "cache_write_tokens_details")) if write else _NONE
    write_12h = min(ttls.get("ttl_12h_tokens", 0), write)
    told = _counts(_object(found, "completion_tokens_details", "output_tokens_details"))
    reasoning = told.get("reasoning_tokens", 0)
    output, reasoning = _generated(prompt, generated, reasoning, counts.get("total_tokens", 0))
    return Usage(
        input=prompt - read - write,
        cache_read=read,
        write_30m=write - write_12h,
        write_12h=write_12h,
        output=output,
        reasoning=reasoning,
    )


def _generated(prompt: int, generated: int, reasoning: int, total: int) -> tuple[int, int]:
    """Output and reasoning, apart.

    Reasoning is inside the generated tokens, except where the total says that it was left out of
    them, as xAI's and Gemini's compatible answers do: then it is what the total has over.
    """
    over = max(total - prompt - generated, 0)
    if over and reasoning in {0, over}:
        return generated, over
    reasoning = min(reasoning, generated)
    return generated - reasoning, reasoning


def _object(found: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The first of the named objects; an empty one if there is none."""
    for name in names:
        value = found.get(name)
        if isinstance(value, dict):
            return value
    return _NONE


def _counts(found: Mapping[str, Any]) -> dict[str, int]:
    """What an object counts, by name. What is negative is no count."""
    counts: dict[str, int] = {}
    for name, value in found.items():
        count = int(value) if type(value) is float and value.is_integer() else value
        if type(count) is int and 0 <= count <= _MOST:
            counts[name] = count
    return counts
