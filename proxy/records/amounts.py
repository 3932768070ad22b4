"""Formats money and counts for people; documents have every digit."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

#: Digits behind the point at least, and digits that tell something.
_MIN_DECIMAL_PLACES: Final = 4
_SIGNIFICANT_DIGITS: Final = 3
#: Nano-dollars have no more digits behind the point.
_MAX_DECIMAL_PLACES: Final = 9


def money(nanos: int) -> str:
    """Nano-dollars as a person reads them, as ``-$0.0136``: rounded, no zeros at the end."""
    amount = Decimal(abs(nanos)).scaleb(-9)
    places = max(_MIN_DECIMAL_PLACES, _SIGNIFICANT_DIGITS - 1 - amount.adjusted()) if amount else 0
    text = f"{amount:.{places}f}"
    shown = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{'-' if nanos < 0 else ''}${shown}"


def column(amounts: Iterable[int | None]) -> list[str]:
    """Nano-dollars as the cells of one column, all with the same digits behind the point.

    There are four, or as many as the smallest amount needs to show two digits that are not 0. An
    amount that nobody knows is ``unknown``.
    """
    cells = list(amounts)
    places = decimal_places(cells)
    return [cell(nanos, places) for nanos in cells]


def decimal_places(amounts: Iterable[int | None]) -> int:
    """Number of digits behind the point let every one of these amounts tell something."""
    least = min((abs(nanos) for nanos in amounts if nanos), default=0)
    if not least:
        return _MIN_DECIMAL_PLACES
    return min(
        max(_MIN_DECIMAL_PLACES, 1 - Decimal(least).scaleb(-9).adjusted()), _MAX_DECIMAL_PLACES
    )


def cell(nanos: int | None, places: int) -> str:
    """Nano-dollars with so many digits behind the point, as ``-$1,234.5000``; or ``unknown``."""
    if nanos is None:
        return "unknown"
    return f"{'-' if nanos < 0 else ''}${Decimal(abs(nanos)).scaleb(-9):,.{places}f}"


def quantity(count: int, noun: str) -> str:
    """So many of something, as ``1 budget`` or ``2,000 budgets``.

    Args:
        noun: The word for one of them, whose plural ends in s.
    """
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"
