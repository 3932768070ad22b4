"""Words for the codes of receipts, as pages show them; filters and files have the codes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CODE_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Outcomes
        "broken": "broke off",
        "hung_up": "caller left",
        # Windows that end now
        "15m": "15 minutes",
        "1h": "1 hour",
        "6h": "6 hours",
        "24h": "24 hours",
        # Reasons for a miss
        "below_minimum": "below the cache's minimum",
        "elsewhere": "in another cache",
        "provider_side": "on the provider's side",
        "unmarked": "nothing was marked",
        # Parts of the fast path
        "cache": "answer cache",
        "small": "small model",
        "large": "large model",
        # Kinds of tokens
        "input": "prompt, not cached",
        "cache_read": "prompt, read from the cache",
        "write_5m": "prompt, written for 5 minutes",
        "write_30m": "prompt, written for 30 minutes",
        "write_1h": "prompt, written for 1 hour",
        "write_12h": "prompt, written for 12 hours",
        "output": "answer",
        "other": "not explained by tokens",
        # Errors
        "call_too_long": "prompt too long for the model",
        "context_length_exceeded": "prompt too long for the model",
        "draft_ended": "the answer overtook the draft",
        "insufficient_quota": "the account's quota is used up",
        "rate_limit_exceeded": "rate limit of the upstream",
        "upstream_overloaded": "upstream overloaded",
        "upstream_unauthorized": "upstream refused the gateway's key",
    }
)
"""Words of codes that say too little by themselves."""


def code_words(code: str) -> str:
    """The words of a code; its own where they say enough."""
    return CODE_WORDS.get(code) or code.replace("_", " ")
