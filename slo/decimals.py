"""Decimals as people write them: with signs, with commas for thousands or for the point."""

import re
from typing import Final

#: Characters around a number: a sign of a currency, its name, a plus, blanks.
_AROUND: Final = re.compile(r"[$€£+_\s]|(?i:usd|eur)")
#: Commas between thousands; a number that begins with 0 has none.
_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")


def normalize_decimal(said: object) -> str:
    """The same with a point alone; a single comma that parts no thousands stands for one."""
    text = _AROUND.sub("", str(said)[:40])
    if _THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    return text.replace(",", ".") if text.count(",") == 1 and "." not in text else text
