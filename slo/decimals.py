"""Reads and writes decimals and dollar amounts exactly, as people write them."""

import re
from fractions import Fraction
from typing import Final

NANOS_PER_DOLLAR: Final = 1_000_000_000
#: Dollars as a file states them: never rounded, at most 9 decimals.
DOLLARS_PATTERN: Final = re.compile(r"\d{1,9}(\.\d{1,9})?")

#: Characters around a number: a sign of a currency, its name, a plus, blanks.
_AROUND: Final = re.compile(r"[$€£+_\s]|(?i:usd|eur)")
#: Commas between thousands; a number that begins with 0 has none.
_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")


def normalize_decimal(number: object) -> str:
    """The same with a point alone, without signs of currencies.

    A single comma that parts no thousands stands for a point.
    """
    text = _AROUND.sub("", str(number)[:40])
    if _THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    return text.replace(",", ".") if text.count(",") == 1 and "." not in text else text


def nanos_of_dollars(value: object) -> int | None:
    """Nano-dollars of a decimal string or a whole number; None of anything else."""
    units = whole_number(value)
    if units is not None:
        return units * NANOS_PER_DOLLAR
    if not isinstance(value, str) or not DOLLARS_PATTERN.fullmatch(value):
        return None
    return int(Fraction(value) * NANOS_PER_DOLLAR)


def whole_number(value: object) -> int | None:
    """A whole number; None of anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
