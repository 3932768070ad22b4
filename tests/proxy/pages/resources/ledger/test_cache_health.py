import json
from dataclasses import replace
from typing import Any

import pytest

from dashboards.access import Role
from proxy.pages.resources.ledger.cache_health import CacheHealth
from proxy.records.feature_mode import LayoutScope
from proxy.records.mark_account import MarkAccountChange, StoredMarkAccount
from proxy.store.sql.ids import call_ids
from proxy.store.store import Store
from slo.objectives.objective import Metric, Objective
from slo.usage import Usage
from tests.fakes.admin_api import DAY, NOW, AdminApi, of_team
from tests.fakes.call_dependencies import catalog, route
from tests.fakes.receipts import a_receipt

make_id = call_ids()
MISSED: dict[str, Any] = {"conversation": "ab", "miss_tokens": 10}


@pytest.fixture
def api(store: Store) -> AdminApi:
    team = store.teams.create("Search", now=NOW)
    store.teams.create("Chat", now=NOW)
    floors = (
        Objective(name="warm", metric=Metric.CACHE, target=0.7, team="Search"),
        Objective(name="chat", metric=Metric.CACHE, target=0.5, team="Chat"),
        Objective(name="fast", metric=Metric.TTFT, target=0.95, under=1.0),
    )
    assert team.id

    def make(ask):
        listed = catalog(
            route("lab", regime="implicit"),
            replace(route("lab", regime="block-chain"), name="lab/n"),
            route("shop", regime="implicit"),
        )
        health = CacheHealth(store, ask, lambda: listed, lambda: floors, lambda: NOW)
        health.max_loss_nanos = 7
        return health.router()

    return AdminApi(store, make)


def a_call(n: int, days_ago: float = 1.0, **changes):
    started = NOW - days_ago * DAY + n
    fields = {"team": "a", "feature": "x", "model": "m", "route": "lab/m"} | changes
    return a_receipt(n, call_id=make_id(started), started=started, **fields)


def test_hit_rates_are_read_tokens_of_prompt_tokens(api: AdminApi) -> None:
    api.keep(
        a_call(1, usage=Usage(input=10, cache_read=90, output=5)),
        a_call(2, usage=Usage(input=40, write_5m=60)),
        a_call(3, 2, feature="y", usage=Usage(input=50, cache_read=50)),
    )
    body = api.ok("/cache")

    assert body["total"]["hit_rate"] == pytest.approx(140 / 300)
    assert [(layer["value"], layer["sums"]["hit_rate"]) for layer in body["series"]] == [
        ("x", 0.45),
        ("y", 0.5),
    ]
    assert body["hit_rates"][-2:] == [0.45, None]
    assert body["series"][0]["hit_rates"][-3:] == [None, 0.45, None]
    for by in ("team", "model", "route", "provider"):
        (one,) = api.ok("/cache", by=by)["series"]
        assert one["sums"]["prompt_tokens"] == 300


def test_routes_are_told_apart_by_the_rules_of_their_caches(api: AdminApi) -> None:
    api.keep(
        a_call(1, usage=Usage(input=10, cache_read=90)),
        a_call(2, route="shop/m", usage=Usage(input=100)),
        a_call(3, route="lab/n", usage=Usage(input=20, cache_read=30)),
        a_call(4, route="gone/m", usage=Usage(input=7)),
    )
    series = api.ok("/cache", by="regime")["series"]

    assert [(one["value"], one["sums"]["hit_rate"]) for one in series] == [
        ("implicit", 0.45),
        ("block-chain", 0.6),
        ("(none)", 0.0),
    ]
    assert [one["hit_rates"][-2] for one in series] == [0.45, 0.6, 0.0]


def test_reasons_are_summed_by_money_with_their_fix_and_an_example(api: AdminApi) -> None:
    newest = a_call(2, miss="diverged", miss_nanos=9, **MISSED)
    api.keep(
        a_call(1, miss="diverged", miss_nanos=9, feature="y", **MISSED),
        newest,
        a_call(3, miss="expired", miss_nanos=10, **MISSED),
    )
    body = api.ok("/cache")

    assert [(reason["reason"], reason["nanos"]) for reason in body["reasons"]] == [
        ("diverged", 18),
        ("expired", 10),
    ]
    assert (body["reasons"][0]["example"], body["reasons"][0]["tokens"]) == (newest.call_id, 20)
    assert all(reason["fix"] for reason in body["reasons"])
    assert {feature_reason["feature"] for feature_reason in body["feature_reasons"]} == {"x", "y"}
    assert body["features"][0]["sums"]["missed_nanos"] == 19
    assert body["features"][0]["mode"] == "observe"


def test_floors_are_those_of_caches_and_of_own_teams(api: AdminApi) -> None:
    search = next(team for team in api.store.teams.all() if team.name == "Search")

    assert [floor["objective"] for floor in api.ok("/cache")["floors"]] == ["warm", "chat"]
    mine = api.ok("/cache", of_team(search.id))["floors"]
    assert [(item["objective"], item["floor"]) for item in mine] == [("warm", 0.7)]


def test_a_viewer_of_one_team_sees_no_cache_of_another(api: AdminApi) -> None:
    api.keep(
        a_call(1, miss="expired", miss_nanos=1, **MISSED),
        a_call(2, team="b", feature="secret", miss="diverged", miss_nanos=1, **MISSED),
    )
    mine = api.ok("/cache", of_team("a"))

    assert {item["feature"] for item in mine["features"] + mine["feature_reasons"]} == {"x"}
    assert [reason["reason"] for reason in mine["reasons"]] == ["expired"]
    assert api.ok("/cache", of_team("a"), team="b")["total"]["prompt_tokens"] == 0


def keep_marks(api: AdminApi, *scopes: LayoutScope) -> None:
    accounts = [
        StoredMarkAccount(scope=scope, balance=-3, staked=5 + n, earned=2, calls=9)
        for n, scope in enumerate(scopes)
    ]
    changes = [MarkAccountChange(account=account) for account in accounts]
    api.store.mark_accounts.add(changes, NOW)


def test_cache_marks_are_summed_and_listed_by_feature(api: AdminApi) -> None:
    keep_marks(api, LayoutScope("a", "x", "claude"), LayoutScope("b", "y", "claude"))
    marks = api.ok("/cache")["marks"]

    assert [mark["feature"] for mark in marks["features"]] == ["y", "x"]
    assert marks["features"][1] == {
        "team": "a",
        "team_name": "a",
        "feature": "x",
        "family": "claude",
        "calls": 9,
        "staked_nanos": 5,
        "earned_nanos": 2,
        "net_nanos": -3,
        "lost_nanos": 3,
    }
    del marks["features"]
    assert marks == {
        "staked_nanos": 11,
        "earned_nanos": 4,
        "net_nanos": -7,
        "lost_nanos": 6,
        "max_loss_nanos": 7,
        "max_team_loss_nanos": 1_000_000_000,
    }


def test_a_viewer_of_one_team_sees_no_cache_marks_of_another(api: AdminApi) -> None:
    keep_marks(api, LayoutScope("a", "x", "claude"), LayoutScope("b", "secret", "claude"))
    marks = api.ok("/cache", of_team("a"))["marks"]

    assert [mark["feature"] for mark in marks["features"]] == ["x"]
    assert (marks["staked_nanos"], marks["lost_nanos"]) == (5, 3)
    assert api.ok("/cache", of_team("a"), team="b")["marks"]["features"] == []


def test_the_evidence_of_a_miss_shows_where_its_prompt_parts_from_the_last_hit(
    api: AdminApi,
) -> None:
    def prompt(day: str) -> str:
        return json.dumps({"messages": [{"role": "system", "content": f"Today is {day}."}]})

    hit = a_call(1, conversation="ab", prompt=prompt("Monday"))
    miss = a_call(2, miss="diverged", miss_detail="system changed", prompt=prompt("Tuesday"),
                  **MISSED)  # fmt: skip
    api.keep(hit, miss)
    result = api.ok(f"/cache/misses/{miss.call_id}")

    assert (result["hit_call_id"], result["detail"]) == (hit.call_id, "system changed")
    assert result["difference"]["part"] == "messages[0].content"
    assert (result["difference"]["missed"], result["difference"]["hit"]) == ("Tuesday.", "Monday.")


def test_without_kept_prompts_there_is_evidence_and_no_difference(api: AdminApi) -> None:
    miss = a_call(2, miss="expired", miss_detail="idle", **MISSED)
    api.keep(a_call(1, conversation="ab"), miss, plain := a_call(3))
    result = api.ok(f"/cache/misses/{miss.call_id}")

    assert (result["detail"], result["difference"], result["keeps_prompts"]) == (
        "idle",
        None,
        False,
    )
    assert api.get(f"/cache/misses/{plain.call_id}")[0] == 404


def test_evidence_is_for_those_who_may_see_calls_of_the_team(api: AdminApi) -> None:
    miss = a_call(2, miss="expired", prompt="{}", **MISSED)
    api.keep(miss)
    path = f"/cache/misses/{miss.call_id}"

    assert api.get(path, of_team("a"))[0] == 403
    assert api.get(path, of_team("b", role=Role.TEAM_ADMIN))[0] == 404
    assert api.get(path, of_team("a", role=Role.TEAM_ADMIN))[0] == 200
