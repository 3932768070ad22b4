"""Calls as CSV, by the columns of their table: the same figures with all their digits."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from dashboards.cost_formats import Cell, csv_text
from dashboards.cost_reports import usd_decimal
from dashboards.views.calls import CallRow, CallsView

CallColumn = Literal[
    "when", "call", "team", "model", "outcome", "cost", "prompt", "answer", "ttft", "duration"
]
"""A column of the table of calls, as its heading names it."""


class _Field(NamedTuple):
    """A column of the file: the table's column that it belongs to, and its cell."""

    column: CallColumn
    cell: Callable[[CallRow], Cell]


_FIELDS: Final[Mapping[str, _Field]] = {
    "when": _Field("when", lambda call: _utc_text(call.started)),
    "call": _Field("call", lambda call: call.call_id),
    "team": _Field("team", lambda call: call.team_name),
    "feature": _Field("team", lambda call: call.feature),
    "model": _Field("model", lambda call: call.model),
    "asked_for": _Field("model", lambda call: call.requested),
    "fast_path": _Field("model", lambda call: call.served_by),
    "outcome": _Field("outcome", lambda call: call.outcome),
    "status": _Field("outcome", lambda call: call.status),
    "error": _Field("outcome", lambda call: call.error),
    "missed": _Field("outcome", lambda call: call.miss),
    "rerouted": _Field("outcome", lambda call: call.reroute_reason),
    "attempts": _Field("outcome", lambda call: call.attempts),
    "cost_usd": _Field("cost", lambda call: usd_decimal(call.cost_nanos)),
    "prompt_tokens": _Field("prompt", lambda call: call.prompt_tokens),
    "cache_read_tokens": _Field("prompt", lambda call: call.cache_read_tokens),
    "answer_tokens": _Field("answer", lambda call: call.generated_tokens),
    "first_token_s": _Field("ttft", lambda call: _seconds(call.ttft)),
    "total_s": _Field("duration", lambda call: _seconds(call.duration)),
}


def calls_csv(without: AbstractSet[CallColumn], limit: int, view: CallsView) -> str:
    """The calls of a view, unknown figures empty; a last line says where it was cut."""
    fields = {name: field for name, field in _FIELDS.items() if field.column not in without}
    rows: list[Sequence[Cell]] = [
        [field.cell(call) for field in fields.values()] for call in view.calls
    ]
    if view.is_cut and view.searched_from is not None:
        rows.append([f"# Calls before {_utc_text(view.searched_from)} were not looked at."])
    if len(view.calls) >= limit:
        rows.append([f"# Cut after {limit:,} calls."])
    return csv_text(tuple(fields), rows)


def _seconds(value: float | None) -> Cell:
    return None if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


def _utc_text(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"
