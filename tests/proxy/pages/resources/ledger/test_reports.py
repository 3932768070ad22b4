"""Cost reports over the API: exact, in three formats, and of the viewer's teams alone."""

import asyncio
import csv
import io
import json
from decimal import Decimal

import pytest

from dashboards.access import Role, Viewer
from dashboards.report_summary.read_report import ReadReport
from proxy.errors import CallerError, Unready
from proxy.pages.resources.ledger.reports import CostReportsResource, ReportFormat, ReportQuery
from proxy.pages.store_questions import StoreQuestions
from proxy.services.reports.background_reports import PendingReport
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from tests.fakes.admin_api import PATIENCE_S
from tests.fakes.board import NOW
from tests.fakes.call_dependencies import LoopTasks
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
        self.store = store
        self.resource = self.resource_for(100_000)

    def resource_for(self, quick_receipts: int) -> CostReportsResource:
        """A resource whose reports go to the background beyond so many receipts."""
        return CostReportsResource(
            self.store,
            (StoreQuestions(self.store, PATIENCE_S), LoopTasks()),
            figures_of(self.store, NOW, catalog_of_provider("openai")),
            lambda: NOW,
            quick_receipts=quick_receipts,
        )

    def text(self, viewer: Viewer, **query: str | list[str]) -> str:
        request = ReportQuery.model_validate(query)
        return bytes(asyncio.run(self.resource.file(viewer, request)).body).decode()


@pytest.fixture
def desk(store: Store) -> ReportsHarness:
    return ReportsHarness(store)


FINANCE = Viewer(name="fay", role=Role.FINANCE)


def test_rows_add_up_to_the_ledger_to_the_nano_dollar(desk: ReportsHarness) -> None:
    assert desk.text(FINANCE, by="team,feature") == desk.text(FINANCE, by=["team", "feature"])
    result = json.loads(desk.text(FINANCE, by="team,feature"))

    assert Decimal(result["total"]["cost_usd"]) == Decimal(sum(NANOS)).scaleb(-9)
    rows = sum(Decimal(row["cost_usd"]) for row in result["rows"])
    assert rows == Decimal(result["total"]["cost_usd"])


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
    result = json.loads(desk.text(bob, by="team"))
    assert [row["team"] for row in result["rows"]] == ["acme"]


def test_rows_by_tag_add_up_to_the_ledger_and_calls_without_it_are_one_row(
    desk: ReportsHarness,
) -> None:
    inserter(desk.store._engine)(
        [
            a_receipt(
                n, team=desk.acme, started=NOW - 60, cost_nanos=7, tags=(("customer", f"c{n % 2}"),)
            )
            for n in range(10, 13)
        ]
    )
    result = json.loads(desk.text(FINANCE, by="tag:customer"))

    costs = {row["tag:customer"]: Decimal(row["cost_usd"]) * 10**9 for row in result["rows"]}
    assert costs == {"c0": 14, "c1": 7, "": sum(NANOS)}
    assert Decimal(result["total"]["cost_usd"]) * 10**9 == sum(NANOS) + 21
    only = json.loads(desk.text(FINANCE, by="team", tag="customer:c0"))
    assert [row["cost_usd"] for row in only["rows"]] == ["0.000000014"]
    focus = csv.DictReader(io.StringIO(desk.text(FINANCE, by="team,tag:customer", format="focus")))
    assert {json.loads(row["Tags"] or "{}").get("customer") for row in focus} == {None, "c0", "c1"}


def test_a_report_filtered_by_user_or_tag_has_no_headline_of_all_calls(
    desk: ReportsHarness,
) -> None:
    for only in ({"user": "u"}, {"tag": "customer:acme"}):
        assert json.loads(desk.text(FINANCE, by="team", **only))["rows"] == []


@pytest.mark.parametrize(
    "by", ["tag:", "tag:a'b", f"tag:{'k' * 41}", "tag:a,tag:b,tag:c,tag:d,tag:e"]
)
def test_a_tag_that_cannot_be_is_no_dimension(desk: ReportsHarness, by: str) -> None:
    with pytest.raises(CallerError) as refused:
        desk.text(FINANCE, by=by)

    assert (refused.value.code, refused.value.param) == ("unknown_dimension", "by")


def test_an_unknown_dimension_is_named(desk: ReportsHarness) -> None:
    with pytest.raises(CallerError, match="by=colour: there are team"):
        desk.text(FINANCE, by="team,colour")


def test_a_report_that_reads_many_receipts_is_made_in_the_background_and_is_the_same(
    desk: ReportsHarness,
) -> None:
    query = ReportQuery.model_validate({"by": "team,user"})

    async def run() -> None:
        quick = await desk.resource.report(FINANCE, query)
        slow = desk.resource_for(2)
        assert isinstance(quick, ReadReport)
        pending = await slow.report(FINANCE, query, 0.0)
        assert isinstance(pending, PendingReport)
        assert not pending.is_waiting
        assert await slow.report(FINANCE, query, 120.0) == quick
        file = await slow.file(FINANCE, query)
        assert Decimal(json.loads(bytes(file.body))["total"]["cost_usd"]) == Decimal(
            sum(NANOS)
        ).scaleb(-9)

    asyncio.run(run())


def test_a_report_of_the_background_is_for_those_who_may_see_its_teams(
    desk: ReportsHarness,
) -> None:
    bob = Viewer(name="bob", role=Role.VIEWER, own_teams=frozenset({desk.acme}))
    eve = Viewer(name="eve", role=Role.VIEWER, own_teams=frozenset())
    query = ReportQuery.model_validate({"by": "team,user"})

    async def run() -> None:
        slow = desk.resource_for(0)
        for viewer, teams in ((FINANCE, 2), (bob, 1), (eve, 0)):
            result = await slow.report(viewer, query, 120.0)
            assert isinstance(result, ReadReport)
            assert len({row.values[0] for row in result.report.rows}) == teams

    asyncio.run(run())


def test_a_file_that_is_not_there_in_time_says_so_and_when_to_ask_again(
    desk: ReportsHarness,
) -> None:
    async def run() -> None:
        slow = desk.resource_for(0)
        mine = ReportQuery.model_validate({"by": "user"})
        assert isinstance(await slow.report(FINANCE, mine, 0.0), PendingReport)
        with pytest.raises(Unready, match="waits until others are made") as refused:
            await slow.file(FINANCE, ReportQuery.model_validate({"by": "user,team"}))
        assert (refused.value.code, refused.value.retry_after) == ("report_pending", 5.0)
        await slow.report(FINANCE, mine, 120.0)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"format": "focus"}, "focus-1.2-2026-09.csv"),
        ({"format": "focus", "focus_version": "1.4"}, "focus-1.4-2026-09.csv"),
        ({"format": "csv", "to": "2026-09-15"}, "costs-2026-09-01-to-2026-09-15.csv"),
        ({"format": "json"}, "costs-2026-09.json"),
    ],
)
def test_file_is_named_by_its_format_and_month_or_days(
    desk: ReportsHarness, query: dict[str, str], name: str
) -> None:
    assert file_name(desk, **query) == f"thriftgate-{name}"


def test_file_of_one_team_is_named_after_it_in_letters_that_no_header_can_end_by(
    desk: ReportsHarness,
) -> None:
    odd = desk.store.teams.create('Ac"me\r\n/ Support;', now=NOW).id

    assert file_name(desk, format="csv", team=odd) == "thriftgate-costs-ac-me-support-2026-09.csv"


def test_file_of_a_team_with_other_letters_than_latin_ones_has_its_id(
    desk: ReportsHarness,
) -> None:
    team = desk.store.teams.create("\u691c\u7d22 2", now=NOW).id
    words = team.lower().replace("_", "-")[:40].strip("-")

    assert file_name(desk, format="csv", team=team) == f"thriftgate-costs-{words}-2026-09.csv"


def test_file_of_a_team_with_accents_has_its_letters(desk: ReportsHarness) -> None:
    team = desk.store.teams.create("\u00c9clair", now=NOW).id

    assert file_name(desk, format="csv", team=team) == "thriftgate-costs-eclair-2026-09.csv"


def file_name(desk: ReportsHarness, **query: str) -> str:
    days = {"from": "2026-09-01", "to": "2026-09-30"}
    request = ReportQuery.model_validate(days | query)
    answer = asyncio.run(desk.resource.file(FINANCE, request))
    disposition = answer.headers["content-disposition"]
    return disposition.removeprefix('attachment; filename="').removesuffix('"')
