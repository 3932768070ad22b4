from dataclasses import replace
from datetime import date
from io import StringIO
from typing import Any

import pytest
from rich.console import Console, ConsoleRenderable

from dashboards.reports import Part, Percentiles, ReportPeriod, Spend, Times
from proxy.cli.reports.spending import report_document, spending
from slo.usage import Usage


def a_spend(**changes: Any) -> Spend:
    fields: dict[str, Any] = {
        "team": "team_1",
        "calls": 1200,
        "attempts": 1201,
        "answered": 1200,
        "errors": 0,
        "estimated": 0,
        "unpriced": 0,
        "usage": Usage(input=3000, cache_read=1000, output=7),
        "list_nanos": 2_500_000_000,
        "cost_nanos": 2_500_000_000,
        "ttft": None,
        "duration": None,
    }
    return Spend(**(fields | changes))


def text(
    *rows: Spend,
    total: tuple[Spend, ...] = (),
    name: str = "acme",
    parts: tuple[Part, ...] = (),
) -> list[list[str]]:
    shown = spending(rows, {"team_1": name}, total, parts)
    return [line.split() for line in lines_of(shown, 80)]


def lines_of(what: ConsoleRenderable, width: int) -> list[str]:
    """The lines of a terminal of that width."""
    out = StringIO()
    Console(file=out, width=width).print(what)
    return out.getvalue().splitlines()


def test_a_row_says_calls_tokens_hit_rate_and_cost() -> None:
    _, row = text(a_spend())

    assert row == ["acme", "1,200", "4,000", "1,000", "25.0%", "7", "$2.5000"]


def test_a_team_without_a_name_is_shown_by_its_id() -> None:
    assert text(a_spend(team="team_9"))[1][0] == "team_9"


@pytest.mark.parametrize("name", ["[/bold]", "[red]a[/red]", ":smile:", "a\\"])
def test_a_teams_name_is_no_markup(name: str) -> None:
    assert text(a_spend(), name=name)[1][0] == name


def test_the_total_stands_below() -> None:
    assert text(a_spend(), total=(a_spend(team=None, calls=9),))[2][:2] == ["all", "9"]


def test_an_unknown_cost_is_not_nothing() -> None:
    head, row = text(a_spend(cost_nanos=None, unpriced=3))

    assert head[-1] == "unpriced"
    assert row[-2:] == ["unknown", "3"]


def test_estimated_attempts_have_a_column_where_there_are_any() -> None:
    head, row = text(a_spend(estimated=2, cost_nanos=6_400_000))

    assert "estimated" in head
    assert row[-2] == "2"
    assert "estimated" not in text(a_spend(estimated=0))[0]


def test_calls_that_went_wrong_have_a_column_where_there_are_any() -> None:
    acme = a_spend(calls=12, errors=3)
    head, well, ill, total = text(a_spend(calls=9), acme, total=(a_spend(calls=21, errors=3),))

    assert head[:2] == ["team", "calls"]
    assert head[2] == "errors"
    assert well[1:3] == ["9", "0"]
    assert ill[1:3] == ["12", "3"]
    assert total[1:3] == ["21", "3"]


def test_where_nothing_went_wrong_nothing_is_said_of_it() -> None:
    assert "errors" not in text(a_spend(), total=(a_spend(),))[0]


def test_a_day_with_errors_still_has_a_line_a_team_at_a_hundred_columns() -> None:
    day = a_spend(calls=48_210, errors=117, usage=Usage(input=9_482_000, cache_read=91_482_000))
    lines = lines_of(spending([day], {"team_1": "acme-engineering"}, [day]), 100)

    assert len(lines) == 3
    assert lines[0].split()[:3] == ["team", "calls", "errors"]


def test_a_large_table_fits_eighty_columns() -> None:
    large = a_spend(usage=Usage(input=482_000, cache_read=482_000), cost_nanos=12_345_678_901)
    rows = spending([large], {"team_1": "acme-engineering"}, [large])
    out = StringIO()
    Console(file=out, width=80).print(rows)

    assert "…" not in out.getvalue()


LARGE = a_spend(
    feature="support-triage-of-incoming-mail-from-customers-in-france",
    model="claude-sonnet-5-5",
    route="anthropic/claude-sonnet-5-5",
    calls=1_234_567,
    answered=1_234_567,
    errors=12_345,
    unpriced=70_007,
    usage=Usage(input=1_234_567_890, cache_read=9_876_543_210, output=123_456_789),
    cost_nanos=1_234_567_891_234_567,
)


def names_and_figures(lines: list[str], width: int) -> tuple[str, list[list[str]]]:
    """The names, put together again where they were folded, and the figures line by line."""
    figures = [line[width:].split() for line in lines]
    return "".join(line[:width].strip() for line in lines), [figure for figure in figures if figure]


@pytest.mark.parametrize("parts", [("feature",), ("feature", "model", "route")])
def test_no_figure_and_no_name_is_lost_at_eighty_columns(parts: tuple[Part, ...]) -> None:
    total = replace(LARGE, feature=None, model=None, route=None)
    lines = lines_of(spending([LARGE], {"team_1": "acme"}, [total], parts), 80)
    names, figures = names_and_figures(lines, lines[0].index("calls") - 4)
    of_a_row = [
        ["1,234,567", "11,111,111,100", "123,456,789"],
        ["12,345", "9,876,543,210", "$1,234,567.8912"],
        ["88.9%", "70,007"],
    ]
    named = "".join(getattr(LARGE, part) for part in parts)

    assert max(map(len, lines)) <= 80
    assert names == "team" + "".join(parts) + "acme" + named + "all"
    assert figures == [
        ["calls", "input", "tokens", "output"],
        ["errors", "cached", "cost", "USD"],
        ["hit", "rate", "unpriced"],
        *of_a_row,
        *of_a_row,
    ]


def test_where_there_is_room_every_figure_has_a_column() -> None:
    lines = lines_of(spending([LARGE], {"team_1": "acme"}, [LARGE], ("feature",)), 170)

    assert len(lines) == 3
    assert lines[1].split()[:3] == ["acme", LARGE.feature, "1,234,567"]


def test_cost_per_thousand_calls_and_durations_are_shown_on_request() -> None:
    rows = [
        a_spend(feature="chat"),
        a_spend(feature="bulk", cost_nanos=None),
        a_spend(feature="none", calls=30, answered=0),
    ]
    key: tuple[str, ...] = ("team_1", "chat")
    times = {key: Times(Percentiles(0.25, 1.0, 12.34), Percentiles(1.5, 2.0, 20.0), 3)}

    table = spending(rows, {"team_1": "acme"}, parts=["feature"], times=times)
    _, chat, bulk, none = [line.split() for line in lines_of(table, 200)]

    assert chat[-3:] == ["$2.0833", "0.25/1/12.3", "1.5/2/20"]
    assert bulk[-3:] == ["unknown", "-/-/-", "-/-/-"]
    assert none[-3:] == ["-", "-/-/-", "-/-/-"]


def test_the_money_of_a_column_has_one_scale_and_ends_at_one_place() -> None:
    rows = [a_spend(feature=name, cost_nanos=nanos) for name, nanos in (
        ("chat", 12_345_678), ("bulk", 1_200_000_000_000), ("free", 0), ("own", None),
    )]  # fmt: skip
    times: dict[tuple[str, ...], Times] = {}
    lines = lines_of(spending(rows, {"team_1": "acme"}, (), ["feature"], times), 200)
    start = lines[0].index("cost USD")
    cells = [line[: start + len("cost USD")].split()[-1] for line in lines[1:]]

    assert cells == ["$0.0123", "$1,200.0000", "$0.0000", "unknown"]
    assert [line.split()[8] for line in lines[1:]] == [
        "$0.0103", "$1,000.0000", "$0.0000", "unknown",
    ]  # fmt: skip


@pytest.mark.parametrize("part", ["feature", "model", "requested", "route", "user"])
def test_calls_that_name_none_say_so_and_the_total_stays_empty(part: Part) -> None:
    total = a_spend(team=None, calls=9)
    _, row, below = text(a_spend(**{part: ""}), total=(total,), parts=(part,))

    assert row[:3] == ["acme", "(none)", "1,200"]
    assert below[:2] == ["all", "9"]


NAMES = {"team_1": "acme"}
ROW = Spend(
    team="team_1",
    feature="chat",
    calls=2,
    attempts=3,
    answered=1,
    errors=1,
    estimated=0,
    unpriced=1,
    usage=Usage(input=30, cache_read=10, output=7),
    list_nanos=2_500_000_001,
    cost_nanos=None,
    ttft=None,
    duration=None,
)


def test_a_report_names_its_period_and_has_a_row_for_each_part():
    period = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 11, 3), zone="UTC")
    key: tuple[str, ...] = ("team_1", "chat")
    times = {key: Times(Percentiles(0.1, 0.2, 0.3), calls=2)}
    document = report_document(period, [ROW], [ROW], NAMES, ["feature"], times)

    assert (document["first"], document["end"], document["zone"]) == (
        "2026-11-01",
        "2026-11-03",
        "UTC",
    )
    assert document["rows"] == [
        {
            "team": "acme",
            "team_id": "team_1",
            "feature": "chat",
            "calls": 2,
            "errors": 1,
            "input_tokens": 40,
            "cached_tokens": 10,
            "hit_rate": 0.25,
            "output_tokens": 7,
            "cost_usd": None,
            "cost_per_1k_calls_usd": None,
            "cost_per_1k_attempts_usd": None,
            "list_cost_usd": "2.500000001",
            "idle_cost_usd": "0",
            "estimated": 0,
            "unpriced": 1,
            "timed_calls": 2,
            "ttft_s": {"p50": 0.1, "p95": 0.2, "p99": 0.3},
            "duration_s": {"p50": None, "p95": None, "p99": None},
        }
    ]
    assert (document["total"]["calls"], document["total"]["timed_calls"]) == (2, 0)


def test_a_report_without_calls_has_no_total():
    period = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 11, 2), zone="UTC")
    document = report_document(period, [], [], NAMES, [])

    assert (document["rows"], document["total"]) == ([], None)
