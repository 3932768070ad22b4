"""The savings that every page, report, mail and command shows of one ledger: one figure."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
import orjson
import pytest

from dashboards.cost_reports import usd_decimal
from dashboards.formatting import exact_usd
from dashboards.reports import ReportPeriod, latest_days
from proxy.configuration import read_catalog
from proxy.records.feature_mode import LayoutScope
from proxy.records.receipt import Outcome, Receipt, ServedBy
from proxy.services.reports.report_content import report_content
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.settings import read
from proxy.store.sql.access.users import FIRST_ADMIN
from proxy.store.sql.ids import id_floor
from proxy.tools.demo.result import of_store
from slo.usage import Usage
from tests.fakes.demo_gateway import DemoGateway, demo_gateway
from tests.fakes.receipts import a_receipt
from tests.fakes.scheduled_reports import a_scheduled_report

#: Of 1,000 tokens in and 100 out, in nano-dollars: $2 and $12 a million on terra, a tenth on luna.
TERRA_NANOS = 1000 * 2_000 + 100 * 12_000
LUNA_NANOS = TERRA_NANOS // 10
#: One reply of luna in place of terra, less what the two lost attempts' prompts cost.
HEDGED_NANOS = TERRA_NANOS - LUNA_NANOS - 1000 * 2_000 - 1000 * 200
#: A tile's heading or the page's first sentence, and the exact saving beside it.
SAVED_ON_PAGE = r'(?:<h2>Saved[^<]*</h2>|Thriftgate saved )<[^>]* title="exactly ([^"]+)"'
_COMMAND = [sys.executable, "-c", "from proxy.cli.main import main; main()"]


def odd_receipts(team: str, now: float) -> list[Receipt]:
    """A measured feature, a suspended one, a discount, compaction and lost second attempts."""

    def a_call(n: int, **changes: Any) -> Receipt:
        started = now - 5 - n / 1000
        return a_receipt(
            n,
            call_id=f"{id_floor(started)[:-4]}{n:04x}",
            started=started,
            team=team,
            **(
                {"usage": Usage(input=1000), "list_nanos": 10**6 + n, "cost_nanos": 10**6 + n}
                | changes
            ),
        )

    measured = [
        a_call(
            n, feature="measured", conversation=f"{n:032x}", arm="control" if n % 2 else "treated",
            planning_nanos=None if n % 2 else 777, cost_nanos=(n % 2 + 1) * 10**7 + n,
            list_nanos=(n % 2 + 1) * 10**7 + n,
        )
        for n in range(140)
    ]  # fmt: skip
    return [
        *measured,
        a_call(900, feature="suspended", conversation="ab" * 16, planning_nanos=5 * 10**8),
        a_call(901, list_nanos=3 * 10**6 + 1, cost_nanos=2 * 10**6),
        a_call(902, compaction="facts", compaction_nanos=123_457),
        *hedged_receipts(a_call),
        *fast_path_receipts(a_call),
        a_call(
            930, attempt=1, feature="fallen back", model="gpt-5.6-terra", upstream="openai",
            route="openai/gpt-5.6-luna", usage=Usage(input=1000, output=100),
            list_nanos=LUNA_NANOS, cost_nanos=LUNA_NANOS, reroute_reason="fallback: server_error",
        ),
    ]  # fmt: skip


def hedged_receipts(a_call: Callable[..., Receipt]) -> list[Receipt]:
    """Terra outruns luna, luna outruns terra, and luna fails as the last route."""

    def an_attempt(n: int, attempt: int, model: str, nanos: int, **changes: Any) -> Receipt:
        return a_call(
            n, attempt=attempt, feature="hedged", model="gpt-5.6-terra",
            route=f"openai/gpt-5.6-{model}", upstream="openai",
            list_nanos=nanos, cost_nanos=nanos, **changes,
        )  # fmt: skip

    answered = {"usage": Usage(input=1000, output=100)}
    failed = {"outcome": Outcome.FAILED, "error": "ttft_deadline", "estimated": True, "ttft": None}
    return [
        an_attempt(910, 0, "terra", TERRA_NANOS, **answered),
        an_attempt(910, 1, "luna", 1000 * 200, final=False, **failed),
        an_attempt(911, 0, "terra", 1000 * 2_000, final=False, **failed),
        an_attempt(911, 1, "luna", LUNA_NANOS, **answered),
        an_attempt(912, 0, "luna", 1000 * 200, **failed),
    ]


def fast_path_receipts(a_call: Callable[..., Receipt]) -> list[Receipt]:
    """Luna answers for terra, luna is rejected for terra, a cached answer, and a comparison."""

    def an_attempt(
        n: int, answering: str, nanos: int, saved: int | None, **changes: Any
    ) -> Receipt:
        fields: dict[str, Any] = {
            "feature": "fast", "model": "gpt-5.6-terra", "route": f"openai/gpt-5.6-{answering}",
            "upstream": "openai", "usage": Usage(input=1000, output=100), "list_nanos": nanos,
            "cost_nanos": nanos, "fast_path_nanos": saved,
        }  # fmt: skip
        return a_call(n, **fields | changes)

    small, rejected = {"served_by": ServedBy.SMALL}, {"outcome": Outcome.FAILED, "final": False}
    hit = {"served_by": ServedBy.CACHE, "route": "", "upstream": "", "usage": None}
    return [
        an_attempt(920, "luna", LUNA_NANOS, TERRA_NANOS - LUNA_NANOS, **small),
        an_attempt(921, "luna", LUNA_NANOS, -LUNA_NANOS, attempt=0, **small, **rejected),
        an_attempt(921, "terra", TERRA_NANOS, None, attempt=1, served_by=ServedBy.LARGE),
        an_attempt(922, "", 0, TERRA_NANOS, **hit),
        an_attempt(923, "luna", LUNA_NANOS, -LUNA_NANOS, model="gpt-5.6-luna"),
    ]


@pytest.fixture(scope="module")
def gateway() -> Iterator[DemoGateway]:
    with demo_gateway(40) as serving:
        team = serving.store.teams.all()[0].id
        now = datetime.now(UTC).timestamp()  # noqa: TID251 - the gateway's own clock
        for receipt in odd_receipts(team, now):
            serving.store.keep(receipt)
        serving.store.drain.flush(20)
        place = LayoutScope(team, "suspended")
        serving.store.layouts.suspend(place, "it is dearer", now)
        yield serving


@pytest.fixture(scope="module")
def browser(gateway: DemoGateway) -> Iterator[httpx.Client]:
    now = datetime.now(UTC).timestamp()  # noqa: TID251 - a person's own clock
    code = gateway.store.users.create_link(FIRST_ADMIN, now=now)
    with httpx.Client(base_url=gateway.url, timeout=60, follow_redirects=True) as client:
        headers = {"origin": gateway.url}
        client.post("/admin/sign-in", data={"code": code}, headers=headers).raise_for_status()
        yield client


def command(gateway: DemoGateway, words: Sequence[str]) -> str:
    env = {"THRIFTGATE_FOLDER": str(gateway.folder)}
    done = subprocess.run(  # noqa: S603 - this package's own command
        [*_COMMAND, *words], env=env, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_terminal_pages_api_reports_and_mail_show_one_figure(
    gateway: DemoGateway, browser: httpx.Client
) -> None:
    now = datetime.now(UTC).timestamp()  # noqa: TID251 - as the gateway's
    clock = iter((now, now + 60.0))
    gateway.store.arms.measure(lambda: next(clock))  # it took a minute, so all go by it
    view = browser.get("/api/v1/savings").json()
    saved, direct = view["saved_nanos"], view["direct_nanos"]
    digits, shown = f"{usd_decimal(saved):f}", exact_usd(saved)
    first_line = f"Saved {shown} ({view['saved_share']:.1%}) against sending directly:"
    period = latest_days(now, 30)
    days = ("--from", str(period.first), "--to", str(period.days[-1].first))

    assert view["saved_low_nanos"] < saved < view["saved_high_nanos"]
    assert [entry["feature"] for entry in view["uncounted"]] == ["suspended"]
    documents = {
        "API's report": browser.get("/api/v1/reports/cost").json()["savings"],
        "savings --json": orjson.loads(command(gateway, ["savings", "--json"]))["headline"],
        "report --json": orjson.loads(command(gateway, ["report", "--json"]))["savings"],
        "report cost": orjson.loads(
            command(gateway, ["report", "cost", "--format", "json", *days])
        )["savings"],
        "demo --json": demo_document(gateway, now)["savings"],
        "webhook": event(gateway, period, now)["savings"],
    }
    assert {(name, document["saved_usd"]) for name, document in documents.items()} == {
        (name, digits) for name in documents
    }
    assert {document["fallbacks_cost_less_usd"] for document in documents.values()} == {
        f"{usd_decimal(TERRA_NANOS - LUNA_NANOS):f}"
    }
    assert view["fallback_nanos"] == TERRA_NANOS - LUNA_NANOS
    assert {document["direct_cost_usd"] for document in documents.values()} == {
        f"{usd_decimal(direct):f}"
    }
    measured = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    assert {document["measured_at"] for document in documents.values()} == {measured}
    assert view["measured_at"] == now
    assert re.search(r"Compared \d.* ago\.", command(gateway, ["savings"]))
    for page in ("/admin", "/admin/savings", "/admin/reports"):
        html = browser.get(page).text
        assert re.findall(SAVED_ON_PAGE, html) == [shown], page
    for words in (["savings"], ["report"], ["report", "cost", *days]):
        assert first_line in command(gateway, words), words
    text, html = mail(gateway, period, now)
    assert f"Saved: {shown} ({view['saved_share'] * 100:.1f} % of " in text
    assert f"exactly {shown}" in html


def test_a_fallback_to_a_cheaper_model_is_no_saving_anywhere(
    gateway: DemoGateway, browser: httpx.Client
) -> None:
    view = browser.get("/api/v1/savings", params={"feature": "fallen back"}).json()
    sentence = "Fallbacks to cheaper models: cost $0.00288 less by estimate, not counted as saved."

    assert (view["saved_nanos"], view["paid_nanos"]) == (0, LUNA_NANOS)
    assert view["direct_nanos"] == LUNA_NANOS
    assert view["fallback_nanos"] == TERRA_NANOS - LUNA_NANOS == 2_880_000
    for page in ("/admin/savings", "/admin/reports"):
        assert sentence in browser.get(page).text, page
    assert sentence in " ".join(command(gateway, ["report"]).split())


def test_a_lost_attempt_costs_extra_and_is_no_reply_of_another_model(
    gateway: DemoGateway, browser: httpx.Client
) -> None:
    view = browser.get("/api/v1/savings", params={"feature": "hedged"}).json()
    every = orjson.loads(command(gateway, ["savings", "--json"]))["headline"]
    paid = TERRA_NANOS + 1000 * 200 + 1000 * 2_000 + LUNA_NANOS + 1000 * 200
    routing = {step["name"]: step["change_usd"] for step in every["steps"]}["routing"]

    assert HEDGED_NANOS == 680_000
    assert (view["saved_nanos"], view["paid_nanos"]) == (HEDGED_NANOS, paid)
    assert view["direct_nanos"] == TERRA_NANOS + TERRA_NANOS + 1000 * 200
    assert routing == "-0.000680000"


def test_the_fast_path_is_counted_once_and_its_checks_are_taken_off(
    gateway: DemoGateway, browser: httpx.Client
) -> None:
    view = browser.get("/api/v1/savings", params={"feature": "fast"}).json()
    page = browser.get("/api/v1/fast-path", params={"feature": "fast"}).json()
    paid = TERRA_NANOS + 3 * LUNA_NANOS
    (row,) = page["features"]

    assert view["direct_nanos"] == 3 * TERRA_NANOS
    assert (view["paid_nanos"], view["saved_nanos"]) == (paid, 3 * TERRA_NANOS - paid)
    assert {step["name"]: -step["nanos"] for step in view["steps"] if step["nanos"]} == {
        "fast_path": 3 * TERRA_NANOS - paid
    }
    assert page["saved_nanos"] == row["saved_nanos"] == view["saved_nanos"]
    assert (row["calls"], row["cached_calls"], row["small_calls"], row["check_calls"]) == (
        4, 1, 1, 1
    )  # fmt: skip


def figures(gateway: DemoGateway, now: float) -> SavingsFigures:
    settings = read({"THRIFTGATE_FOLDER": str(gateway.folder)})
    catalog = read_catalog(settings)
    return SavingsFigures(gateway.store, lambda: catalog, lambda: now)


def demo_document(gateway: DemoGateway, now: float) -> Any:
    names = {team.id: team.name for team in gateway.store.teams.all()}
    catalog = read_catalog(read({"THRIFTGATE_FOLDER": str(gateway.folder)}))
    since = datetime.fromtimestamp(now, UTC)
    result = of_store(gateway.store, (), names=names, since=since, now=now, catalog=catalog)
    return orjson.loads(result.json())


def mail(gateway: DemoGateway, period: ReportPeriod, now: float) -> tuple[str, str]:
    content = report_content(
        gateway.store, a_scheduled_report(), period, figures(gateway, now)
    ).mail()
    return content.text, content.html


def event(gateway: DemoGateway, period: ReportPeriod, now: float) -> Any:
    content = report_content(gateway.store, a_scheduled_report(), period, figures(gateway, now))
    return orjson.loads(content.event("s", now).body)["data"]
