"""A cost report as CSV and as a document: the same figures, dollars with all their digits.

CSV is that of RFC 4180 for spreadsheets; text from outside is never read as a formula.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from dashboards.cost_reports import CostReport, CostRow, CostSums, Dimension, usd_decimal
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
_FIGURES: Final[Mapping[str, Callable[[CostSums], int | Decimal | None]]] = {
    "calls": lambda sums: sums.calls,
    "attempts": lambda sums: sums.attempts,
    "errors": lambda sums: sums.errors,
    "input_tokens": lambda sums: sums.usage.prompt_tokens,
    "cache_read_tokens": lambda sums: sums.usage.cache_read,
    "cache_write_tokens": lambda sums: sums.usage.cache_write_tokens,
    "output_tokens": lambda sums: sums.usage.generated_tokens,
    "list_cost_usd": lambda sums: usd_decimal(sums.list_nanos),
    "cost_usd": lambda sums: usd_decimal(sums.cost_nanos),
    "unpriced_attempts": lambda sums: sums.unpriced,
    "estimated_attempts": lambda sums: sums.estimated,
}


def cost_csv(report: CostReport, teams: Mapping[str, str]) -> str:
    """The rows as CSV, teams by their names; an unknown cost is empty, its attempts are counted."""
    rows = (
        [*shown_values(report.by, row, teams), *(figure(row.sums) for figure in _FIGURES.values())]
        for row in report.rows
    )
    return csv_text((*report.by, *_FIGURES), rows)


def cost_document(report: CostReport, teams: Mapping[str, str]) -> dict[str, Any]:
    """The rows and their total for JSON; money as decimal texts, null where it is unknown."""
    return {
        "from": report.period.first.isoformat(),
        "to": (report.period.end - timedelta(days=1)).isoformat(),
        "zone": report.period.zone,
        "by": list(report.by),
        "rows": [
            dict(zip(report.by, shown_values(report.by, row, teams), strict=True))
            | ({"team_id": row.values[report.by.index("team")]} if "team" in report.by else {})
            | _document_figures(row.sums)
            for row in report.rows
        ],
        "total": _document_figures(report.total),
        "savings": None if report.savings is None else savings_document(report.savings),
    }


def savings_document(savings: SavingsHeadline) -> dict[str, Any]:
    """The headline of savings for JSON; ``steps`` are changes of the cost, below 0 where saved."""
    return {
        "saved_usd": _usd_text(savings.saved_nanos),
        "saved_share": savings.saved_share,
        "saved_low_usd": _usd_text(savings.saved_low_nanos),
        "saved_high_usd": _usd_text(savings.saved_high_nanos),
        "direct_cost_usd": _usd_text(savings.direct_nanos),
        "paid_usd": _usd_text(savings.paid_nanos),
        "measured_at": None
        if savings.measured_at is None
        else datetime.fromtimestamp(savings.measured_at, UTC).isoformat(timespec="seconds"),
        "steps": [
            {
                "name": step.name,
                "change_usd": _usd_text(step.nanos),
                "sureness": step.sureness,
                "is_own": step.is_own,
            }
            for step in savings.steps
        ],
        "fast_path": [
            {"part": saving.part, "saved_usd": _usd_text(saving.nanos)}
            for saving in savings.fast_path
        ],
        "uncounted": [
            {
                "team": saving.team_name,
                "team_id": saving.team,
                "feature": saving.feature,
                "part": saving.part,
                "estimate_usd": _usd_text(saving.nanos),
                "why": saving.why,
            }
            for saving in savings.uncounted
        ],
    }


def _usd_text(nanos: int) -> str:
    return f"{usd_decimal(nanos):f}"


def shown_values(
    by: Sequence[Dimension], row: CostRow, teams: Mapping[str, str]
) -> tuple[str, ...]:
    """The values of a row, a team by its name; one without a name by its id."""
    return tuple(
        teams.get(value, value) if dimension == "team" else value
        for dimension, value in zip(by, row.values, strict=True)
    )


def _document_figures(sums: CostSums) -> dict[str, int | str | None]:
    figures = {name: figure(sums) for name, figure in _FIGURES.items()}
    return {
        name: f"{figure:f}" if isinstance(figure, Decimal) else figure
        for name, figure in figures.items()
    }


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
