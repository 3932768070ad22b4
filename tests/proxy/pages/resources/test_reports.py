"""Cost reports over the API: exact, in three formats, and of the viewer's teams alone."""

import asyncio
import csv
import io
import json
from decimal import Decimal

import pytest

from dashboards.access import Role, Viewer
from proxy.errors import CallerError
from proxy.pages.resources.reports import CostReportsResource, ReportFormat, ReportQuery
from proxy.store.sql.inserts import inserter
from proxy.store.store import Store
from tests.fakes.board import NOW
from tests.fakes.receipts import a_receipt
from tests.fakes.savings import catalog_of_provider, figures_of

NANOS = (1_234_567_891, 2_000_000_000, 3)


class ReportsHarness:
    def __init__(self, store: Store) -> None:
        self.acme, other = (store.teams.create(name, now=NOW).id for name in ("acme", "=cmd()"))
        inserter(store._engine)(
            [
                a_receipt(n, team=(self.acme, other)[n % 2], started=NOW - 60, cost_nanos=nanos)
                for n, nanos in enumerate(NANOS)
            ]
        )
        self.resource = CostReportsResource(
            store, figures_of(store, NOW, catalog_of_provider("openai")), lambda: NOW
        )

    def text(self, viewer: Viewer, **query: str) -> str:
        asked = ReportQuery.model_validate(query)
        return asyncio.run(self.resource.file(viewer, asked))[0]


@pytest.fixture
def desk(store: Store) -> ReportsHarness:
    return ReportsHarness(store)


FINANCE = Viewer(name="fay", role=Role.FINANCE)


def test_rows_add_up_to_the_ledger_to_the_nano_dollar(desk: ReportsHarness) -> None:
    found = json.loads(desk.text(FINANCE, by="team,feature"))

    assert Decimal(found["total"]["cost_usd"]) == Decimal(sum(NANOS)).scaleb(-9)
    rows = sum(Decimal(each["cost_usd"]) for each in found["rows"])
    assert rows == Decimal(found["total"]["cost_usd"])


def test_csv_begins_no_formula(desk: ReportsHarness) -> None:
    rows = list(csv.reader(io.StringIO(desk.text(FINANCE, by="team", format="csv"))))

    assert {row[0] for row in rows} == {"team", "'=cmd()", "acme"}


def test_focus_has_its_own_dimensions(desk: ReportsHarness) -> None:
    header = desk.text(FINANCE, by="ignored", format="focus").splitlines()[0]

    assert "BilledCost" in header
    assert "EffectiveCost" in header


def test_a_member_gets_the_own_team_only_in_every_format(desk: ReportsHarness) -> None:
    bob = Viewer(name="bob", role=Role.VIEWER, own_teams=frozenset({desk.acme}))
    for form in ReportFormat:
        text = desk.text(bob, format=form)
        assert "cmd" not in text
    found = json.loads(desk.text(bob, by="team"))
    assert [each["team"] for each in found["rows"]] == ["acme"]


def test_an_unknown_dimension_is_named(desk: ReportsHarness) -> None:
    with pytest.raises(CallerError, match="by=colour: there are team"):
        desk.text(FINANCE, by="team,colour")
