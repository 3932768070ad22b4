"""Usage objects of the Messages API, in disjoint buckets.

Its convention is exclusive: input, cache reads and cache writes add up to the prompt. Source:
Anthropic, prompt caching and Messages API, usage (2026-08).
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from proxy.providers.answers.usage import token_count
from slo.usage import Usage

_COUNTS: Final = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)


def messages_usage(reported: Mapping[str, Any]) -> Usage | None:
    """The buckets; None if the object holds no counts, zeros if it holds zeros.

    Where the answer took several passes, the top-level counts leave some out: ``iterations``
    holds them all and goes before.
    """
    passes = reported.get("iterations")
    rounds = (
        [reported_pass for reported_pass in passes if isinstance(reported_pass, dict)]
        if isinstance(passes, list)
        else []
    )
    counted = [
        usage for reported_pass in rounds if (usage := _usage_of_pass(reported_pass)) is not None
    ]
    whole = _usage_of_pass(reported)
    if not counted:
        return whole
    return _with_thinking(_sum(counted), _thinking(reported))


def _usage_of_pass(reported: Mapping[str, Any]) -> Usage | None:
    """The buckets of one pass."""
    if all(token_count(reported, name) is None for name in _COUNTS):
        return None
    write_5m, write_1h = _cache_writes(reported)
    counted = Usage(
        input=token_count(reported, "input_tokens") or 0,
        cache_read=token_count(reported, "cache_read_input_tokens") or 0,
        write_5m=write_5m,
        write_1h=write_1h,
        output=token_count(reported, "output_tokens") or 0,
    )
    return _with_thinking(counted, _thinking(reported))


def _cache_writes(reported: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens stored for five minutes and for one hour.

    What the split does not explain is of the default five minutes: a stream tells the split once,
    at its start, and may raise the total later.
    """
    split = reported.get("cache_creation")
    split = split if isinstance(split, dict) else {}
    hour = token_count(split, "ephemeral_1h_input_tokens") or 0
    total = token_count(reported, "cache_creation_input_tokens")
    if total is None:
        return token_count(split, "ephemeral_5m_input_tokens") or 0, hour
    hour = min(hour, total)
    return total - hour, hour


def _thinking(reported: Mapping[str, Any]) -> int:
    """Thinking tokens; they are inside the output tokens."""
    details = reported.get("output_tokens_details")
    return (token_count(details, "thinking_tokens") or 0) if isinstance(details, dict) else 0


def _with_thinking(usage: Usage, thinking: int) -> Usage:
    """The usage with at least this much of what was generated called reasoning."""
    reasoning = min(max(thinking, usage.reasoning), usage.generated_tokens)
    return replace(usage, output=usage.generated_tokens - reasoning, reasoning=reasoning)


def _sum(passes: list[Usage]) -> Usage:
    return Usage(
        **{name: sum(getattr(usage, name) for usage in passes) for name in Usage.__struct_fields__}
    )
