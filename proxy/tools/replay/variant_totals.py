"""The totals of one variant's calls."""

from collections import Counter
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from proxy.prefix.explain.reasons import MissReason
from slo.usage import Usage

_MOST: Final = 5
_NANOS: Final = 1_000_000_000
_Why = tuple[MissReason, str]


class MissedTokens(msgspec.Struct, frozen=True):
    """Tokens of a prompt that were not read, and why.

    Attributes:
        reason: Reason for the miss.
        tokens: Number of tokens.
        detail: Position, or part of it; "" where there is no more to say.
    """

    reason: MissReason
    tokens: int
    detail: str = ""


class MissesByReason(msgspec.Struct, frozen=True):
    """The tokens one reason kept from being read.

    Attributes:
        reason: Reason for the miss.
        detail: Position, or part of it.
        tokens: Number of tokens.
        calls: In how many calls.
    """

    reason: MissReason
    detail: str
    tokens: int
    calls: int


class VariantRow(msgspec.Struct, frozen=True, kw_only=True):
    """One variant's figures.

    Attributes:
        name: Name of the variant.
        hit_rate: Cache-read tokens ÷ input tokens.
        input_tokens: Prompt tokens, however they were served.
        cache_read_tokens: Of these, read from the cache.
        cache_write_tokens: Of these, stored at a price.
        fresh_tokens: The others.
        output_tokens: Generated tokens; the same for every variant.
        cost_usd_per_1k: Cost of 1,000 calls; None where a price is unknown.
        refused: Calls the provider would have refused for their marks; they count as uncached.
        closed: The share of the way from as sent to the ceiling, in hit rate; None where there is
            no way to go, or another prompt is sent.
        misses: The reasons that cost most tokens.
    """

    name: str
    hit_rate: float
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    fresh_tokens: int
    output_tokens: int
    cost_usd_per_1k: float | None
    refused: int = 0
    closed: float | None = None
    misses: tuple[MissesByReason, ...] = ()


class VariantTotals:
    """Adds up calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.refused = 0
        self._prompt = self._read = self._written = self._output = 0
        self._nanos: int | None = 0
        self._tokens: Counter[_Why] = Counter()
        self._calls: Counter[_Why] = Counter()

    def add(self, usage: Usage, nanos: int | None) -> None:
        """Add a call that cost so much; None for a price that is not known."""
        self.calls += 1
        self._prompt += usage.prompt_tokens
        self._read += usage.cache_read
        self._written += usage.cache_write_tokens
        self._output += usage.generated_tokens
        self.charge(nanos)

    def charge(self, nanos: int | None) -> None:
        """Add to the cost."""
        self._nanos = None if nanos is None or self._nanos is None else self._nanos + nanos

    def write(self, tokens: int) -> None:
        """Count tokens of earlier calls as written, not fresh."""
        self._written += tokens

    def miss(self, missed: MissedTokens) -> None:
        """Count tokens that were not read."""
        why = (missed.reason, missed.detail)
        self._tokens[why] += missed.tokens
        self._calls[why] += 1

    def row(self, name: str) -> VariantRow:
        """The figures."""
        top = self._tokens.most_common(_MOST)
        return VariantRow(
            name=name,
            hit_rate=self._read / self._prompt if self._prompt else 0.0,
            input_tokens=self._prompt,
            cache_read_tokens=self._read,
            cache_write_tokens=self._written,
            fresh_tokens=self._prompt - self._read - self._written,
            output_tokens=self._output,
            cost_usd_per_1k=_per_1k(self._nanos, self.calls),
            refused=self.refused,
            misses=tuple(MissesByReason(*why, tokens, self._calls[why]) for why, tokens in top),
        )


def _per_1k(nanos: int | None, calls: int) -> float | None:
    """Dollars, rounded to a millionth, to be shown."""
    if nanos is None or not calls:
        return None
    return float(round(Decimal(nanos) * 1000 / calls / _NANOS, 6))


def with_closed_share(
    rows: Sequence[VariantRow], other: Collection[str] = ()
) -> tuple[VariantRow, ...]:
    """The rows, each with how far it got from the first to the last.

    Args:
        rows: As sent, variants, and at best.
        other: The names of those that send other prompts, which none of this says anything of.
    """
    least, most = rows[0].cache_read_tokens, rows[-1].cache_read_tokens
    return tuple(
        row
        if row.name in other
        else msgspec.structs.replace(row, closed=_closed_share(row, least, most))
        for row in rows
    )


def _closed_share(row: VariantRow, least: int, most: int) -> float | None:
    """The share of the way from one to the other; None where there is none."""
    return (row.cache_read_tokens - least) / (most - least) if most > least else None
