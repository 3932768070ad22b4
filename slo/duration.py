"""Durations as people write them: ``500ms``, ``2s``, ``1m``, ``6h``, ``3d``."""

import re
from decimal import Decimal
from typing import Final

#: From the longest down; one that is whole in none is told in seconds.
_UNITS: Final = {
    "d": Decimal(86_400),
    "h": Decimal(3_600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
}
_WRITTEN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)


def parse_duration(text: str) -> float | None:
    """The seconds of a duration such as ``30m``; None if the text is none.

    It is a number of up to nine digits, and as many decimals, and one unit.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    return float(Decimal(match[1]) * _UNITS[match[2]])


def format_duration(duration: float) -> str:
    """The shortest text of which ``seconds`` makes this, to the nanosecond; ``0s`` of nothing.

    Args:
        duration: Seconds, 0 or more and below a thousand million.
    """
    exact = Decimal(repr(round(duration, 9)))
    for unit, length in _UNITS.items():
        if exact and not exact % length:
            return f"{exact / length:f}".removesuffix(".0") + unit
    return f"{exact.normalize():f}s"
