"""Dollars of a prompt, by the rules of the reference price list alone.

Source: ``prices.json`` (2026-11-21), ``providers.md`` §0 (billing identity), §11.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.accounting.accounts import PromptBill

FILE: Final = Path(__file__).resolve().parents[2] / "../shared/reference/prices.json"
Row = Mapping[str, Any]
#: xAI's second price begins with the 200,000th token, all others' behind it (§0).
_FROM_EXACTLY: Final = "xai"


@cache
def price_rows() -> Mapping[str, Row]:
    """Rows of the price list by model; {} where it is not there."""
    if not FILE.exists():
        return {}
    rows = json.loads(FILE.read_text(), parse_float=Fraction)["models"]
    return {row["id"]: row for row in rows}


def prompt_dollars(bill: PromptBill, row: Row, now: float) -> Fraction:
    """The price of a prompt's tokens at standard terms.

    Args:
        bill: Its tokens; each is in one bucket alone (§0).
        row: Its model's row, in dollars a million tokens.
        now: Time of the call, in seconds since the epoch.
    """
    prices = _prices(row, bill.tokens, datetime.fromtimestamp(now, UTC))
    paid = bill.uncached * Fraction(prices["input"])
    if bill.read:
        # Without a price for cached tokens, they are no cheaper (§1.3: none for ``-pro``).
        paid += bill.read * Fraction(prices.get("cached_input") or prices["input"])
    paid += sum(size * Fraction(prices["cache_write"][ttl]) for ttl, size in bill.written.items())
    return paid / 1_000_000


def _prices(row: Row, tokens: int, when: datetime) -> Row:
    """The row's prices for a prompt of so many tokens at that time: of the whole call (§0)."""
    prices = dict(row)
    for change in row.get("price_changes") or ():
        is_past = when.date().isoformat() >= change["effective"]
        if "field" in change:
            prices[change["field"]] = change["after" if is_past else "before"]
        elif is_past:
            prices |= {name: change[name] for name in ("input", "cached_input") if name in change}
    off_peak = row.get("off_peak")
    if off_peak is not None and _is_off_peak(off_peak, when):
        prices |= off_peak
    is_early = row.get("provider") == _FROM_EXACTLY
    for tier in row.get("tiers") or ():
        if tokens + is_early > tier["above_prompt_tokens"]:
            prices |= tier
    return prices


def _is_off_peak(off_peak: Row, when: datetime) -> bool:
    time = f"{when:%H:%M}"
    for window in off_peak["windows_utc"]:
        hours = window["hours_utc"]
        for span in [hours] if isinstance(hours, str) else hours:
            start, end = span.split("-")
            is_within = start <= time and (end == "00:00" or time < end)
            if is_within and when.isoweekday() in window["weekdays"]:
                return True
    return False
