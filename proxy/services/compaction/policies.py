"""By which policy a call is folded on a route; pure."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from compaction.policy import CompactionPolicy, RelativePrices
from proxy.caches.regime import Regime
from proxy.prefix.planned import PlanningTarget
from proxy.records.compaction_settings import FeatureSettings
from proxy.services.compaction.requested import Wish

_OUTPUT: Final = Fraction(4)
#: What reading and writing a cache costs with most who sell it.
_READ: Final = Fraction(1, 10)
_WRITES: Final = (Fraction(5, 4),)
#: Keeps whole prompts, and what two of them began with alike; no marks. So a beginning is read by
#: itself only once another conversation shared it.
_WHOLE: Final = "prefix-unit"


def policy(
    wish: Wish, setting: FeatureSettings, way: PlanningTarget, window: int | None, safety: float = 0.0
) -> CompactionPolicy:
    """The policy; calls of one conversation have equal ones as long as prices and settings hold.

    Args:
        wish: What is to be done.
        setting: What holds for the feature.
        way: Where the call goes.
        window: Most tokens that the model takes; None for not known.
        safety: How often over a fold has to be paid back; 0 for the usual.
    """
    usual = CompactionPolicy()
    return CompactionPolicy(
        mode=wish.mode,
        prices=prices(way),
        keep_turns=usual.keep_turns if setting.keep_turns is None else setting.keep_turns,
        target=setting.target or 0,
        window=window or 0,
        force=wish.force,
        safety=safety,
    )


def prices(way: PlanningTarget) -> RelativePrices:
    """What tokens cost there, relative to one that no cache knows: the catalog's own prices.

    Of several lifetimes a token may be written for, the cheapest is taken. Where nobody knows how
    the cache behaves, it is there if reading it has a price; where nothing is known, it is taken
    to be the usual one, so that folding is no bolder.
    """
    regime, rates = way.regime, way.rates
    if rates is None or not rates.input:
        read = regime.read if regime.name else _READ
        known = regime.writes.values() if regime.name else _WRITES
        return _prices(read, known, _OUTPUT, regime)
    output = _OUTPUT if rates.output is None else Fraction(rates.output, rates.input)
    if regime.name:
        return _prices(regime.read, regime.writes.values(), output, regime)
    each = (rates.write_5m, rates.write_30m, rates.write_1h, rates.write_12h)
    writes = [Fraction(rate, rates.input) for rate in each if rate is not None]
    read = Fraction(1) if rates.cache_read is None else Fraction(rates.cache_read, rates.input)
    return _prices(read, writes, output, regime)


def _prices(
    read: Fraction, writes: Iterable[Fraction], output: Fraction, regime: Regime
) -> RelativePrices:
    return RelativePrices(
        read=float(read),
        write=float(min(writes, default=Fraction(1))),
        output=float(output),
        least=regime.least,
        block=0 if regime.name == _WHOLE else regime.block,
    )
