import csv
import io

from dashboards.views.call_file import CallColumn, calls_csv
from dashboards.views.calls import CallRow, CallsView


def a_row(**changes: object) -> CallRow:
    usual: dict[str, object] = {
        **dict.fromkeys(("team", "key", "user", "route", "error", "feature", "miss"), ""),
        "call_id": "call_0123456789abcdef", "started": 0.0, "team_name": "=acme",
        "requested": "large", "model": "small", "attempts": 2, "status": 200,
        "outcome": "answered", "streamed": False, "cost_nanos": 12_300_001,
        "prompt_tokens": 2_000, "cache_read_tokens": 500, "generated_tokens": None,
        "ttft": None, "duration": 0.25, "miss_nanos": None, "reroute_reason": "",
        "served_by": "small",
    }  # fmt: skip
    return CallRow(**(usual | changes))  # type: ignore[arg-type]


def lines(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_file_has_all_digits_and_leaves_unknown_figures_empty() -> None:
    view = CallsView(calls=[a_row()], next=None, searched_from=None)
    head, row = lines(calls_csv(frozenset(), 10, view))
    cells = dict(zip(head, row, strict=True))

    assert (cells["when"], cells["team"]) == ("1970-01-01T00:00:00Z", "'=acme")
    assert (cells["cost_usd"], cells["answer_tokens"]) == ("0.012300001", "")
    assert (cells["first_token_s"], cells["total_s"]) == ("", "0.25")
    assert (cells["model"], cells["asked_for"], cells["attempts"]) == ("small", "large", "2")


def test_columns_that_are_hidden_are_left_out() -> None:
    view = CallsView(calls=[a_row()], next=None, searched_from=None)
    hidden: set[CallColumn] = {"team", "outcome", "model", "prompt", "when"}
    head, _ = lines(calls_csv(hidden, 10, view))

    assert head == ["call", "cost_usd", "answer_tokens", "first_token_s", "total_s"]


def test_last_lines_say_where_the_file_was_cut() -> None:
    view = CallsView(calls=[a_row(), a_row()], next="x", searched_from=60.0, is_cut=True)

    assert [line[0] for line in lines(calls_csv(frozenset(), 2, view))[3:]] == [
        "# Calls before 1970-01-01T00:01:00Z were not looked at.",
        "# Cut after 2 calls.",
    ]
