from datetime import UTC, date, datetime
from typing import Any

import pytest

from dashboards.access import Viewer
from dashboards.cost_reports import cost_report
from dashboards.reports import ReportPeriod
from proxy.pages.resources.ledger.costs import Costs
from proxy.records.receipt import IDLE_TEAM, Outcome
from proxy.store.sql.ids import id_floor
from proxy.store.store import Store
from tests.fakes.admin_api import ADMIN, DAY, NOW, AdminApi, of_team
from tests.fakes.receipts import a_receipt

PROVIDERS = {"lab": "openai", "lab2": "openai", "other": ""}
DOLLAR = 10**9

TAGS = (("customer", "acme"),)


@pytest.fixture
def api(store: Store) -> AdminApi:
    def make(ask):
        return Costs(ask, lambda: PROVIDERS, lambda: NOW).router()

    return AdminApi(store, make)


def a_call(n: int, days_ago: float, **changes: Any):
    started = NOW - days_ago * DAY
    return a_receipt(n, call_id=f"{id_floor(started)[:-4]}{n:04x}", started=started, **changes)


def stack(body: Any) -> dict[str, int]:
    return {layer["value"]: layer["sums"]["cost_nanos"] for layer in body["series"]}


def test_costs_are_stacked_the_dearest_first_and_add_up(api: AdminApi) -> None:
    team = api.store.teams.create("Search", now=NOW)
    api.keep(
        a_call(1, 0.1, team=team.id, cost_nanos=5 * DOLLAR, feature=""),
        a_call(2, 3, team="b", cost_nanos=7 * DOLLAR, feature="chat"),
        a_call(3, 3, team="c", cost_nanos=1 * DOLLAR, feature="chat"),
        a_call(4, 4, team="d", cost_nanos=2 * DOLLAR, feature="chat"),
        a_call(5, 40, team="b", cost_nanos=3 * DOLLAR),
    )
    body = api.ok("/costs", top=2)

    assert [(layer["name"], layer["sums"]["cost_nanos"]) for layer in body["series"]] == [
        ("b", 7 * DOLLAR),
        ("Search", 5 * DOLLAR),
        ("(others)", 3 * DOLLAR),
    ]
    assert [layer["is_others"] for layer in body["series"]] == [False, False, True]
    assert (body["total"]["cost_nanos"], body["total"]["calls"]) == (15 * DOLLAR, 4)
    assert (body["before"]["cost_nanos"], body["series"][0]["before"]["calls"]) == (3 * DOLLAR, 1)
    assert len(body["starts"]) == len(body["series"][0]["cost_nanos"]) == 30
    assert body["series"][1]["cost_nanos"][-1] == 5 * DOLLAR
    assert body["unattributed_nanos"] == 5 * DOLLAR
    assert body["unattributed_share"] == pytest.approx(1 / 3)


def test_a_viewer_of_one_team_sees_nothing_of_another(api: AdminApi) -> None:
    api.keep(a_call(1, 1, team="a", cost_nanos=3), a_call(2, 1, team="b", cost_nanos=4))
    for by in ("team", "feature", "model", "key", "user", "route", "provider"):
        body = api.ok("/costs", of_team("a"), by=by)
        assert (body["total"]["cost_nanos"], body["month"]["spent_nanos"]) == (3, 3)
    nothing = api.ok("/costs", of_team("a"), team="b")
    assert (nothing["series"], nothing["total"]["calls"]) == ([], 0)
    assert api.ok("/costs", of_team())["total"]["calls"] == 0
    assert stack(api.ok("/costs", ADMIN)) == {"a": 3, "b": 4}


def test_filters_are_named_by_the_teams_that_a_viewer_may_see(api: AdminApi) -> None:
    own, other = (api.store.teams.create(name, now=NOW).id for name in ("Search", "Support"))
    keys = [api.store.teams.create_key(team, "ci", now=NOW)[0].id for team in (own, other)]

    def names(viewer: Viewer, **filters: str) -> dict[str, str]:
        return dict(api.ok("/costs", viewer, **filters)["filter_names"])

    assert names(of_team(own), team=own, key=keys[0]) == {own: "Search", keys[0]: "ci"}
    assert names(of_team(own), team=other, key=keys[1]) == {}
    assert names(ADMIN, team=other, key=keys[1]) == {other: "Support", keys[1]: "ci"}


def test_every_filter_drills_down_to_what_its_layer_showed(api: AdminApi) -> None:
    key = api.store.teams.create_key(api.store.teams.create("x", now=NOW).id, "ci", now=NOW)[0]
    api.keep(
        a_call(1, 1, route="lab/m", upstream="lab", key_id=key.id, cost_nanos=1, feature=""),
        a_call(2, 1, route="lab2/m", upstream="lab2", cost_nanos=2, feature="f", user=""),
        a_call(3, 1, route="other/n", upstream="other", cost_nanos=4, feature="f", tags=TAGS),
    )
    assert api.ok("/costs", tag="customer:acme")["total"]["cost_nanos"] == 4
    assert api.ok("/costs", tag="customer:(none)")["total"]["cost_nanos"] == 3
    for by in ("team", "feature", "model", "key", "user", "route", "provider"):
        layers = stack(api.ok("/costs", by=by))
        assert sum(layers.values()) == 7
        for value, nanos in layers.items():
            assert api.ok("/costs", **{by: value})["total"]["cost_nanos"] == nanos
    assert stack(api.ok("/costs", by="provider")) == {"openai": 3, "other": 4}
    assert stack(api.ok("/costs", by="model")) == {"m": 3, "n": 4}
    assert stack(api.ok("/costs", by="feature")) == {"f": 6, "(none)": 1}
    assert "ci" in {layer["name"] for layer in api.ok("/costs", by="key")["series"]}


def test_the_total_is_that_of_the_cost_report_to_the_nano_dollar(api: AdminApi) -> None:
    api.keep(*(a_call(n, n / 10, cost_nanos=10**8 + n * n) for n in range(400)))
    for tz in ("UTC", "Asia/Kathmandu", "America/New_York"):
        body = api.ok("/costs", by="model", tz=tz, **{"from": "2026-10-20", "to": "2026-11-22"})
        period = ReportPeriod(first=date(2026, 10, 20), end=date(2026, 11, 23), zone=tz)
        assert (
            body["total"]["cost_nanos"]
            == cost_report(api.store.reports, period, ("model", "day")).total.cost_nanos
        )
        assert (
            sum(sum(filter(None, layer["cost_nanos"])) for layer in body["series"])
            == (body["total"]["cost_nanos"])
        )


def test_idle_time_of_engines_is_a_cost_and_no_call(api: AdminApi) -> None:
    api.keep(
        a_call(1, 1, team="a", cost_nanos=30),
        a_call(2, 1, team=IDLE_TEAM, feature="idle:gpu", cost_nanos=10, final=False, usage=None),
    )
    total = api.ok("/costs")["total"]

    assert (total["cost_nanos"], total["idle_nanos"], total["nanos_per_call"]) == (40, 10, 30)
    assert total["attempts"] == 1


@pytest.mark.parametrize("only", [{}, {"user": "u"}])
def test_refused_calls_do_not_make_answered_ones_cheaper(
    api: AdminApi, only: dict[str, str]
) -> None:
    refused = {"outcome": Outcome.REFUSED, "usage": None, "ttft": None, "list_nanos": None}
    api.keep(
        a_call(1, 1, user="u", cost_nanos=30),
        *(a_call(n, 1, user="u", cost_nanos=None, **refused) for n in (2, 3)),
    )
    total = api.ok("/costs", **only)["total"]

    assert (total["calls"], total["answered"], total["errors"]) == (3, 1, 0)
    assert (total["nanos_per_1k_calls"], total["nanos_per_1k_attempts"]) == (30_000, 30_000)


def test_unpriced_attempts_are_said_and_their_cost_is_unknown(api: AdminApi) -> None:
    unknown = {"cost_nanos": None, "list_nanos": None}
    api.keep(a_call(1, 1, team="a", **unknown), a_call(2, 1, team="b", cost_nanos=9))
    body = api.ok("/costs")

    assert stack(body) == {"a": None, "b": 9}
    assert body["unpriced_share"] == 0.5
    assert body["total"]["cost_nanos"] == 9


def test_the_current_month_is_forecast_whatever_the_period(api: AdminApi) -> None:
    api.keep(*(a_call(n, n, cost_nanos=DOLLAR) for n in range(60)))
    month = api.ok("/costs", **{"from": "2026-10-01", "to": "2026-10-02"})["month"]

    assert (month["month"], month["spent_nanos"]) == ("2026-11", 26 * DOLLAR)
    assert month["forecast_nanos"] == 30 * DOLLAR
    assert month["low_nanos"] == month["high_nanos"] == 30 * DOLLAR
    # The call at the hour of now a month ago is beside none.
    assert (month["before_nanos"], month["before_first"]) == (25 * DOLLAR, "2026-10-01")
    assert month["before_last"] == "2026-10-26"
    assert month["known_days"] == 28


def test_costs_of_calls_without_a_price_are_unknown_and_not_nothing(api: AdminApi) -> None:
    api.keep(*(a_call(n, n, cost_nanos=None, list_nanos=None) for n in range(60)))
    body = api.ok("/costs")
    month = body["month"]

    assert (month["spent_nanos"], month["before_nanos"], month["forecast_nanos"]) == (None,) * 3
    assert set(body["before_nanos"]) == {None}


@pytest.mark.parametrize(("minutes", "before"), [(5, None), (119, 8)])
def test_today_is_compared_with_as_many_minutes_of_yesterday(
    store: Store, minutes: int, before: int | None
) -> None:
    midnight = NOW // DAY * DAY
    moment = midnight + 60 * minutes
    made = AdminApi(store, lambda ask: Costs(ask, lambda: PROVIDERS, lambda: moment).router())
    made.keep(*(a_call(n, (NOW - midnight) / DAY + 1 - n / 96, cost_nanos=1) for n in range(96)))
    made.keep(a_call(200, (NOW - midnight - 60) / DAY, cost_nanos=1))
    today = str(datetime.fromtimestamp(midnight, UTC).date())
    body = made.ok("/costs", by="team", **{"from": today, "to": today})

    assert body["before"]["cost_nanos"] == before
    assert body["table"]["total"]["change_nanos"] == (None if before is None else 1 - before)


@pytest.mark.parametrize("last", ["2026-11-26", "2026-11-30"])
def test_costs_of_a_month_so_far_are_beside_the_same_days_a_month_ago(
    api: AdminApi, last: str
) -> None:
    hour = 1 / 24
    api.keep(
        a_call(1, 1, cost_nanos=5),
        a_call(2, 27, cost_nanos=7),
        a_call(3, 31 + hour, cost_nanos=11),
        a_call(4, 31 - hour, cost_nanos=13),
    )
    days = {"from": "2026-11-01", "to": last}
    before = {
        compare: api.ok("/costs", compare=compare, **days) for compare in ("previous", "month")
    }
    month = before["month"]

    assert (before["previous"]["before"]["cost_nanos"], month["before"]["cost_nanos"]) == (31, 11)
    assert (month["before_first"], month["before_last"]) == ("2026-10-01", "2026-10-26")
    assert (len(month["before_nanos"]), sum(month["before_nanos"])) == (26, 24)


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ({"tz": "Mars/Olympus"}, "invalid_time_zone", "tz"),
        ({"from": "2026-11-02", "to": "2026-11-01"}, "invalid_period", "from"),
        ({"from": "1999-11-02"}, "invalid_period", "from"),
        ({"unit": "hour"}, "invalid_period", "unit"),
        ({"by": "planet"}, "invalid_parameter", "by"),
        ({"from": "soon"}, "invalid_parameter", "from"),
        ({"top": 0}, "invalid_parameter", "top"),
    ],
)
def test_a_faulty_question_is_told_its_fault(api: AdminApi, query, code, param) -> None:
    status, body = api.get("/costs", **query)

    assert status in {400, 422}
    assert (body["error"]["code"], body["error"]["param"]) == (code, param)


def test_empty_fields_of_a_form_are_no_filters(api: AdminApi) -> None:
    api.keep(a_call(1, 1, cost_nanos=3))

    assert api.ok("/costs", **{"from": "", "to": "", "team": "", "user": ""})["total"]["calls"] == 1
