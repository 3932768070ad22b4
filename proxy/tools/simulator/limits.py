"""Rate limits as token buckets, and the headers that report them.

Source: OpenAI and Anthropic API references, rate limit headers (2026-11).
"""

from datetime import UTC, datetime

from proxy.tools.simulator.models import WireName


class RateAllowance:
    """Requests or tokens per minute; filled evenly, never above its limit."""

    def __init__(self, limit: int, now: float) -> None:
        self.limit = limit
        self._level = float(limit)
        self._seen = now

    def take(self, amount: int, now: float) -> float:
        """Take that much; 0 if it was there, else the seconds until it will be."""
        self._level = min(self.limit, self._level + (now - self._seen) * self.limit / 60)
        self._seen = now
        if amount > self._level:
            return (amount - self._level) * 60 / self.limit
        self._level -= amount
        return 0.0

    @property
    def remaining(self) -> int:
        """The remaining amount now."""
        return int(self._level)

    @property
    def full_in(self) -> float:
        """Seconds until nothing is missing."""
        return (self.limit - self._level) * 60 / self.limit


def headers(
    wire: WireName, requests: RateAllowance, tokens: RateAllowance, now: float
) -> list[tuple[str, str]]:
    """The provider's rate limit headers."""
    pairs = (("requests", requests), ("tokens", tokens))
    if wire == "anthropic":
        return [
            (f"anthropic-ratelimit-{name}-{field}", value)
            for name, allowance in (*pairs, ("input-tokens", tokens))
            for field, value in (
                ("limit", str(allowance.limit)),
                ("remaining", str(allowance.remaining)),
                (
                    "reset",
                    f"{datetime.fromtimestamp(now + allowance.full_in, UTC):%Y-%m-%dT%H:%M:%SZ}",
                ),
            )
        ]
    return [
        (f"x-ratelimit-{field}-{name}", value)
        for name, allowance in pairs
        for field, value in (
            ("limit", str(allowance.limit)),
            ("remaining", str(allowance.remaining)),
            ("reset", _span(allowance.full_in)),
        )
    ]


def _span(seconds: float) -> str:
    """A time as OpenAI writes it: ``20ms``, ``1.5s``, ``6m0s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:g}s"[:6].rstrip("s") + "s"
    return f"{int(seconds // 60)}m{int(seconds % 60)}s"
