"""Views of costs against plain SQL over the receipts, to the nano-dollar."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, cast

import pytest
from sqlalchemy import Engine, text

from dashboards.report_periods import time_buckets
from dashboards.reports import ALL_CALLS, Part, ReportPeriod, SpendFilter, tag_part
from dashboards.views.costs import CostDimension, CostsView, CostTableRow
from proxy.pages.resources.ledger.costs import cost_table_csv
from proxy.records.receipt import IDLE_TEAM, Receipt, answering_model
from proxy.store.sql.database import open_database
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.rollups.spend_sums import ValueRange
from proxy.store.sql.views.costs import CostsQuestion, costs_view
from proxy.store.sql.views.ledger_reports import LedgerReports
from proxy.store.sql.views.readers import Readers
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import a_receipt

PERIOD = ReportPeriod(first=date(2026, 11, 10), end=date(2026, 11, 20), zone="Europe/Berlin")
EARLIER = ReportPeriod(first=date(2026, 10, 31), end=date(2026, 11, 10), zone="Europe/Berlin")
PROVIDERS = {"lab": "acme", "lab2": "acme", "other": ""}
ROUTES = ("lab/model-0", "lab2/model-1#b", "lab/*", "other/claude")
CUSTOMER, JOB = tag_part("customer"), tag_part("job")


def a_call(n: int) -> Receipt:
    started = EARLIER.bounds[0] - 50_000 + n * 2_903.0
    tags = ((), (("customer", f"c{n % 3}"),), (("customer", "c0"), ("job", f"j{n % 2}")))[n % 3]
    unpriced = {"cost_nanos": None, "list_nanos": None} if n % 17 == 0 else {}
    return a_receipt(
        n,
        call_id=id_floor(started)[:-6] + f"{n:06x}",
        started=started,
        team=f"team_{n % 4}",
        feature=("", "chat", "search", 'a, "b"', "=1")[n % 5],
        route=ROUTES[n % 4],
        upstream=ROUTES[n % 4].partition("/")[0],
        key_id=f"key_{n % 6}",
        user=f"{n % 7:032x}",
        tags=tags,
        final=n % 9 != 0,
        **unpriced,
    )  # fmt: skip


CALLS = [a_call(n) for n in range(640)]


@pytest.fixture(params=MERGED_PARTS, scope="module")
def ledger(new_shared_url: Callable[[], str], request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A ledger of all calls, which tests only read."""
    engine = open_database(new_shared_url())
    book(engine, CALLS, float(request.param))
    yield engine
    engine.dispose()


def question(
    by: CostDimension, across: CostDimension | None = None, **changes: Any
) -> CostsQuestion:
    costs_question = CostsQuestion(
        by=by,
        across=across,
        top=3,
        period=PERIOD,
        buckets=time_buckets(PERIOD, "day"),
        only=ALL_CALLS,
        providers=PROVIDERS,
        today=date(2026, 12, 1),
        rows=ValueRange(count=50),
        columns=ValueRange(count=50),
    )
    return replace(costs_question, **changes)


#: SQL of each dimension's columns.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "team": ("team",),
    "feature": ("feature",),
    "model": ("model", "route"),
    "key": ("key_id",),
    "user": ("user_hash",),
    "route": ("route",),
    "upstream": ("upstream",),
    "provider": ("upstream",),
    CUSTOMER: ("tags",),
    JOB: ("tags",),
}


def _value(by: str, columns: Sequence[Any]) -> str:
    if by == "model":
        return answering_model(columns[1], columns[0]) or "(none)"
    if by == "provider":
        return PROVIDERS[columns[0]] or columns[0]
    if by in {CUSTOMER, JOB}:
        return json.loads(columns[0] or "{}").get(by.removeprefix("tag:"), "") or "(none)"
    return columns[0] or "(none)"


def plain_sql(
    engine: Engine, by: str, across: str, where: str = "1 = 1", period: ReportPeriod = PERIOD
) -> dict[tuple[str, str], tuple[int, int]]:
    """Cost and number of calls by two values, of receipts alone."""
    columns = (*_COLUMNS[by], *_COLUMNS[across])
    first, end = (edge * 1_000_000 for edge in period.bounds)
    names = ", ".join(f"{column} AS c{n}" for n, column in enumerate(columns))
    statement = (
        f"SELECT {names}, sum(cost_nanos), sum(final) FROM calls"  # noqa: S608 - a test's own names
        f" WHERE started >= {first} AND started < {end} AND {where}"
        f" GROUP BY {', '.join(columns)}"
    )
    costs: dict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    split = len(_COLUMNS[by])
    with engine.connect() as connection:
        for *values, nanos, calls in connection.execute(text(statement)):
            key = _value(by, values[:split]), _value(across, values[split:])
            costs[key] = costs[key][0] + int(nanos or 0), costs[key][1] + int(calls)
    return costs


PIVOTS: list[tuple[CostDimension, CostDimension]] = [
    ("team", "feature"),
    ("team", "model"),
    ("feature", "model"),
    ("model", "feature"),
    ("model", "team"),
    ("key", "route"),
    ("route", "key"),
    ("provider", "feature"),
    ("feature", "upstream"),
    ("user", "team"),
    ("feature", "user"),
    (CUSTOMER, "model"),
    ("team", CUSTOMER),
    (CUSTOMER, JOB),
    ("provider", JOB),
]


def cells_of(view: CostsView) -> dict[tuple[str, str], int]:
    """Known costs by row and column, without those of all others together."""
    return {
        (row.value, column.value): cell
        for row in view.table.rows
        for column, cell in zip(view.table.columns, row.cells, strict=True)
        if cell and not column.is_others
    }


@pytest.mark.parametrize(("by", "across"), PIVOTS)
def test_a_pivot_equals_plain_sql_to_the_nano_dollar(ledger: Engine, by, across) -> None:
    view = costs_view(Readers(ledger), question(by, across))
    expected = plain_sql(ledger, by, across)
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (row, _), (nanos, calls) in expected.items():
        rows[row][0] += nanos
        rows[row][1] += calls

    assert cells_of(view) == {key: nanos for key, (nanos, _) in expected.items() if nanos}
    assert {
        row.value: [row.sums.cost_nanos or 0, row.sums.calls]
        for row in view.table.rows
        if row.sums.attempts
    } == rows
    assert view.table.total.sums.cost_nanos == sum(nanos for nanos, _ in expected.values())
    before = plain_sql(ledger, by, across, period=EARLIER)
    assert view.table.total.before.cost_nanos == sum(nanos for nanos, _ in before.values())


@pytest.mark.parametrize(("by", "across"), PIVOTS)
def test_rows_and_columns_of_a_page_add_up_with_all_others_to_the_total(
    ledger: Engine, by, across
) -> None:
    whole = costs_view(Readers(ledger), question(by, across))
    for first in (0, 1):
        part = ValueRange(count=2, first=first)
        table = costs_view(Readers(ledger), question(by, across, rows=part, columns=part)).table
        rows: list[CostTableRow] = [*table.rows, *filter(None, [table.others])]

        assert table.row_count == whole.table.row_count
        assert table.column_count == whole.table.column_count
        assert [row.value for row in table.rows] == [
            row.value for row in whole.table.rows[first : first + 2]
        ]
        assert table.total.sums == whole.table.total.sums
        assert sum(row.sums.calls for row in rows) == table.total.sums.calls
        for row in (*rows, table.total):
            assert sum(cell or 0 for cell in row.cells) == (row.sums.cost_nanos or 0)
        for place, cell in enumerate(table.total.cells):
            assert sum(row.cells[place] or 0 for row in rows) == (cell or 0)


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"team": "team_1"}, "team = 'team_1'"),
        ({"feature": "", "key": "key_0"}, "feature = '' AND key_id = 'key_0'"),
        ({"upstream": "lab", "user": f"{2:032x}"}, f"upstream = 'lab' AND user_hash = '{2:032x}'"),
        ({CUSTOMER: "c0"}, "tags LIKE '%%\"customer\":\"c0\"%%'"),
    ],
)  # fmt: skip
def test_a_filtered_pivot_equals_plain_sql(ledger: Engine, values, where: str) -> None:
    only = SpendFilter(values={cast("Part", part): frozenset({v}) for part, v in values.items()})
    view = costs_view(Readers(ledger), question("feature", "model", only=only))
    expected = plain_sql(ledger, "feature", "model", where.replace("%%", "%"))

    assert cells_of(view) == {key: nanos for key, (nanos, _) in expected.items() if nanos}
    assert view.total.cost_nanos == sum(nanos for nanos, _ in expected.values()) > 0


def test_rows_that_grew_most_in_dollars_come_first_by_change(ledger: Engine) -> None:
    for by in cast("tuple[CostDimension, ...]", ("feature", "user", CUSTOMER)):
        some = ValueRange(count=50, sort="change")
        rows = costs_view(Readers(ledger), question(by, rows=some)).table.rows
        changes = [(row.sums.cost_nanos or 0) - (row.before.cost_nanos or 0) for row in rows]

        assert changes == sorted(changes, reverse=True)
        assert [row.change_nanos for row in rows] == changes
        grew = costs_view(Readers(ledger), question(by)).table.grew_most
        assert grew is not None
        assert (grew.value, grew.change_nanos) == (rows[0].value, changes[0])


def test_rows_are_found_by_a_part_of_their_name(ledger: Engine) -> None:
    some = ValueRange(count=50, find="SEA")
    table = costs_view(Readers(ledger), question("feature", rows=some)).table

    assert ([row.name for row in table.rows], table.row_count) == (["search"], 1)
    assert table.others is not None
    assert table.others.sums.calls + table.rows[0].sums.calls == table.total.sums.calls


def test_a_pivot_of_nothing_has_no_rows_and_a_total_of_nothing(ledger: Engine) -> None:
    nobody = SpendFilter(teams=frozenset())
    for across in cast("tuple[CostDimension, ...]", ("model", "user")):
        table = costs_view(Readers(ledger), question("team", across, only=nobody)).table

        assert (table.rows, table.columns, table.others, table.row_count) == ([], [], None, 0)
        assert (table.total.sums.cost_nanos, table.total.cells) == (0, [])


def test_the_csv_of_a_table_has_every_digit_and_no_formula(ledger: Engine) -> None:
    part = ValueRange(count=2)
    view = costs_view(Readers(ledger), question("feature", "team", rows=part, columns=part))
    head, *lines = cost_table_csv(view).splitlines()

    assert head.startswith("feature,cost_usd,previous_cost_usd,change_usd,calls,errors,team_")
    assert [line.split(",")[0] for line in lines[-2:]] == ["(others)", "Total"]
    total = view.table.total.sums.cost_nanos or 0
    assert f",{total // 10**9}.{total % 10**9:09d}," in lines[-1]
    every = cost_table_csv(costs_view(Readers(ledger), question("feature")))
    assert "\n'=1," in every
    assert '"a, ""b""",' in every


def test_a_view_of_costs_agrees_with_the_reports(engine: Engine) -> None:
    book(engine, CALLS, 0.5)
    idle = a_receipt(901, call_id=id_floor(PERIOD.bounds[0] + 60) + "", team=IDLE_TEAM,
                     started=PERIOD.bounds[0] + 60.0, cost_nanos=77, feature="idle:x")  # fmt: skip
    inserter(engine)([idle])
    (report,) = LedgerReports(engine).spend(PERIOD, ())
    total = costs_view(Readers(engine), question("feature")).total

    assert (total.calls, total.attempts, total.errors) == (
        report.calls,
        report.attempts,
        report.errors,
    )
    assert (total.unpriced_attempts, total.prompt_tokens) == (
        report.unpriced,
        report.usage.prompt_tokens,
    )
    assert (total.list_nanos, total.cost_nanos) == (report.list_nanos, report.cost_nanos)
    assert (total.idle_nanos, report.idle_nanos) == (77, 77)


def test_a_view_names_the_day_of_the_ledgers_first_call_whatever_its_filters(
    engine: Engine,
) -> None:
    book(engine, CALLS, 0.5)
    only = SpendFilter(values={"feature": frozenset({"chat"})})
    view = costs_view(Readers(engine), replace(question("feature"), only=only))

    assert view.first_call == date(2026, 10, 30)
