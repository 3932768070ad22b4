"""The token usage of one answer, and the keys of tags that it is booked on."""

import re
from typing import Final

import msgspec

#: Tag keys of one team that count, and the form of each.
MAX_TAG_KEYS: Final = 4
TAG_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
#: Beginning of dimensions that are tags.
TAG_PREFIX: Final = "tag:"


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens in disjoint buckets: each token stands in exactly one, each is billed apart.

    A bucket of 0 means the provider said none; an unknown usage is no ``Usage`` at all.

    Attributes:
        input: Prompt tokens neither read from nor written to a cache.
        cache_read: Prompt tokens served from a prefix cache.
        write_5m: Prompt tokens stored for at least five minutes (Anthropic).
        write_30m: Prompt tokens stored for at least thirty minutes (OpenAI).
        write_1h: Prompt tokens stored for at least one hour (Anthropic).
        write_12h: Prompt tokens stored for at least twelve hours (OpenAI).
        output: Generated tokens other than reasoning.
        reasoning: Generated tokens of hidden or visible reasoning; billed as output.
    """

    input: int = 0
    cache_read: int = 0
    write_5m: int = 0
    write_30m: int = 0
    write_1h: int = 0
    write_12h: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def prompt_tokens(self) -> int:
        """All prompt tokens, however they were served."""
        return self.input + self.cache_read + self.cache_write_tokens

    @property
    def cache_write_tokens(self) -> int:
        """Prompt tokens stored in a cache, for however long."""
        return self.write_5m + self.write_30m + self.write_1h + self.write_12h

    @property
    def generated_tokens(self) -> int:
        """All generated tokens, reasoning included."""
        return self.output + self.reasoning
