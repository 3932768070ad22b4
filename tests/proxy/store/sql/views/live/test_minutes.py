from typing import Any

from sqlalchemy import Engine

from dashboards.reports import ALL_CALLS, SpendFilter, tag_part
from dashboards.views.minutes import MinutesView
from proxy.records.receipt import IDLE_TEAM, Outcome, Receipt
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.live.minutes import MinutesQuestion, minutes_view
from proxy.store.sql.views.readers import Readers
from tests.fakes.receipts import START, a_receipt

NOW = int(START) // 300 * 300 + 130.0
THIS_MINUTE = NOW - 10.0


def a_call(n: int, started: float, **changes: Any) -> Receipt:
    call_id = f"{id_floor(started)[:-6]}{n:06x}"
    return a_receipt(n, call_id=call_id, started=started, **changes)


def minutes(engine: Engine, **changes: Any) -> MinutesView:
    question: dict[str, Any] = {"window": "1h", "by": "route", "only": ALL_CALLS, "now": NOW}
    return minutes_view(Readers(engine), MinutesQuestion(**(question | changes)))


def test_window_ends_with_the_minute_that_runs_and_begins_an_hour_before(engine: Engine) -> None:
    inserter(engine)(
        [
            a_call(1, THIS_MINUTE - 3_600, route="lab/old"),
            a_call(2, THIS_MINUTE - 3_500, route="lab/m"),
            a_call(3, THIS_MINUTE, route="lab/m", outcome=Outcome.FAILED, error="upstream_timeout"),
            a_call(4, THIS_MINUTE, route="lab/m", final=False),
            a_call(5, THIS_MINUTE, team=IDLE_TEAM),
        ]
    )
    shown = minutes(engine)

    assert (len(shown.starts), shown.bucket_s, shown.is_cut) == (60, 60, False)
    assert [bucket.calls for bucket in shown.buckets if bucket.calls] == [1, 1]
    assert (shown.buckets[-1].calls, shown.buckets[-1].errors) == (1, 1)
    assert [(row.value, row.totals.calls) for row in shown.rows] == [("lab/m", 2)]
    assert [(error.error, error.calls) for error in shown.errors] == [("upstream_timeout", 1)]


def test_call_counts_in_the_bucket_that_it_arrived_in(engine: Engine) -> None:
    minute = int(NOW) // 60 * 60
    inserter(engine)([a_call(n, minute + late) for n, late in enumerate((-0.1, 0.0, 59.9))])

    assert [bucket.calls for bucket in minutes(engine).buckets[-2:]] == [1, 2]


def test_attempts_after_the_end_of_the_window_are_neither_in_its_bars_nor_in_its_total(
    engine: Engine,
) -> None:
    end = int(NOW) // 60 * 60 + 60.0
    first = a_call(1, end - 1, route="lab/m", final=False, outcome=Outcome.FAILED)
    late = a_receipt(1, call_id=first.call_id, attempt=1, started=end + 1, route="lab/m")
    inserter(engine)([first, late])
    shown = minutes(engine)

    assert shown.total.attempts == sum(bucket.attempts for bucket in shown.buckets) == 1


def test_refusals_of_the_gateway_are_no_errors_of_a_route(engine: Engine) -> None:
    refused: dict[str, Any] = {
        "outcome": Outcome.REFUSED,
        "error": "budget_exceeded",
        "route": "lab/m",
    }
    inserter(engine)([a_call(1, THIS_MINUTE, **refused), a_call(2, THIS_MINUTE, route="lab/m")])
    shown = minutes(engine)

    assert (shown.total.calls, shown.total.errors, shown.total.refused) == (2, 0, 1)
    assert [(refusal.error, refusal.calls) for refusal in shown.refusals] == [
        ("budget_exceeded", 1)
    ]
    assert shown.errors == []


def test_team_sees_its_own_calls_alone_by_its_name(engine: Engine) -> None:
    inserter(engine)([a_call(1, THIS_MINUTE, team="a"), a_call(2, THIS_MINUTE, team="b")])
    shown = minutes(engine, by="team", only=SpendFilter(teams=frozenset({"a"})))

    assert [row.value for row in shown.rows] == ["a"]
    assert shown.total.calls == 1


def test_model_is_the_one_that_answered_and_no_feature_has_a_name(engine: Engine) -> None:
    inserter(engine)([a_call(1, THIS_MINUTE, model="auto", route="lab/model-1", feature="")])

    assert [row.value for row in minutes(engine, by="model").rows] == ["model-1"]
    assert [row.value for row in minutes(engine, by="feature").rows] == ["(none)"]


def test_tag_tells_calls_apart_by_its_value_and_by_none(engine: Engine) -> None:
    tagged = a_call(1, THIS_MINUTE, tags=(("customer", "acme"),))
    inserter(engine)([tagged, a_call(2, THIS_MINUTE), a_call(3, THIS_MINUTE)])
    shown = minutes(engine, by=tag_part("customer"))

    assert [(row.value, row.totals.calls) for row in shown.rows] == [("(none)", 2), ("acme", 1)]


def test_window_of_too_many_calls_begins_with_the_first_whole_bucket_that_was_read(
    engine: Engine,
) -> None:
    inserter(engine)([a_call(n, THIS_MINUTE - 60 * n) for n in range(4)])
    shown = minutes(engine, limit=2)

    assert shown.is_cut
    assert [bucket.calls for bucket in shown.buckets] == [1, 1]


def test_window_of_too_many_calls_in_its_last_bucket_begins_within_that(engine: Engine) -> None:
    inserter(engine)([a_call(n, THIS_MINUTE + n / 10) for n in range(30)])
    shown = minutes(engine, limit=20)

    assert shown.is_cut
    assert shown.since == int(THIS_MINUTE) + 1
    assert [bucket.calls for bucket in shown.buckets] == [20]


def test_window_of_too_many_calls_in_its_last_second_is_that_second(engine: Engine) -> None:
    last = int(NOW) // 60 * 60 + 59
    inserter(engine)([a_call(n, last + n / 100) for n in range(30)])
    shown = minutes(engine, limit=20, now=last + 0.5)

    assert (shown.is_cut, shown.since) == (True, last)
    assert [bucket.calls for bucket in shown.buckets] == [30]


def test_attempts_before_the_last_cost_and_callers_who_left_are_in_no_percentile(
    engine: Engine,
) -> None:
    inserter(engine)(
        [
            a_call(1, THIS_MINUTE, route="lab/small", final=False, cost_nanos=3),
            a_call(2, THIS_MINUTE, route="lab/m", cost_nanos=5, duration=1.0, ttft=0.5),
            a_call(3, THIS_MINUTE, outcome=Outcome.HUNG_UP, cost_nanos=0, duration=60.0, ttft=9.0),
        ]
    )
    total = minutes(engine).total

    assert (total.calls, total.errors, total.cost_nanos) == (2, 0, 8)
    assert (total.p95, total.ttft_p95) == (1.0, 0.5)


def test_six_hours_have_buckets_of_five_minutes(engine: Engine) -> None:
    shown = minutes(engine, window="6h")

    assert (len(shown.starts), shown.bucket_s, shown.total.calls) == (72, 300, 0)


def test_the_slowest_first_token_of_a_value_has_its_phase_for_who_sees_calls(
    engine: Engine,
) -> None:
    failed: dict[str, Any] = {"outcome": Outcome.FAILED, "final": False, "duration": 2.0}
    inserter(engine)(
        [
            a_call(1, THIS_MINUTE, route="lab/m", ttft=0.5, overhead=0.001, queue=None),
            a_call(2, THIS_MINUTE, route="lab/other", ttft=None, **failed),
            a_call(2, THIS_MINUTE, route="lab/m", attempt=1, ttft=2.5, overhead=0.001),
        ]
    )
    (row,) = [row for row in minutes(engine, sees_calls=True).rows if row.value == "lab/m"]

    assert row.slowest is not None
    assert (row.slowest.ttft, row.slowest.phase, row.slowest.phase_s) == (
        2.5,
        "earlier attempts",
        2.0,
    )
    assert [row.slowest for row in minutes(engine).rows] == [None, None]
