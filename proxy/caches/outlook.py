"""A route's cache rules for planning, with prices as multiples of an uncached token's."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import inf, isinf
from typing import Final

import msgspec

from proxy.caches import (
    anthropic_breakpoint,
    block_chain,
    longest_prefix,
    openai_breakpoint,
    openai_interval,
    prefix_unit,
    slots,
)
from proxy.caches.bills import ALWAYS_FRESH, WRITE_PREFIX
from proxy.caches.regime import Regime
from slo.price import TokenRates

#: Relative prices of reads and writes where they are unknown: the usual ones, so that plans are no
#: bolder.
_READ: Final = Fraction(1, 10)
_WRITES: Final = {
    "5m": Fraction(5, 4),
    "30m": Fraction(5, 4),
    "1h": Fraction(2),
    "12h": Fraction(5, 2),
}
#: Seconds planned with where a cache forgets for want of room alone.
_UNBOUNDED_LIFETIME_S: Final = 3_600.0
#: A regime without its name and prices, and the lifetimes whose writes are paid.
_Rules = tuple[Regime, tuple[str, ...]]


@lru_cache(1024)
def planning_regime(
    name: str,
    *,
    provider: str = "",
    least: int | None = None,
    rates: TokenRates | None = None,
    retention: str = "",
) -> Regime:
    """The regime as planning sees it; one that caches nothing where the name is unknown.

    Args:
        name: The catalog's name of the regime; "" for unknown.
        provider: Whose cache it is, where providers of one regime differ.
        least: The model's least tokens; None for the regime's.
        rates: The prices valid now; None where they are unknown.
        retention: The ``prompt_cache_retention`` that calls have by default; "" for unknown.
    """
    if name not in _RULES:
        return Regime(provider=provider)
    rules, paid = _RULES[name](provider)
    rates = rates or TokenRates()
    writes = {
        ttl: _share(getattr(rates, WRITE_PREFIX + ttl), rates.input, _WRITES[ttl])
        for ttl in paid
        if rates.input is None or getattr(rates, WRITE_PREFIX + ttl) is not None
    }
    regime = msgspec.structs.replace(
        rules,
        name=name,
        provider=provider,
        least=rules.least if least is None else least,
        read=_share(rates.cache_read, rates.input, _READ),
        writes=writes,
    )
    return regime_at_retention(regime, retention)


def regime_at_retention(regime: Regime, retention: str) -> Regime:
    """The regime of a call with that ``prompt_cache_retention``; the same where it means nothing.

    Reads are counted on for as long as entries typically live at least. Writes are free, so one
    that was evicted before is lost to the unmodified call alike. That nothing is left is certain
    after the longest life alone.
    """
    rules = openai_interval.RETENTIONS.get(retention)
    if rules is None or regime.name != "openai-interval":
        return regime
    return msgspec.structs.replace(
        regime, lifetimes={"": rules.idle_least}, gone_after_s=rules.oldest
    )


def _share(rate: int | None, of: int | None, usual: Fraction) -> Fraction:
    return usual if rate is None or not of else Fraction(rate, of)


def _anthropic(provider: str) -> _Rules:
    rules = anthropic_breakpoint.provider_rules(provider)
    lifetimes = {str(ttl): life for ttl, life in rules.lifetimes.items()}
    regime = Regime(
        least=rules.least, lifetimes=lifetimes, marks=rules.marks, lookback=rules.lookback
    )
    return regime, tuple(lifetimes)


def _openai_breakpoint(provider: str) -> _Rules:
    rules = openai_breakpoint.provider_rules(provider)
    lifetimes = {str(ttl): life for ttl, life in rules.lifetimes.items()}
    regime = Regime(least=rules.least, lifetimes=lifetimes, marks=rules.marks_written)
    return regime, tuple(lifetimes)


def _openai_interval(provider: str) -> _Rules:
    rules = openai_interval.provider_rules(provider)
    regime = Regime(
        least=rules.least,
        lifetimes={"": rules.idle_least},
        block=rules.interval,
        gone_after_s=openai_interval.EXTENDED.oldest,
    )
    return regime, ()


def _implicit(provider: str) -> _Rules:
    if provider == slots.PROVIDER:
        least, lifetime, block = slots.LLAMA_CPP.least, inf, 1
    else:
        rules = longest_prefix.provider_rules(provider)
        least, lifetime, block = rules.least, rules.lifetime, rules.page
    lifetimes = _planned_lifetime(lifetime)
    return Regime(least=least, lifetimes=lifetimes, block=block, fresh=ALWAYS_FRESH), ()


def _block_chain(provider: str) -> _Rules:
    rules = block_chain.provider_rules(provider)
    regime = Regime(
        least=rules.least,
        lifetimes=_planned_lifetime(rules.lifetime),
        block=rules.block,
        fresh=ALWAYS_FRESH,
        needs_key=rules.needs_key,
    )
    return regime, ()


def _prefix_unit(_provider: str) -> _Rules:
    rules = prefix_unit.DEEPSEEK
    return Regime(least=rules.least, lifetimes={"": rules.lifetime}, block=rules.step), ()


def _planned_lifetime(seconds: float) -> dict[str, float]:
    """The lifetime of a cache without a choice, or what is planned with where there is none."""
    return {"": _UNBOUNDED_LIFETIME_S if isinf(seconds) else seconds}


_RULES: Mapping[str, Callable[[str], _Rules]] = {
    "anthropic-breakpoint": _anthropic,
    "openai-breakpoint": _openai_breakpoint,
    "openai-interval": _openai_interval,
    "implicit": _implicit,
    "block-chain": _block_chain,
    "prefix-unit": _prefix_unit,
}
