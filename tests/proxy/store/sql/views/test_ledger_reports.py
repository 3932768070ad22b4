from collections import defaultdict
from datetime import UTC, date, datetime

import pytest
from sqlalchemy import Engine

from dashboards.reports import Part, Percentiles, ReportPeriod, Reports, Times
from proxy.records.receipt import Outcome
from proxy.store.sql.ids import call_ids
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.ledger_reports import LedgerReports
from slo.usage import Usage
from tests.fakes.receipts import a_receipt

BY_MODEL: tuple[Part, ...] = ("model",)
BY_REQUESTED: tuple[Part, ...] = ("requested",)
MONTH = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 12, 1), zone="Asia/Kathmandu")
FIRST = MONTH.bounds[0]
# one every 37 minutes for two months, so that the zone's midnights at 18:15 UTC matter
RECEIPTS = [a_receipt(n, started=FIRST - 10**6 + n * 2220.0) for n in range(2400)]


@pytest.fixture
def reports(engine: Engine) -> LedgerReports:
    inserter(engine)(RECEIPTS)
    return LedgerReports(engine)


def test_a_months_cost_by_team_is_that_of_its_calls(reports: Reports) -> None:
    expected: dict[str, int] = defaultdict(int)
    start, end = MONTH.bounds
    for receipt in RECEIPTS:
        if start <= receipt.started < end and receipt.cost_nanos is not None:
            expected[receipt.team] += receipt.cost_nanos

    assert {row.team: row.cost_nanos for row in reports.spend(MONTH)} == expected
    assert len(expected) == 2


def test_days_add_up_to_their_month(reports: Reports) -> None:
    days = [row for day in MONTH.days for row in reports.spend(day, ())]
    (month,) = reports.spend(MONTH, ())

    assert len(days) == 30
    assert sum(day.calls for day in days) == month.calls
    assert sum(day.cost_nanos or 0 for day in days) == month.cost_nanos
    assert sum(day.usage.prompt_tokens for day in days) == month.usage.prompt_tokens


def test_a_call_belongs_to_the_day_it_has_there(engine: Engine, reports: Reports) -> None:
    (start, _) = MONTH.bounds
    assert datetime.fromtimestamp(start, UTC).minute == 15
    inserter(engine)(
        [
            a_receipt(1, call_id="call_before", team="t", started=start - 0.001),
            a_receipt(1, call_id="call_at", team="t", started=start, cost_nanos=7),
        ]
    )
    (first_day,) = (row for row in reports.spend(MONTH.days[0]) if row.team == "t")

    assert (first_day.calls, first_day.cost_nanos) == (1, 7)


def test_a_report_is_split_by_what_is_asked_for_and_adds_up(reports: Reports) -> None:
    by_all = reports.spend(MONTH, ("model", "team", "feature", "route"))
    by_team = reports.spend(MONTH)

    assert {row.feature for row in by_all} == {"", "support", "coding"}
    assert all(row.feature is None and row.model is None for row in by_team)
    assert [row.team for row in by_team] == sorted(row.team or "" for row in by_team)
    assert sum(row.calls for row in by_all) == sum(row.calls for row in by_team)
    assert sum(row.usage.cache_read for row in by_all) == sum(
        row.usage.cache_read for row in by_team
    )


def test_a_period_without_calls_has_no_rows(reports: Reports) -> None:
    empty = ReportPeriod(first=date(2020, 1, 1), end=date(2020, 2, 1), zone="UTC")

    assert reports.spend(empty) == []
    assert reports.spend(empty, ()) == []


def test_means_are_over_calls_that_have_them(engine: Engine) -> None:
    inserter(engine)(
        [
            a_receipt(0, started=FIRST, ttft=0.5, duration=2.0),
            a_receipt(2, started=FIRST, ttft=None, duration=4.0),
            a_receipt(4, started=FIRST, ttft=9.0, duration=99.0, final=False),
        ]
    )
    (row,) = LedgerReports(engine).spend(MONTH)

    assert (row.ttft, row.duration, row.calls, row.attempts) == (0.5, 3.0, 2, 3)


def test_a_period_of_attempts_whose_calls_ended_elsewhere_has_no_means(engine: Engine) -> None:
    inserter(engine)([a_receipt(4, started=FIRST, final=False)])
    (row,) = LedgerReports(engine).spend(MONTH)

    assert (row.ttft, row.duration, row.calls) == (None, None, 0)


def test_an_unknown_price_is_shown_as_unknown_and_never_as_nothing(engine: Engine) -> None:
    unknown = {"list_nanos": None, "cost_nanos": None, "started": FIRST, "feature": ""}
    inserter(engine)(
        [
            a_receipt(0, model="priced", started=FIRST, feature="", cost_nanos=5),
            a_receipt(2, model="unpriced", **unknown, usage=Usage(input=9)),
            a_receipt(4, model="mixed", started=FIRST, feature="", cost_nanos=7),
            a_receipt(6, model="mixed", **unknown),
            a_receipt(8, model="unused", **unknown, usage=None, outcome=Outcome.REFUSED),
            a_receipt(10, model="unmetered", **unknown, usage=None, outcome=Outcome.ANSWERED),
        ]
    )
    reports = LedgerReports(engine)
    by_requested = reports.spend(MONTH, BY_REQUESTED)
    costs = {row.requested: (row.cost_nanos, row.unpriced) for row in by_requested}

    assert costs == {
        "priced": (5, 0),
        "unpriced": (None, 1),
        "mixed": (7, 1),
        "unused": (0, 0),
        "unmetered": (None, 1),
    }
    (total,) = reports.spend(MONTH)
    assert (total.cost_nanos, total.unpriced, total.errors) == (12, 3, 0)


def test_a_teams_features_are_those_its_calls_named(engine: Engine) -> None:
    places = [("a", "search"), ("a", ""), ("a", "search"), ("b", "chat")]
    inserter(engine)(
        [a_receipt(n, team=team, feature=feature) for n, (team, feature) in enumerate(places)]
    )
    reports = LedgerReports(engine)

    assert reports.features("a") == ["", "search"]
    assert reports.features("b") == ["chat"]
    assert reports.features("c") == []


def test_keys_and_users_have_rows_of_their_own_and_add_up(engine: Engine) -> None:
    make, start = call_ids(), MONTH.bounds[0]
    receipts = [
        a_receipt(
            n,
            call_id=make(start + n),
            started=start + n,
            team="t",
            key_id=f"key_{n % 3}",
            user=f"user{n % 5}",
            cost_nanos=n,
        )
        for n in range(60)
    ]
    inserter(engine)(receipts)
    reports = LedgerReports(engine)

    by_key = reports.spend(MONTH, ("team", "key"))
    by_user = reports.spend(MONTH, ("team", "user"))

    assert [(row.key, row.cost_nanos) for row in by_key] == [
        (f"key_{key}", sum(range(key, 60, 3))) for key in range(3)
    ]
    assert [(row.user, row.cost_nanos) for row in by_user] == [
        (f"user{user}", sum(range(user, 60, 5))) for user in (4, 3, 2, 1, 0)
    ]
    assert sum(row.usage.prompt_tokens for row in by_user) == sum(
        row.usage.prompt_tokens for row in by_key
    )


def test_a_report_by_user_leaves_out_what_was_before_and_after(engine: Engine) -> None:
    make, (start, end) = call_ids(), MONTH.bounds
    inserter(engine)(
        [
            a_receipt(n, call_id=make(started), started=started, team="t", user="u")
            for n, started in enumerate((start - 1.0, float(start), end - 1.0, float(end)))
        ]
    )

    by_user: tuple[Part, ...] = ("user",)
    (row,) = LedgerReports(engine).spend(MONTH, by_user)

    assert row.attempts == 2


def id_of(n: int, seconds: float = 0.0) -> str:
    """The id of a call that arrives so long after the first moment of the month."""
    return f"call_{int((FIRST + seconds) * 1000) + n:012x}7{n:019x}"


def test_a_fallbacks_calls_are_booked_by_the_model_that_answered(engine: Engine) -> None:
    fell_back = {"model": "big", "feature": "chat", "team": "t", "started": FIRST}
    failed = {"usage": None, "cost_nanos": None, "final": False, "outcome": Outcome.FAILED}
    inserter(engine)(
        [
            a_receipt(0, call_id=id_of(0), **fell_back, route="one/big", cost_nanos=10),
            a_receipt(2, call_id=id_of(2), **fell_back, route="one/big", **failed),
            a_receipt(2, call_id=id_of(2), **fell_back, attempt=1, route="two/small", cost_nanos=3),
            a_receipt(
                4,
                call_id=id_of(4),
                **fell_back | {"model": "small"},
                route="three/small",
                cost_nanos=4,
            ),
            a_receipt(
                6, call_id=id_of(6), **fell_back | {"model": "ft:x"}, route="one/ft:*", cost_nanos=5
            ),
        ]
    )
    reports = LedgerReports(engine)

    answered = {row.model: (row.calls, row.cost_nanos) for row in reports.spend(MONTH, BY_MODEL)}
    assert answered == {"big": (1, 10), "ft:x": (1, 5), "small": (2, 7)}
    requested = {
        row.requested: (row.calls, row.cost_nanos) for row in reports.spend(MONTH, BY_REQUESTED)
    }
    assert requested == {"big": (2, 13), "ft:x": (1, 5), "small": (1, 4)}
    both = reports.spend(MONTH, ("team", "model", "requested"))
    assert [(row.model, row.requested, row.cost_nanos) for row in both] == [
        ("big", "big", 10), ("ft:x", "ft:x", 5), ("small", "big", 3), ("small", "small", 4),
    ]  # fmt: skip
    assert sum(row.calls for row in reports.spend(MONTH, ("model", "user"))) == 4


def test_percentiles_are_of_calls_that_went_to_an_upstream(engine: Engine) -> None:
    timed = [
        a_receipt(
            n,
            call_id=id_of(n),
            started=FIRST,
            team="t",
            route="up/fast",
            ttft=None if n == 100 else n / 100,
            duration=n / 10,
        )
        for n in range(1, 101)
    ]
    refused = a_receipt(
        0,
        call_id=id_of(0),
        started=FIRST,
        team="t",
        route="",
        outcome=Outcome.REFUSED,
        ttft=None,
        duration=0.0,
    )
    before = a_receipt(0, call_id=id_of(0, -1), started=FIRST - 1, team="t")
    inserter(engine)([*timed, refused, before])
    reports = LedgerReports(engine)

    times = Times(Percentiles(0.5, 0.95, 0.99), Percentiles(5.0, 9.5, 9.9), 100)
    assert reports.times(MONTH, ()) == {(): times}
    assert reports.times(MONTH, ("model", "team")) == {(): times, ("t", "fast"): times}
    empty = ReportPeriod(first=date(2020, 1, 1), end=date(2020, 2, 1), zone="UTC")
    assert reports.times(empty) == {}
