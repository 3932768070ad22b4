"""The compaction that a call asks for, and the policy for it on a route; pure."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import msgspec

from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from proxy.caches.regime import Regime
from proxy.catalog.entries import Route
from proxy.prefix.planned import PlanningTarget
from proxy.providers.native_compaction import request_native_compaction
from proxy.records.call import Call
from proxy.records.compaction_result import CompactionResult, passthrough_result
from proxy.records.compaction_settings import FeatureSettings

_DEFAULT_OUTPUT_PRICE: Final = Fraction(4)
#: Relative prices of reading and writing a cache at most providers.
_DEFAULT_READ_PRICE: Final = Fraction(1, 10)
_DEFAULT_WRITE_PRICES: Final = (Fraction(5, 4),)
#: Keeps whole prompts, and what two of them began with alike; no marks. So a beginning is read by
#: itself only once another conversation shared it.
_WHOLE: Final = "prefix-unit"


#: Values that callers may send.
_OFF: Final = "off"
_DRY: Final = "dry-run"
_FORCE: Final = "force"
_MAX_QUOTED_CHARS: Final = 40


class CompactionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The compaction requested for a call.

    Attributes:
        is_dry: True if it is computed, and the call sent unmodified.
        force: True to compact at once, even where that does not pay.
    """

    mode: CompactionMode = CompactionMode.OFF
    is_dry: bool = False
    force: bool = False
    notes: tuple[str, ...] = ()


_NOTHING: Final = CompactionRequest()


def parse_compaction_request(
    header: str, setting: FeatureSettings, default: CompactionMode
) -> CompactionRequest:
    """The compaction requested for a call.

    A caller may try a feature for which no mode is set; what a person chose, or the live
    quality check stepped back to, it may only go below.

    Args:
        header: Value of ``x-thriftgate-compaction``; "" for nothing.
    """
    mode, directive = setting.effective_mode(default), header.strip().lower()
    if not directive:
        return CompactionRequest(mode=mode) if mode is not CompactionMode.OFF else _NOTHING
    if directive == _OFF:
        return _NOTHING
    if directive not in {_DRY, _FORCE}:
        wrong = directive[:_MAX_QUOTED_CHARS]
        fault = f"x-thriftgate-compaction is off, dry-run or force, not {wrong!r}"
        return CompactionRequest(notes=(f"{fault}: the conversation was sent unmodified",))
    if mode is CompactionMode.OFF and (directive == _DRY or setting.mode is None):
        mode = CompactionMode.FACTS
    return CompactionRequest(mode=mode, is_dry=directive == _DRY, force=directive == _FORCE)


def compaction_policy(
    request: CompactionRequest,
    setting: FeatureSettings,
    target: PlanningTarget,
    window: int | None,
    safety: float = 0.0,
) -> CompactionPolicy:
    """The policy; calls of one conversation have equal ones as long as prices and settings hold.

    Args:
        window: Most tokens that the model takes; None for not known.
        safety: Least number of times a compaction has to pay its cost back; 0 for the usual.
    """
    usual = CompactionPolicy()
    return CompactionPolicy(
        mode=request.mode,
        prices=relative_prices(target),
        keep_turns=usual.keep_turns if setting.keep_turns is None else setting.keep_turns,
        target=setting.target or 0,
        window=window or 0,
        force=request.force,
        safety=safety,
    )


def relative_prices(target: PlanningTarget) -> RelativePrices:
    """The catalog's prices on a route, relative to one uncached input token.

    Of several lifetimes a token may be written for, the cheapest is taken. Where nobody knows how
    the cache behaves, it is there if reading it has a price; where nothing is known, it is taken
    to be the usual one, so that compacting is no bolder.
    """
    regime, rates = target.regime, target.rates
    if rates is None or not rates.input:
        read = regime.read if regime.name else _DEFAULT_READ_PRICE
        write_prices = regime.writes.values() if regime.name else _DEFAULT_WRITE_PRICES
        return _build_prices(read, write_prices, _DEFAULT_OUTPUT_PRICE, regime)
    output = _DEFAULT_OUTPUT_PRICE if rates.output is None else Fraction(rates.output, rates.input)
    if regime.name:
        return _build_prices(regime.read, regime.writes.values(), output, regime)
    write_rates = (rates.write_5m, rates.write_30m, rates.write_1h, rates.write_12h)
    writes = [Fraction(rate, rates.input) for rate in write_rates if rate is not None]
    read = Fraction(1) if rates.cache_read is None else Fraction(rates.cache_read, rates.input)
    return _build_prices(read, writes, output, regime)


def _build_prices(
    read: Fraction, writes: Iterable[Fraction], output: Fraction, regime: Regime
) -> RelativePrices:
    return RelativePrices(
        read=float(read),
        write=float(min(writes, default=Fraction(1))),
        output=float(output),
        least=regime.least,
        block=0 if regime.name == _WHOLE else regime.block,
    )


#: Tokens of prompt from which on a provider compacts, unless the feature names a target.
#: Source: Anthropic, context editing: its own default (2026-09).
_TRIGGER_TOKENS: Final = 100_000
#: Tool results that stay, unless the feature says so. Source: the same.
_KEPT_TOOL_USES: Final = 3
_MODE: Final = "native"


def native_compaction_result(
    call: Call, route: Route, setting: FeatureSettings, *, is_dry: bool
) -> CompactionResult:
    """The call with its provider's own compaction requested, or the reason why it is unmodified.

    Args:
        setting: Settings of its feature: its target is where compaction begins.
        is_dry: True if it is sent unmodified.
    """
    request = request_native_compaction(
        call.endpoint,
        call.body,
        route,
        trigger=setting.target or _TRIGGER_TOKENS,
        keep=_KEPT_TOOL_USES if setting.keep_turns is None else setting.keep_turns,
    )
    if isinstance(request, str):
        return msgspec.structs.replace(passthrough_result(_MODE, "native"), notes=(request,))
    if is_dry:
        return passthrough_result(_MODE, "dry_run")
    sent_call = msgspec.structs.replace(call, body=request.body)
    return CompactionResult(mode=_MODE, why="asked", sent=sent_call, notes=(request.note,))
