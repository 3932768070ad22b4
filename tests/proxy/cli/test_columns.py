from typing import Any

from proxy.cli.columns import (
    COUNT,
    MONEY,
    SHARE,
    TIME,
    TableColumn,
    documents,
    rate,
    text_table,
    usd,
    with_team,
)
from proxy.store.sql.ledger.control_arms import MissSum

MISS = MissSum(
    team="team_1",
    feature="",
    reason="expired",
    calls=3_000,
    tokens=90,
    nanos=-5,
    example="call_1",
    detail="idle for 400 s",
)


def cells(*columns: TableColumn[Any], rows: tuple[Any, ...] = (MISS,)) -> list[list[str]]:
    table = text_table(columns, rows)
    return [[str(column.header), *map(str, column.cells)] for column in table.columns]


def test_money_is_a_decimal_text_whatever_its_sign() -> None:
    assert usd(1_500_000_000) == "1.5"
    assert usd(-1) == "-0.000000001"
    assert usd(0) == "0"
    assert usd(None) is None


def test_a_column_is_in_the_table_by_its_title_and_in_the_document_by_its_key() -> None:
    columns: list[TableColumn[Any]] = [
        TableColumn("calls", "calls", COUNT),
        TableColumn("detail"),
        TableColumn("", "seen", of=lambda miss: miss.example),
    ]

    assert cells(*columns) == [["calls", "3,000"], ["seen", "call_1"]]
    assert documents(columns, [MISS]) == [{"calls": 3_000, "detail": "idle for 400 s"}]


def test_a_team_is_shown_by_its_name_and_has_its_id_in_the_document() -> None:
    named: tuple[TableColumn[Any], ...] = with_team({"team_1": "acme"})
    nameless: tuple[TableColumn[Any], ...] = with_team({})

    assert cells(*named) == [["team", "acme"]]
    assert documents(named, [MISS]) == [{"team": "acme", "team_id": "team_1"}]
    assert documents(nameless, [MISS]) == [{"team": "team_1", "team_id": "team_1"}]


def test_forms_show_values_for_people_and_keep_them_in_documents() -> None:
    columns: list[TableColumn[Any]] = [
        TableColumn("cost", "cost", MONEY, lambda row: row[0]),
        TableColumn("share", "share", SHARE, lambda row: row[1]),
        TableColumn("at", "at", TIME, lambda row: row[2]),
    ]
    rows = ((12_345_678, rate(1, 4), 86_400.0), (None, rate(0, 0), 0.0))

    assert cells(*columns, rows=rows) == [
        ["cost", "$0.0123", "unknown"],
        ["share", "25.0%", "none"],
        ["at", "1970-01-02 00:00 UTC", "never"],
    ]
    assert documents(columns, rows) == [
        {"cost": "0.012345678", "share": 0.25, "at": "1970-01-02T00:00:00+00:00"},
        {"cost": None, "share": None, "at": None},
    ]
