"""An engine's measured price per token: the cost of recent calls, by prompt and output tokens.

A call's share of its replica's cost is split by the seconds of prefill and decode. The prefill part
is divided among the prompt tokens not read from the cache, the decode part among the generated
tokens; tokens read from the cache cost nothing. Sums are halved every ten minutes, so that the
price follows the load: a busy replica is cheaper per token than an idle one.
"""

from typing import Final

from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.usage import Usage

_HALF_LIFE_S: Final = 600.0
#: Calls to measure before there is a price.
MIN_MEASURED_CALLS: Final = 5
_MILLION: Final = 1_000_000
#: Most halvings at once; after so many the sums are 0.
_MAX_HALVINGS: Final = 64
_NS_PER_S: Final = 1_000_000_000


class MeasuredRates:
    """Moving averages of cost per token; integers, as all money."""

    def __init__(self, now: float) -> None:
        self._halved_at = now
        self._calls = 0
        self._prefill_nanos = self._prompt_tokens = 0
        self._decode_nanos = self._output_tokens = 0
        self._tariff: Tariff | None = None

    def learn(
        self, nanos: int, usage: Usage, prefill_s: float, decode_s: float, now: float
    ) -> None:
        """Add the cost and tokens of a call that ended now."""
        self._halve(now)
        prefill_ns, decode_ns = round(prefill_s * _NS_PER_S), round(decode_s * _NS_PER_S)
        worked = prefill_ns + decode_ns
        prefill = nanos * prefill_ns // worked if worked else 0
        self._calls += 1
        self._prefill_nanos += prefill
        self._prompt_tokens += usage.prompt_tokens - usage.cache_read
        self._decode_nanos += nanos - prefill
        self._output_tokens += usage.generated_tokens
        self._tariff = None

    def tariff(self) -> Tariff | None:
        """The prices as a tariff; None while too little was measured."""
        if self._tariff is None and (rates := self.rates()) is not None:
            sheets = {"": PriceSheet(rates=rates)}
            self._tariff = Tariff(periods=(PricePeriod(sheets=sheets),))
        return self._tariff

    def rates(self) -> TokenRates | None:
        """Nano-dollars per million tokens, rounded up; None while too little was measured."""
        if self._calls < MIN_MEASURED_CALLS or not (self._prompt_tokens and self._output_tokens):
            return None
        prompt = _per_million(self._prefill_nanos, self._prompt_tokens)
        output = _per_million(self._decode_nanos, self._output_tokens)
        return TokenRates(
            input=prompt,
            cache_read=0,
            write_5m=prompt,
            write_30m=prompt,
            write_1h=prompt,
            write_12h=prompt,
            output=output,
        )

    def _halve(self, now: float) -> None:
        """Halve the sums once for each half-life since they were halved last."""
        times = min(int((now - self._halved_at) // _HALF_LIFE_S), _MAX_HALVINGS)
        if times <= 0:
            return
        self._halved_at += times * _HALF_LIFE_S if times < _MAX_HALVINGS else now - self._halved_at
        # The number of calls is not halved: it only says that enough calls were measured once.
        self._prefill_nanos >>= times
        self._prompt_tokens >>= times
        self._decode_nanos >>= times
        self._output_tokens >>= times


def _per_million(nanos: int, tokens: int) -> int:
    return -(-nanos * _MILLION // tokens)
