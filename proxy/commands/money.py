"""Money as a person reads it; documents have every digit."""

from decimal import Decimal
from typing import Final

#: Digits behind the point at least, and digits that tell something.
_PLACES: Final = 4
_TELLING: Final = 3


def money(nanos: int) -> str:
    """Nano-dollars as a person reads them, as ``-$0.0136``: rounded, no zeros at the end."""
    amount = Decimal(abs(nanos)).scaleb(-9)
    places = max(_PLACES, _TELLING - 1 - amount.adjusted()) if amount else 0
    text = f"{amount:.{places}f}"
    shown = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{'-' if nanos < 0 else ''}${shown}"
