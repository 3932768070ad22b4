"""A route's cache rules as values; prices are multiples of an uncached token's.

Who writes and where is in ``proxy.caches``; this is what a planner can count on.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property

import msgspec

from proxy.caches.bills import WRITE_PREFIX, readable_tokens
from slo.usage import Usage


class Regime(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A route's cache.

    Attributes:
        name: One of the catalog's regimes; "" where nothing is known.
        least: Tokens below which nothing is cached.
        read: Price of a token read, relative to a fresh one.
        writes: Price of a token written, relative to a fresh one, by lifetime ("5m", "30m", "1h",
            "12h"); empty where writes are free.
        lifetimes: Seconds a prefix lives after its last use, by lifetime; "" is the provider's own.
        marks: Most marks that a call may carry; 0 where marks mean nothing.
        lookback: Blocks searched backwards from a mark for an entry, the mark's own included; 0 for
            the mark's own only.
        block: Tokens per cache block; 1 where any length can be read.
        fresh: Tokens at the end of a prompt that are never read.
        needs_key: True if a prompt without a key is neither read nor stored.
        gone_after_s: Seconds without use after which surely nothing is left, where that is longer
            than a prefix can be counted on; 0 where the lifetimes say so.
    """

    name: str = ""
    provider: str = ""
    least: int = 0
    read: Fraction = Fraction(1)
    writes: Mapping[str, Fraction] = {}
    lifetimes: Mapping[str, float] = {}
    marks: int = 0
    lookback: int = 0
    block: int = 1
    fresh: int = 0
    needs_key: bool = False
    gone_after_s: float = 0.0

    @cached_property
    def write_prices(self) -> Mapping[str, float]:
        """Price of a token written, relative to a fresh one, by its field of a usage."""
        return {WRITE_PREFIX + ttl: float(times) for ttl, times in self.writes.items()}

    @cached_property
    def read_price(self) -> float:
        """Price of a token read, relative to a fresh one."""
        return float(self.read)

    @cached_property
    def usual_ttl(self) -> str:
        """The lifetime of a mark that names none, the shortest sold; "" where writes are free."""
        return min(self.writes, key=lambda ttl: self.lifetimes.get(ttl, 0.0), default="")

    @cached_property
    def longest_ttl(self) -> str:
        """The longest lifetime sold; "" where writes are free."""
        return max(self.writes, key=lambda ttl: self.lifetimes.get(ttl, 0.0), default="")

    @cached_property
    def longest_fee(self) -> float:
        """Extra price of a token written for the longest lifetime over the usual one."""
        return float(self.writes[self.longest_ttl] - self.writes[self.usual_ttl])

    @cached_property
    def usual_gain(self) -> float:
        """Price of a token written for the usual lifetime over that of a token read."""
        return float(self.writes[self.usual_ttl] - self.read)

    def readable_tokens(self, cached: int, total: int) -> int:
        """Tokens that a prompt of so many reads of a prefix that is held."""
        return readable_tokens(cached, total, step=self.block, least=self.least, fresh=self.fresh)

    @property
    def takes_marks(self) -> bool:
        """True if what is cached is chosen with marks."""
        return self.marks > 0


def prompt_cost(usage: Usage, regime: Regime) -> float:
    """Cost of a prompt at this cache, in tokens at the price of fresh ones.

    Args:
        regime: The cache, with its prices as multiples of a fresh token's.
    """
    written = 0.0
    for name, price in regime.write_prices.items():
        written += getattr(usage, name, 0) * price
    return usage.input + usage.cache_read * regime.read_price + written


def write_surcharge(usage: Usage, regime: Regime) -> float:
    """Surcharge of writing over sending the same tokens fresh, in tokens at their price."""
    surcharge = 0.0
    for name, price in regime.write_prices.items():
        surcharge += getattr(usage, name, 0) * (price - 1.0)
    return surcharge
