"""The load's figures as a table."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

TTFT, TOKENS, COST = "TTFT", "TOKENS", "COST"
_CALL: Final = "POST"
_HEAD: Final = (
    "mix", "calls", "failed", "ttft p50", "p95", "p99", "took p50", "p95", "p99",
    "tokens", "cost $", "ledger $",
)  # fmt: skip


class ReportRow(NamedTuple):
    """The figures of one kind in one mix.

    Attributes:
        kind: POST for calls, else the kind of figure.
        total: The sum of all figures: milliseconds, tokens or millionths of a dollar.
        p50: The median, as the next two in the same unit.
    """

    kind: str
    mix: str
    calls: int
    failures: int
    total: float
    p50: float
    p95: float
    p99: float


def table(rows: Sequence[ReportRow], ledger: Mapping[str, float]) -> str:
    """The table that is printed: times in milliseconds, tokens and dollars summed up.

    Args:
        rows: What callers saw.
        ledger: Dollars by mix in the gateway's ledger, with what callers left before they heard it.
    """
    by_mix = {(row.kind, row.mix): row for row in rows}
    mixes = sorted({row.mix for row in rows if row.kind == _CALL})
    lines = [_HEAD, *((*_line(mix, by_mix), _dollars(ledger.get(mix, 0))) for mix in mixes)]
    calls = [by_mix[_CALL, mix] for mix in mixes]
    tokens = sum(row.total for row in rows if row.kind == TOKENS)
    cost = sum(row.total for row in rows if row.kind == COST) / 1e6
    count, failed = sum(row.calls for row in calls), sum(row.failures for row in calls)
    none = ("",) * 6
    sums = (f"{tokens:,.0f}", _dollars(cost), _dollars(sum(ledger.values())))
    lines.append(("all", str(count), str(failed), *none, *sums))
    widths = [max(len(line[index]) for line in lines) for index in range(len(_HEAD))]
    return "\n".join(_align(line, widths) for line in lines)


def failures(rows: Sequence[ReportRow]) -> int:
    """Calls that were not answered as they should be."""
    return sum(row.failures for row in rows if row.kind == _CALL)


def _line(mix: str, row: dict[tuple[str, str], ReportRow]) -> tuple[str, ...]:
    call, ttft = row[_CALL, mix], row.get((TTFT, mix))
    tokens, cost = row.get((TOKENS, mix)), row.get((COST, mix))
    begun = (ttft.p50, ttft.p95, ttft.p99) if ttft else ()
    return (
        mix,
        str(call.calls),
        str(call.failures),
        *([f"{figure:.0f}" for figure in begun] or ["-"] * 3),
        *(f"{figure:.0f}" for figure in (call.p50, call.p95, call.p99)),
        f"{tokens.total:,.0f}" if tokens else "-",
        _dollars(cost.total / 1e6) if cost else "-",
    )


def _dollars(amount: float) -> str:
    return f"{amount:.4f}"


def _align(line: tuple[str, ...], widths: list[int]) -> str:
    first, *rest = (
        cell.ljust(width) if index == 0 else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join((first, *rest))
