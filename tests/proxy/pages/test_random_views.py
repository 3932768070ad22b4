"""Figures of random views, as pages, CSV and JSON show them, against the ledger's own SQL."""

import csv
import io
import json
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import psycopg
import pytest
from sqlalchemy import text

from dashboards.access import Role
from proxy.pages.resources.api import API_PATH
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard
from tests.fakes.databases import migrated_sqlite
from tests.fakes.postgres import schema
from tests.fakes.receipts import a_receipt

_VIEWS: Final = 30
_RECEIPTS: Final = 1_200
_DAYS: Final = 40
_DAY_S: Final = 86_400
_ZONES: Final = ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York")
#: SQL of each dimension; a call's model is the one that answered.
_COLUMNS: Final = {
    "team": "team",
    "feature": "feature",
    "model": "CASE WHEN route LIKE '%/large' THEN 'large' ELSE 'small' END",
    "key": "key_id",
    "user": "user_hash",
    "route": "route",
    "upstream": "upstream",
    "tag:region": "COALESCE(substr(tags, 12, 5), '')",
}
_STACKED: Final = ("team", "feature", "model", "key", "user", "route")
_FILTERED: Final = ("team", "feature", "model", "key", "user", "route", "tag:region")

Amounts = dict[tuple[str, ...], tuple[int, int | None]]
"""Calls and known nano-dollars of each combination of values."""


@dataclass(frozen=True, kw_only=True)
class RandomView:
    """One request for figures: who asks, of which days of a zone, split and filtered by what."""

    role: Role
    first: date
    last: date
    zone: str
    by: tuple[str, ...]
    filters: Mapping[str, str]

    def query(self, **more: str) -> str:
        """Its query as the address of a page has it."""
        named = {
            "tag" if part == "tag:region" else part: value or "(none)"
            for part, value in self.filters.items()
        }
        if "tag" in named:
            named["tag"] = f"region:{named['tag']}"
        days = {"from": self.first.isoformat(), "to": self.last.isoformat(), "tz": self.zone}
        return urlencode({**days, **named, **more})

    def sums(self, store: Store, teams: tuple[str, ...] | None, by: tuple[str, ...]) -> Amounts:
        """Calls and costs as plain SQL on the receipts sums them."""
        zone, end = ZoneInfo(self.zone), self.last + timedelta(days=1)
        start, stop = (
            datetime(day.year, day.month, day.day, tzinfo=zone) for day in (self.first, end)
        )
        values: dict[str, Any] = {
            "start": int(start.timestamp()) * 1_000_000,
            "stop": int(stop.timestamp()) * 1_000_000,
        }
        where = ["started >= :start", "started < :stop"]
        for part, value in self.filters.items():
            name = part.replace(":", "_")
            where.append(f"{_COLUMNS[part]} = :{name}")
            values[name] = value
        if teams is not None:
            names = [f"own_{number}" for number in range(len(teams))]
            where.append(f"team IN ({', '.join(f':{name}' for name in names)})")
            values |= dict(zip(names, teams, strict=True))
        columns = [_COLUMNS[part] for part in by]
        statement = (
            f"SELECT {', '.join([*columns, 'SUM(final)', 'SUM(cost_nanos)'])} FROM calls"  # noqa: S608
            f" WHERE {' AND '.join(where)}"
        )
        if columns:
            statement += f" GROUP BY {', '.join(columns)}"
        escaped = re.sub(r"(?<=tag):(?=region)", r"\\:", statement)
        with read_transaction(store._engine) as connection:
            rows = connection.execute(text(escaped), values).all()
        amounts = {tuple(row[:-2]): (row[-2] or 0, row[-1]) for row in rows}
        return {
            key: (int(calls), None if nanos is None else int(nanos))
            for key, (calls, nanos) in amounts.items()
            if calls
        }


def random_view(numbers: random.Random, values: Mapping[str, list[str]]) -> RandomView:
    """A view by chance."""
    today = datetime.fromtimestamp(NOW, UTC).date()
    first = today - timedelta(days=numbers.randrange(_DAYS))
    last = min(today, first + timedelta(days=numbers.choice((0, 1, 6, 13, 29))))
    parts = numbers.sample(_FILTERED, numbers.randrange(3))
    return RandomView(
        role=numbers.choice(list(Role)),
        first=first,
        last=last,
        zone=numbers.choice(_ZONES),
        by=tuple(numbers.sample(list(_COLUMNS), numbers.randint(1, 3))),
        filters={part: numbers.choice(values[part]) for part in parts},
    )


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A migrated store in a database of each kind in turn."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = migrated_sqlite(tmp_path / "thriftgate.db")
        else:
            try:
                url = stack.enter_context(schema())
            except psycopg.OperationalError:
                pytest.skip("NO VIEW WAS TRIED ON POSTGRESQL: there is no server")
        opened = Store.open(url, tmp_path / "journal")
        stack.callback(opened.close, 5)
        yield opened


@pytest.fixture
def values(dashboard: Dashboard) -> dict[str, list[str]]:
    """Values of each dimension, of which a ledger of receipts by chance is made."""
    numbers = random.Random(39)  # noqa: S311 - a test's own
    third = dashboard.store.teams.create("third", now=NOW).id
    values = {
        "team": [dashboard.own, dashboard.other, third],
        "feature": ["", "chat", "R&D <docs>"],
        "model": ["large", "small"],
        "key": ["key_1", "key_2", "key_3"],
        "user": ["", "5f" * 16, "a0" * 16],
        "route": ["lab/large", "lab/small", "else/small"],
        "tag:region": ["", "north", "south"],
    }
    receipts = []
    for number in range(_RECEIPTS):
        chosen = {part: numbers.choice(values[part]) for part in values}
        region, cost = (
            chosen.pop("tag:region"),
            numbers.randrange(1, 10 ** numbers.randrange(3, 16)),
        )
        is_priced, started = numbers.random() > 0.05, NOW - numbers.random() * _DAYS * _DAY_S
        receipts.append(
            a_receipt(
                number,
                **{"key_id" if part == "key" else part: value for part, value in chosen.items()},
                upstream=chosen["route"].split("/")[0],
                call_id=f"call_{int(started * 1_000):012x}7{number:019x}",
                started=started,
                tags=(("region", region),) if region else (),
                list_nanos=cost if is_priced else None,
                cost_nanos=cost if is_priced else None,
            )
        )
    assert inserter(dashboard.store._engine)(receipts) is None
    return values


def nanos(dollars: str) -> int | None:
    """Nano-dollars of a text of dollars; None for one that is unknown."""
    plain = dollars.replace("$", "").replace(",", "").replace("\N{MINUS SIGN}", "-")
    return None if plain in {"", "?"} else int(Decimal(plain).scaleb(9))


def cells(row: str) -> list[str]:
    """The texts of a table's row, without markup."""
    texts = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
    return [unescape(re.sub(r"<[^>]+>", "", one)).strip() for one in texts]


class FigureReader:
    """Reads the figures of a view wherever they are shown."""

    def __init__(self, dashboard: Dashboard, view: RandomView) -> None:
        self._dashboard, self._view = dashboard, view
        self._names = {team.id: team.name for team in dashboard.store.teams.all()}

    def _get(self, path: str) -> str:
        answer = self._dashboard.ask_as(self._view.role, "GET", path)
        assert answer.status == 200, (path, answer.body)
        return answer.body.decode()

    def _report_path(self, form: str = "") -> str:
        query = self._view.query(by=",".join(self._view.by), **({"format": form} if form else {}))
        return f"{API_PATH}/reports/cost?{query}" if form else f"/admin/reports?{query}"

    def expected_amounts(self, sums: Amounts, nothing: str) -> Amounts:
        """Sums by names as people read them."""
        by = self._view.by
        return {
            tuple(
                (self._names[value] if part == "team" else value) or nothing
                for part, value in zip(by, key, strict=True)
            ): amounts
            for key, amounts in sums.items()
        }

    def csv(self) -> Amounts:
        """Of the report's CSV."""
        rows = csv.DictReader(io.StringIO(self._get(self._report_path("csv"))))
        return {
            tuple(row[part] for part in self._view.by): (int(row["calls"]), nanos(row["cost_usd"]))
            for row in rows
        }

    def json(self) -> Amounts:
        """Of the report's JSON."""
        rows = json.loads(self._get(self._report_path("json")))["rows"]
        return {
            tuple(row[part] for part in self._view.by): (row["calls"], nanos(row["cost_usd"] or ""))
            for row in rows
        }

    def report_page(self) -> Amounts:
        """Of the table of the report's page."""
        html = self._get(self._report_path())
        table = re.search(
            r'<section id="report".*?</table>|<table[^>]*>.*?data-total', html, re.DOTALL
        )
        rows = re.findall(r"<tr>(.*?)</tr>", table[0], re.DOTALL) if table else []
        count = len(self._view.by)
        read = [cells(row) for row in rows if 'data-name="Calls"' in row]
        return {
            tuple(row[:count]): (int(row[count].replace(",", "")), nanos(row[count + 6]))
            for row in read
        }

    def stack(self, by: str) -> dict[str, int]:
        """Known nano-dollars by value, of the API's stack of costs."""
        path = f"{API_PATH}/costs?{self._view.query(by=by)}"
        series = json.loads(self._get(path))["series"]
        return {one["name"]: sum(value or 0 for value in one["cost_nanos"]) for one in series}

    def table(self, by: str, across: str) -> list[int | None]:
        """Nano-dollars of each cell of the page's table by two dimensions."""
        query = self._view.query(by=by, across=across, rows="1000", columns="50")
        html = self._get(f"/admin/costs?{query}")
        table = re.search(r"<table data-paged>.*?</table>", html, re.DOTALL)
        rows = re.findall(r"<tr>(.*?)</tr>", table[0], re.DOTALL)[1:] if table else []
        exact = [re.findall(r'title="exactly ([^"]*)"', row) for row in rows]
        return [nanos(text) for texts in exact for text in texts[2:]]  # after cost and change

    def chart(self, by: str) -> dict[str, int]:
        """The same of the table behind the chart of the page of costs."""
        html = self._get(f"/admin/costs?{self._view.query(by=by)}")
        figure = re.search(r'<figure data-chart="stack".*?</figure>', html, re.DOTALL)
        if figure is None:
            return {}
        head, *rows = re.findall(r"<tr>(.*?)</tr>", figure[0], re.DOTALL)
        # Without the bucket's name, the period before and the forecast.
        names = re.findall(r'<th scope="col" class="number">([^<]*)</th>', head)
        sums = dict.fromkeys(names, 0)
        for row in rows:
            exact = re.findall(r'<td class="number" data-value="([^"]*)"', row)
            for name, value in zip(names, exact, strict=False):
                sums[name] += nanos(value) or 0
        return sums


@pytest.mark.slow
def test_thirty_random_views_show_the_ledgers_sums_to_the_nano_dollar(
    dashboard: Dashboard, values: dict[str, list[str]]
) -> None:
    numbers = random.Random(2026)  # noqa: S311 - a test's own
    shown = 0
    for _ in range(_VIEWS):
        view = random_view(numbers, values)
        is_member = view.role in {Role.VIEWER, Role.TEAM_ADMIN}
        teams = (dashboard.own,) if is_member else None
        reader, sums = FigureReader(dashboard, view), view.sums(dashboard.store, teams, view.by)

        assert reader.csv() == reader.expected_amounts(sums, ""), view
        assert reader.json() == reader.expected_amounts(sums, ""), view
        assert reader.report_page() == reader.expected_amounts(sums, "(none)"), view

        stacked = numbers.choice(_STACKED)
        by_value = view.sums(dashboard.store, teams, (stacked,))
        costs = sorted(cost for _, cost in by_value.values() if cost)
        assert sorted(filter(None, reader.stack(stacked).values())) == costs, (view, stacked)
        assert sorted(filter(None, reader.chart(stacked).values())) == costs, (view, stacked)
        across = numbers.choice([part for part in _COLUMNS if part != stacked])
        cells = view.sums(dashboard.store, teams, (stacked, across)).values()
        shown_cells = sorted(filter(None, reader.table(stacked, across)))
        assert shown_cells == sorted(cost for _, cost in cells if cost), (view, stacked, across)
        shown += bool(sums)

    assert shown > _VIEWS / 2
