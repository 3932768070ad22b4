"""A cost report as CSV and as a document: the same figures, dollars with all their digits."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dashboards.cost_reports import CostReport, CostRow, CostSums, Dimension, usd_decimal
from dashboards.csv_text import Cell, csv_text
from dashboards.savings_headline import SavingsHeadline

_FIGURES: Final = (
    "calls",
    "attempts",
    "errors",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "list_cost_usd",
    "cost_usd",
    "unpriced_attempts",
    "estimated_attempts",
)


def cost_csv(report: CostReport, teams: Mapping[str, str]) -> str:
    """The rows as CSV; a cost that nobody knows is empty, and its attempts are counted beside.

    Args:
        report: Report to write.
        teams: The teams' names by id.
    """
    rows = ([*shown_values(report.by, row, teams), *_figures(row.sums)] for row in report.rows)
    return csv_text((*report.by, *_FIGURES), rows)


def cost_document(report: CostReport, teams: Mapping[str, str]) -> dict[str, Any]:
    """The rows and their total for JSON; money as decimal texts, null where it is unknown.

    Args:
        report: Report to write.
        teams: The teams' names by id.
    """
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


def _figures(sums: CostSums) -> tuple[Cell, ...]:
    """The figures of a row, in the order of their columns."""
    return (
        sums.calls,
        sums.attempts,
        sums.errors,
        sums.usage.prompt_tokens,
        sums.usage.cache_read,
        sums.usage.cache_write_tokens,
        sums.usage.generated_tokens,
        usd_decimal(sums.list_nanos),
        usd_decimal(sums.cost_nanos),
        sums.unpriced,
        sums.estimated,
    )


def _document_figures(sums: CostSums) -> dict[str, int | str | None]:
    return {
        name: figure if figure is None or isinstance(figure, int) else f"{figure:f}"
        for name, figure in zip(_FIGURES, _figures(sums), strict=True)
    }
