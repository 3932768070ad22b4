from collections.abc import Iterable
from typing import Any

import pytest
from sqlalchemy import Engine

from dashboards.board import MissedTime, Reroute
from proxy.records.receipt import Outcome, Receipt
from proxy.services.objectives.objective_alerts import ObjectiveAlerts
from proxy.services.objectives.objective_state import TrackedObjective, track_objective
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.fallback_rows import RecentFallbacks, _calls
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.outbox import Outbox
from slo.alert import Severity
from slo.controller.state import ControllerState
from slo.controller.transitions import StateChange
from slo.objectives.objective import Enforce, Metric, Objective
from tests.fakes.alerts import an_alert
from tests.fakes.receipts import START, a_receipt

HEALTHY, DEGRADED, PINNED = (
    ControllerState.HEALTHY,
    ControllerState.DEGRADED,
    ControllerState.PINNED,
)


@pytest.fixture
def fallbacks(engine: Engine) -> RecentFallbacks:
    return RecentFallbacks(engine)


def keep(engine: Engine, *receipts: Receipt) -> None:
    inserter(engine)(list(receipts))


def a_moved(n: int, **changes: Any) -> Receipt:
    return a_receipt(n, reroute_reason=f"chat-ttft: fallback level {n}", **changes)


def test_of_moved_calls_the_newest_come_first_and_no_more_than_are_wanted(
    engine, fallbacks
) -> None:
    keep(engine, *(a_moved(n) if n % 2 else a_receipt(n) for n in range(10)))

    calls = fallbacks.calls(3)

    assert [call.call_id for call in calls] == [a_receipt(n).call_id for n in (9, 7, 5)]
    assert [call.why for call in calls] == [f"chat-ttft: fallback level {n}" for n in (9, 7, 5)]
    assert calls[0].at == START + 9


def test_a_moved_call_says_what_it_asked_for_and_what_answered(engine, fallbacks) -> None:
    team = Teams(engine).create("acme", now=START)
    keep(engine, a_moved(1, team=team.id, feature="chat", model="big", route="lab/small"))
    keep(engine, a_moved(2, team="gone"))

    nobodys, own = fallbacks.calls(10)

    assert (own.team, own.feature) == ("acme", "chat")
    assert (own.model, own.route) == ("big", "lab/small")
    assert (own.outcome, own.error) == ("answered", "")
    assert nobodys.team == "gone"


def test_a_moved_call_that_failed_says_so(engine, fallbacks) -> None:
    failed = {"outcome": Outcome.FAILED, "status": 504, "error": "upstream_timeout"}
    keep(engine, a_moved(1, **failed))
    (call,) = fallbacks.calls(10)

    assert (call.outcome, call.error) == ("failed", "upstream_timeout")


def test_the_cost_of_a_rerouted_call_covers_all_its_attempts(engine, fallbacks) -> None:
    keep(engine, a_receipt(1, final=False, cost_nanos=3), a_moved(1, attempt=1, cost_nanos=4))
    nothing: dict[str, Any] = {"usage": None, "ttft": None, "cost_nanos": None}
    keep(engine, a_receipt(2, final=False, **nothing), a_moved(2, attempt=1, cost_nanos=4))
    keep(engine, a_receipt(3, final=False, cost_nanos=None), a_moved(3, attempt=1, cost_nanos=4))

    assert [call.cost_nanos for call in fallbacks.calls(10)] == [None, 4, 7]


def test_a_call_that_what_it_asked_for_answered_in_the_end_was_not_moved(engine, fallbacks) -> None:
    keep(engine, a_moved(1, final=False), a_receipt(1, attempt=1))

    assert fallbacks.calls(10) == []


def test_moved_calls_are_found_by_their_index_however_many_others_there_are(engine) -> None:
    explain = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
    statement = str(_calls(50).compile(engine, compile_kwargs={"literal_binds": True}))
    with read_transaction(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # of tables this small
        plan = "\n".join(map(str, connection.exec_driver_sql(explain + statement)))

    assert "calls_rerouted" in plan
    assert "SCAN calls\n" not in plan


def ladder_objective(*ladder: str) -> TrackedObjective:
    """An objective that moves calls down this ladder."""
    return track_objective(
        Objective(
            name="chat",
            metric=Metric.TTFT,
            target=0.95,
            under=0.5,
            enforce=Enforce.DEGRADE,
            ladder=ladder,
        )
    )


def moves(*steps: tuple[ControllerState, int]) -> Iterable[StateChange]:
    before: tuple[ControllerState, int] = (HEALTHY, 0)
    for number, (state, level) in enumerate(steps):
        yield StateChange(
            before=before[0],
            after=state,
            level_before=before[1],
            level=level,
            at=START + 60.0 * number,
            reason=f"reason {number}",
        )
        before = state, level


def keep_alerts(
    engine: Engine, track: TrackedObjective, *steps: tuple[ControllerState, int]
) -> None:
    """Keep the alerts that these steps make."""
    news, outbox = ObjectiveAlerts(), Outbox(engine)
    for move in moves(*steps):
        outbox.add(news.alerts_of_move(track, move, 0), {}, move.at)


def test_a_stay_says_whence_and_whither_calls_went_why_and_how_long(engine, fallbacks) -> None:
    keep_alerts(engine, ladder_objective("small", "tiny"), (DEGRADED, 1), (DEGRADED, 2))
    last, first = fallbacks.reroutes(10)

    assert first == Reroute(
        objective="chat",
        source="",
        level="small",
        state="degraded",
        why="reason 0",
        began=START,
        ended=START + 60,
    )
    assert (last.source, last.level, last.ended) == ("small", "tiny", None)


def test_an_alert_title_of_an_earlier_version_still_gives_its_fallback_level(
    engine, fallbacks
) -> None:
    title = "chat is degraded, on level 1: small"
    Outbox(engine).add([an_alert(kind="move", title=title)], {}, START)

    assert [reroute.level for reroute in fallbacks.reroutes(10)] == ["small"]


def test_a_second_reroute_starts_from_the_requested_model(engine, fallbacks) -> None:
    keep_alerts(
        engine, ladder_objective("small"), (DEGRADED, 1), (HEALTHY, 0), (PINNED, 1), (PINNED, 0)
    )
    third, second, first = fallbacks.reroutes(10)

    assert (first.source, first.level, first.ended) == ("", "small", START + 60)
    assert (second.source, second.level, second.state) == ("", "small", "pinned")
    assert (third.source, third.level) == ("small", "")


def test_the_oldest_stay_that_is_reported_still_knows_where_it_came_from(engine, fallbacks) -> None:
    keep_alerts(engine, ladder_objective("small", "tiny"), (DEGRADED, 1), (DEGRADED, 2))

    assert [reroute.source for reroute in fallbacks.reroutes(1)] == ["small"]


def test_other_alerts_are_no_stays_whatever_they_say(engine, fallbacks) -> None:
    quoted = an_alert(kind="burn", severity=Severity.PAGE, title='"kind":"move"', subject='"')
    Outbox(engine).add([quoted], {}, START)

    assert fallbacks.reroutes(10) == []


def test_rows_of_a_newer_version_are_left_out(engine, fallbacks) -> None:
    keep_alerts(engine, ladder_objective("small"), (DEGRADED, 1))
    with engine.begin() as connection:
        connection.exec_driver_sql("""UPDATE alerts SET text = '{"kind":"move"}'""")

    assert fallbacks.reroutes(10) == []


def test_times_in_which_objectives_were_missed_are_those_of_their_alerts(engine, fallbacks) -> None:
    alerts = [
        an_alert("chat", id="a", kind="burn", began=START, ended=START + 60),
        an_alert("cache", id="b", kind="floor", began=START + 9),
        an_alert("chat", id="c", kind="move", began=START),
        an_alert('"kind":"burn"', id="d", kind="budget", began=START),
    ]
    Outbox(engine).add(alerts, {}, START)

    assert fallbacks.missed_times(9) == [
        MissedTime(objective="cache", began=START + 9, ended=None),
        MissedTime(objective="chat", began=START, ended=START + 60),
    ]
    assert len(fallbacks.missed_times(1)) == 1
