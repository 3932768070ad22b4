import pytest

from proxy.pages.resources.ledger.latency import LatencyResource
from proxy.store.sql.ids import call_ids
from proxy.store.store import Store
from tests.fakes.admin_api import DAY, NOW, AdminApi, of_team
from tests.fakes.receipts import a_receipt, an_engine_receipt

make_id = call_ids()
MONDAY_TO_NOW = {"from": "2026-11-23", "to": "2026-11-26"}


@pytest.fixture
def api(store: Store) -> AdminApi:
    return AdminApi(store, lambda ask: LatencyResource(ask, dict, lambda: NOW).router())


def a_call(n: int, days_ago: float = 0.2, **changes):
    fields = {"team": "a", "started": NOW - days_ago * DAY, "feature": "x"} | changes
    return a_receipt(n, **fields)


def a_recent_call(n: int, **changes):
    started = NOW - 90.0
    return a_receipt(n, call_id=make_id(started), **({"started": started} | changes))


def test_percentiles_are_within_the_stated_error(api: AdminApi) -> None:
    api.keep(*(a_call(n, ttft=0.1 * n) for n in range(1, 101)))
    body = api.ok("/latency")

    for name, exact in (("p50", 5.0), ("p95", 9.5), ("p99", 9.9)):
        assert body["total"][name] == pytest.approx(exact, rel=body["max_error"] + 0.005)
    assert body["max_error"] < 0.1


def test_the_heat_map_counts_each_call_once(api: AdminApi) -> None:
    api.keep(a_call(1, ttft=0.2), a_call(2, 2, ttft=5.0), a_call(3, 2, ttft=5.1))
    body = api.ok("/latency", unit="day", **MONDAY_TO_NOW)

    assert [sum(bucket) for bucket in body["counts"]] == [0, 2, 0, 1]
    assert [line["calls"] for line in body["lines"]] == [0, 2, 0, 1]
    assert all(len(bucket) == len(body["bounds"]) + 1 for bucket in body["counts"])
    assert body["lines"][0]["p50"] is None
    assert body["counts"][1][-1] == 2


def test_short_periods_are_cut_into_hours_unless_a_filter_needs_days(api: AdminApi) -> None:
    api.keep(a_call(1))
    two_days = {"from": "2026-11-25", "to": "2026-11-26"}

    assert len(api.ok("/latency", **two_days)["starts"]) == 48
    assert api.ok("/latency", feature="x", **two_days)["unit"] == "day"
    assert api.ok("/latency", **{"from": "2026-01-01"})["unit"] == "week"
    status, body = api.get("/latency", unit="hour", model="m", **two_days)
    assert (status, body["error"]["code"]) == (400, "invalid_period")


def test_hours_follow_the_time_zone_while_days_are_those_of_utc(api: AdminApi) -> None:
    request = {"from": "2026-11-25", "to": "2026-11-26", "tz": "Asia/Tokyo"}
    hours, days = api.ok("/latency", **request), api.ok("/latency", unit="day", **request)

    assert (hours["tz"], hours["starts"][0]) == ("Asia/Tokyo", 1_795_532_400)  # 15:00 of UTC
    assert (days["tz"], days["starts"][0] % 86_400) == ("UTC", 0)


def test_days_stand_beside_as_many_days_before(api: AdminApi) -> None:
    api.keep(a_call(1, 2, ttft=1.0), a_call(2, 6, ttft=4.0))
    body = api.ok("/latency", unit="day", **MONDAY_TO_NOW)

    assert (body["before_first"], body["before_last"]) == ("2026-11-19", "2026-11-22")
    assert body["before"]["calls"] == 1
    assert [value is None for value in body["before_p95"]] == [True, False, True, True]


def test_a_window_is_read_from_its_calls_with_any_filter(api: AdminApi) -> None:
    api.keep(a_recent_call(1, ttft=0.2), a_recent_call(2, ttft=0.4))
    body = api.ok("/latency", window="15m", by="model", model="model-1")

    assert (body["window"], body["unit"], body["total"]["calls"]) == ("15m", "minute", 1)


def test_weeks_begin_on_monday(api: AdminApi) -> None:
    body = api.ok("/latency", unit="week", **{"from": "2026-11-18", "to": "2026-11-26"})

    assert body["starts"] == [1_794_787_200 + n * 604_800 for n in range(2)]


def test_a_viewer_of_one_team_sees_no_latency_of_another(api: AdminApi) -> None:
    api.keep(a_call(1, ttft=0.2), a_call(2, team="b", feature="y", ttft=9.0))
    for unit in ("hour", "day"):
        mine = api.ok("/latency", of_team("a"), unit=unit, by="feature", **MONDAY_TO_NOW)
        assert mine["total"]["calls"] == 1
        assert [row["value"] for row in mine["rows"]] == ["x"]
    assert api.ok("/latency", of_team("a"), team="b")["total"]["calls"] == 0


def test_times_between_tokens_are_known_of_streams(api: AdminApi) -> None:
    api.keep(a_call(1, ttft=0.5, duration=2.7, streamed=True), a_call(2, streamed=False))
    body = api.ok("/latency", metric="itl")

    assert body["total"]["calls"] == 1
    assert body["total"]["p50"] == pytest.approx(2.2 / 22, rel=0.1)


def test_phases_of_engines_are_means(api: AdminApi) -> None:
    api.keep(*(an_engine_receipt(n, started=NOW - 100, upstream="gpu") for n in (2, 4)))
    (phase,) = api.ok("/latency")["phases"]

    assert (phase["upstream"], phase["calls"], phase["prefill"]) == ("gpu", 2, 0.375)


def test_last_minutes_are_those_of_own_teams(api: AdminApi) -> None:
    api.keep(a_recent_call(1, team="a"), a_recent_call(2, team="b"))
    body = api.ok("/minutes", of_team("a"), window="15m", by="team")

    assert [(row["value"], row["totals"]["calls"]) for row in body["rows"]] == [("a", 1)]
    assert (len(body["buckets"]), body["bucket_s"]) == (15, 60)
    assert api.get("/minutes", window="2h")[0] == 422
