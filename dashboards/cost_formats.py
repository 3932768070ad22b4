"""Texts of files: CSV, and the headline of savings for JSON; dollars with all their digits.

CSV is that of RFC 4180 for spreadsheets; text from outside is never read as a formula.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from dashboards.cost_reports import usd_decimal
from dashboards.savings_headline import SavingsHeadline

Cell = str | int | Decimal | None
"""A text, which is guarded; a number, which is not; None for an empty cell."""

#: Beginnings of a formula, also in full width, also behind a sign that some locales split cells at.
#: Source: OWASP, CSV Injection (2025).
_FORMULA_START: Final = re.compile(
    r"(?:\A|(?<=[;\t\r\n]))(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])|\A(?=[\t\r\n])"
)
#: Control characters other than tab and line ends; terminals obey some of them.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def savings_document(savings: SavingsHeadline) -> dict[str, Any]:
    """The headline of savings for JSON; ``steps`` are changes of the cost, below 0 where saved."""
    return {
        "saved_usd": usd_text(savings.saved_nanos),
        "saved_share": savings.saved_share,
        "saved_low_usd": usd_text(savings.saved_low_nanos),
        "saved_high_usd": usd_text(savings.saved_high_nanos),
        "direct_cost_usd": usd_text(savings.direct_nanos),
        "paid_usd": usd_text(savings.paid_nanos),
        "measured_at": None
        if savings.measured_at is None
        else datetime.fromtimestamp(savings.measured_at, UTC).isoformat(timespec="seconds"),
        "steps": [
            {
                "name": step.name,
                "change_usd": usd_text(step.nanos),
                "sureness": step.sureness,
                "is_own": step.is_own,
            }
            for step in savings.steps
        ],
        "fast_path": [
            {"part": saving.part, "saved_usd": usd_text(saving.nanos)}
            for saving in savings.fast_path
        ],
        "fallbacks_cost_less_usd": usd_text(savings.fallback_nanos),
        "uncounted": [
            {
                "team": saving.team_name,
                "team_id": saving.team,
                "feature": saving.feature,
                "part": saving.part,
                "estimate_usd": usd_text(saving.nanos),
                "why": saving.why,
            }
            for saving in savings.uncounted
        ],
    }


def usd_text(nanos: int | None) -> str | None:
    """Nano-dollars as a decimal text of dollars; None where they are unknown."""
    return None if nanos is None else f"{usd_decimal(nanos):f}"


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
