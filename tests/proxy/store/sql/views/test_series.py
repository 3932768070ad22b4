from datetime import date

from dashboards.report_periods import time_buckets
from dashboards.reports import ALL_CALLS, ReportPeriod
from dashboards.views.costs import CostDimension
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.value_sums import OTHER_VALUES
from proxy.store.sql.views.series import SeriesQuestion, series_name, value_names
from proxy.store.store import Store

PERIOD = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 11, 3), zone="UTC")


def question(by: CostDimension) -> SeriesQuestion[CostDimension]:
    return SeriesQuestion(
        by=by,
        top=3,
        period=PERIOD,
        buckets=time_buckets(PERIOD, "day"),
        only=ALL_CALLS,
        providers={"lab": "acme", "own": "own", "other": ""},
    )


def test_providers_are_read_as_upstreams_with_another_label() -> None:
    assert (question("provider").part, question("team").part) == ("upstream", "team")
    assert question("provider").labels == {"lab": "acme"}
    assert question("team").labels == {}


def test_the_frame_of_a_view_names_its_last_day_and_its_buckets() -> None:
    frame = question("team").frame

    assert (frame["first"], frame["last"]) == (date(2026, 11, 1), date(2026, 11, 2))
    assert (len(frame["starts"]), frame["end"]) == (2, PERIOD.bounds[1])


def test_a_series_without_a_value_and_that_of_all_others_have_names_of_their_own() -> None:
    assert series_name("", {}) == {"value": "(none)", "name": "(none)", "is_others": False}
    assert series_name("t1", {"t1": "Search"})["name"] == "Search"
    assert series_name(OTHER_VALUES, {})["is_others"]


def test_keys_of_one_name_are_told_apart_by_their_teams(store: Store) -> None:
    teams = [store.teams.create(name, now=0.0) for name in ("search", "support")]
    keys = [store.teams.create_key(team.id, "production", now=0.0)[0].id for team in teams]
    single = store.teams.create_key(teams[0].id, "batch", now=0.0)[0].id
    with read_transaction(store._engine) as connection:
        names = value_names(connection, "key", [*keys, single])
        visible = value_names(connection, "key", keys, [teams[0].id])

    assert names == {
        keys[0]: "production of search",
        keys[1]: "production of support",
        single: "batch",
    }
    assert visible == {keys[0]: "production"}
