"""Maps a provider's service tiers to the names that prices use."""

from typing import Final

#: Names of the standard tier; what is paid for in advance has its price.
#: Source: OpenAI, Anthropic and Groq API references, service_tier (2026-11).
_STANDARD: Final = frozenset({"auto", "default", "on_demand", "scale", "standard", "standard_only"})
#: Tiers by their newer names: both are taken. Source: openai.com/api-fast-mode (2026-07-30).
_RENAMED: Final = {"fast": "priority"}


def price_tier(tier: object) -> str:
    """The tier under the name of its price; "" for standard and where none is named.

    A tier that nobody knows keeps its name, so that it has no price rather than a wrong one.
    """
    if not isinstance(tier, str) or tier in _STANDARD:
        return ""
    return _RENAMED.get(tier, tier)


def leaves_tier_open(tier: str | None) -> bool:
    """True if the provider chooses the tier: its project's default may be a dearer one.

    Source: OpenAI API reference, service_tier: auto (2026-11).
    """
    return tier in {None, "", "auto"}
