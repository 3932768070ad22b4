from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from dashboards.reports import Spend
from proxy.demo.spending import hit_rate, spending
from slo.usage import Usage


def a_spend(**changes: Any) -> Spend:
    fields: dict[str, Any] = {
        "team": "team_1",
        "calls": 1200,
        "attempts": 1201,
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


def text(*rows: Spend, total: tuple[Spend, ...] = (), name: str = "acme") -> list[list[str]]:
    out = StringIO()
    Console(file=out, width=80).print(spending(rows, {"team_1": name}, total))
    return [line.split() for line in out.getvalue().splitlines()]


def test_a_row_says_calls_tokens_hit_rate_and_cost() -> None:
    _, row = text(a_spend())

    assert row == ["acme", "1,200", "4,000", "1,000", "25.0%", "7", "2.5"]


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


def test_a_large_table_fits_eighty_columns() -> None:
    large = a_spend(usage=Usage(input=482_000, cache_read=482_000), cost_nanos=12_345_678_901)
    rows = spending([large], {"team_1": "acme-engineering"}, [large])
    out = StringIO()
    Console(file=out, width=80).print(rows)

    assert "…" not in out.getvalue()


def test_nothing_read_is_a_hit_rate_of_nothing() -> None:
    assert hit_rate(Usage()) == 0.0
