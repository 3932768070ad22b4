"""The result of the engine demo: measurements, their cost, and a provider's price beside it."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Any, Final

import orjson

from proxy.catalog.catalog import Catalog
from proxy.errors import OperatorError
from proxy.records.receipt import Receipt
from proxy.store.store import Store
from proxy.tools.demo.result import exact_usd
from proxy.tools.engine_demo.measure import DIRECT, DIRECT_DRAFTED, Measurements
from proxy.tools.engine_demo.profiles import DRAFTED, NGRAM, PLAIN
from slo.price import call_cost

#: The model beside whose price the engine's is shown.
PROVIDER_MODEL: Final = "gpt-5.4-mini"

_FLUSH_S: Final = 10.0
_SECONDS_PER_HOUR: Final = 3_600
_PER_TOKENS: Final = 1_000
_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDemoResult:
    """The demo's outcome.

    Attributes:
        receipt: The ledger's receipt of the sample call.
        price_nanos: Nano-dollars for an hour of the machine.
    """

    measured: Measurements
    receipt: Receipt
    price_nanos: int
    provider_nanos: int | None
    start_seconds: float
    seconds: float

    @property
    def speedup(self) -> float:
        """Tokens per second with the draft model ÷ without; the median over the rounds."""
        return median(self._draft_ratios)

    @property
    def ngram_speedup(self) -> float:
        """The same for n-grams, where the answer repeats what stands in the conversation."""
        repeated = self.measured.repeated
        return median(repeated[NGRAM].ratios(repeated[PLAIN]))

    @property
    def _draft_ratios(self) -> list[float]:
        decode = self.measured.decode
        return decode[DRAFTED].ratios(decode[PLAIN])

    @property
    def verdict(self) -> str:
        """Says if the draft model pays on this machine: where all rounds agree, for sure."""
        least, most = min(self._draft_ratios), max(self._draft_ratios)
        if least > 1:
            return f"The draft model pays here: {self.speedup:.2f} times the tokens per second."
        if most > 1:
            return (
                f"The draft model makes no clear difference here: {least:.2f} to {most:.2f} times"
                " the tokens per second, by round. Run it on an idle machine."
            )
        return (
            f"The draft model does not pay here ({self.speedup:.2f} times): a step of a model this"
            " small costs hardly more than its draft. On a GPU a step reads billions of weights,"
            " and the same acceptance saves most of them; measure it there."
        )

    @property
    def nanos_per_1k_output(self) -> int:
        """Nano-dollars of 1,000 output tokens, one call after the other, the faster way."""
        decode = self.measured.decode
        best = max(decode[name].tokens_per_s for name in (PLAIN, DRAFTED))
        return machine_nanos(self.price_nanos, _PER_TOKENS / best)

    def json(self) -> str:
        """The result as one line; money as numbers with every digit."""
        measured, first = self.measured, self.measured.first_tokens
        decode, repeated = measured.decode, measured.repeated
        usage = self.receipt.usage
        line: dict[str, Any] = {
            "engine": "llamacpp",
            "tokens_per_s": round(decode[PLAIN].tokens_per_s, 1),
            "tokens_per_s_direct": round(decode[DIRECT].tokens_per_s, 1),
            "tokens_per_s_speculative": round(decode[DRAFTED].tokens_per_s, 1),
            "tokens_per_s_speculative_direct": round(decode[DIRECT_DRAFTED].tokens_per_s, 1),
            "speedup": round(self.speedup, 3),
            "draft_tokens": decode[DRAFTED].draft_tokens,
            "acceptance_rate": round(decode[DRAFTED].acceptance_rate, 4),
            "repeated_tokens_per_s": round(repeated[PLAIN].tokens_per_s, 1),
            "repeated_tokens_per_s_ngram": round(repeated[NGRAM].tokens_per_s, 1),
            "ngram_speedup": round(self.ngram_speedup, 3),
            "ngram_acceptance_rate": round(repeated[NGRAM].acceptance_rate, 4),
            "ttft_cold_ms": round(first.cold * _MS, 2),
            "ttft_cold_direct_ms": round(first.cold_direct * _MS, 2),
            "ttft_warm_ms": round(first.warm * _MS, 2),
            "ttft_warm_direct_ms": round(first.warm_direct * _MS, 2),
            "prompt_tokens": first.prompt_tokens,
            "cached_tokens": first.cached_tokens,
            "price_per_hour_usd": exact_usd(self.price_nanos),
            "cost_usd_per_1k": exact_usd(self.nanos_per_1k_output),
            "call": {
                "call_id": self.receipt.call_id,
                "input_tokens": usage.prompt_tokens if usage else None,
                "output_tokens": usage.generated_tokens if usage else None,
                "seconds": round(self.receipt.duration, 4),
                "prefill_seconds": self.receipt.prefill,
                "decode_seconds": self.receipt.decode,
                "draft_tokens": self.receipt.draft_tokens,
                "accepted_tokens": self.receipt.accepted_tokens,
                "engine_cost_usd": exact_usd(self.receipt.cost_nanos),
                "provider": PROVIDER_MODEL,
                "provider_cost_usd": exact_usd(self.provider_nanos),
            },
            "start_seconds": round(self.start_seconds, 3),
            "seconds": round(self.seconds, 3),
        }
        return orjson.dumps(line).decode()


def machine_nanos(price_per_hour: int, seconds: float) -> int:
    """Nano-dollars of a machine for so many seconds."""
    return round(price_per_hour * Decimal(seconds) / _SECONDS_PER_HOUR)


def ledger_receipt(store: Store, call_id: str) -> Receipt:
    """The receipt of an answered call; blocks.

    Raises:
        OperatorError: If the ledger has none.
    """
    store.drain.flush(_FLUSH_S)
    receipts: Iterable[Receipt] = store.ledger.attempts(call_id)
    for receipt in receipts:
        if receipt.final and receipt.usage is not None:
            return receipt
    raise OperatorError(f"The ledger has no receipt with usage of call {call_id}.")


def provider_nanos(catalog: Catalog, receipt: Receipt) -> int | None:
    """The price of a receipt's tokens at the provider, in nano-dollars; None where unknown."""
    tariff = catalog.models[PROVIDER_MODEL].routes[0].tariff
    if tariff is None or receipt.usage is None:
        return None
    cost = call_cost(receipt.usage, tariff, receipt.started)
    return None if cost is None else cost.effective_nanos
