"""Rules of each provider's prompt cache, as ``providers.md`` has them (2026-11).

What no vendor documents is an assumption: it is a parameter here, and named as one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final


@dataclass(frozen=True, kw_only=True)
class CacheRules:
    """The rules of one cache.

    Attributes:
        family: Name of the cache class in ``accounts``.
        min_tokens: Shortest prefix that is cached.
        step: Cached tokens are whole steps of so many.
        interval: Tokens from one stored place to the next.
        lifetime: Seconds that an unused entry lives.
        longest: Seconds that an entry lives at most, used or not.
        delay: Seconds from the first byte until others can read it.
        keeps_answers: True if generated tokens are cached, too.
        needs_key: True if nothing is cached without a key.
        last_is_computed: True if the prompt's last token is never read.
        at_once: True if others can read it before the first byte.
        slots: Number of slots (llama.cpp).
    """

    family: str
    min_tokens: int = 0
    step: int = 1
    interval: int = 0
    lifetime: float = inf
    longest: float = inf
    delay: float = 0.0
    keeps_answers: bool = False
    needs_key: bool = False
    last_is_computed: bool = True
    at_once: bool = False
    slots: int = 1


#: By regime and provider. Assumed: GPT-5.4's interval is GPT-5.5's; the typical 30 minutes of
#: OpenAI's 24h are those of every entry; lifetimes of Gemini and DeepSeek; Azure's steps of 128 are
#: its interval.
RULES: Final[Mapping[str, CacheRules]] = {
    # §2.1, §2.2
    "anthropic": CacheRules(family="anthropic", min_tokens=512),
    "anthropic-4096": CacheRules(family="anthropic", min_tokens=4096),
    "bedrock": CacheRules(family="bedrock", min_tokens=1024),
    # §1.2
    "openai-breakpoint": CacheRules(family="openai-breakpoint", min_tokens=1024),
    "azure-breakpoint": CacheRules(family="azure-breakpoint", min_tokens=1024),
    # §1.3, §1.6
    "openai-interval": CacheRules(
        family="interval", min_tokens=1024, interval=2048, step=128, lifetime=300, longest=3600
    ),
    "openai-interval-24h": CacheRules(
        family="interval", min_tokens=1024, interval=2048, step=128, lifetime=1800, longest=86_400
    ),
    "azure-interval": CacheRules(
        family="interval", min_tokens=1024, interval=128, step=128, lifetime=300, longest=3600
    ),
    # §3, §6
    "gemini": CacheRules(family="prefix", min_tokens=4096, lifetime=240),
    "groq": CacheRules(family="prefix", min_tokens=1024, lifetime=7200),
    "fireworks": CacheRules(family="prefix"),
    # §5
    "deepseek": CacheRules(
        family="unit", step=64, lifetime=7200, delay=2, keeps_answers=True, last_is_computed=False
    ),
    # §6, §7.1, §7.2, §7.3
    "mistral": CacheRules(family="prefix", min_tokens=64, step=64, needs_key=True),
    "xai": CacheRules(family="prefix", step=128),
    "vllm": CacheRules(family="prefix", step=16, keeps_answers=True, at_once=True),
    "sglang": CacheRules(family="prefix", keeps_answers=True),
    "llamacpp": CacheRules(family="slot", keeps_answers=True, slots=4),
}

#: Rules by the models of the do-no-harm table.
MODEL_RULES: Final[Mapping[str, str]] = {
    "claude-sonnet-5-5": "anthropic",
    "claude-haiku-4-5": "anthropic-4096",
    "bedrock-claude": "bedrock",
    "gpt-6.1-sol": "openai-breakpoint",
    "gpt-5.6-terra": "openai-breakpoint",
    "azure-gpt-5.6": "azure-breakpoint",
    "gpt-5.4": "openai-interval-24h",
    "gpt-5.5": "openai-interval-24h",
    "azure-gpt-5.4": "azure-interval",
    "gemini-3.8-flash": "gemini",
    "openai/gpt-oss-120b": "groq",
    "fireworks-oss": "fireworks",
    "deepseek-flash": "deepseek",
    "mistral-large-4": "mistral",
    "grok-4.7": "xai",
    "vllm-own": "vllm",
    "sglang-own": "sglang",
    "llamacpp-own": "llamacpp",
}
