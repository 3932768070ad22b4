"""CSV by RFC 4180 for spreadsheets; text from outside is never read as a formula."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

Cell = str | int | Decimal | None
"""A text, which is guarded; a number, which is not; None for an empty cell."""

#: Beginnings of a formula, also in full width, also behind a sign that some locales split cells at.
#: Source: OWASP, CSV Injection (2025).
_FORMULA_START: Final = re.compile(
    r"(?:\A|(?<=[;\t\r\n]))(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])|\A(?=[\t\r\n])"
)
#: Control characters other than tab and line ends; terminals obey some of them.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Rows below a header; lines end in CR LF, and cells are quoted where they need it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([_cell_text(cell) for cell in row] for row in rows)
    return out.getvalue()


def inert_text(text: str) -> str:
    """A text that no spreadsheet runs: ``'`` stands before what would begin a formula."""
    return _FORMULA_START.sub("'", _CONTROLS.sub("\ufffd", text))


def _cell_text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return inert_text(cell)
    return f"{cell:f}" if isinstance(cell, Decimal) else str(cell)
