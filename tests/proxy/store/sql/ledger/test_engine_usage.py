import pytest
from sqlalchemy import Engine

from proxy.store.sql.ledger.engine_usage import (
    ReplicaRun,
    ReplicaTimeLedger,
    UpstreamUsage,
    upstream_usage,
)
from proxy.store.sql.ledger.inserts import inserter
from tests.fakes.receipts import START, a_receipt, an_engine_receipt

SINCE = int(START) // 900 * 900


def test_the_use_of_each_upstream_is_summed_and_others_are_left_out(engine: Engine) -> None:
    inserter(engine)(
        [
            an_engine_receipt(1, upstream="house:0", cost_nanos=7),
            an_engine_receipt(2, upstream="house:0", cost_nanos=None),
            an_engine_receipt(3, upstream="house:0", started=SINCE - 10.0),
            a_receipt(4, upstream="openai"),
        ]
    )

    assert upstream_usage(engine, ["house:0", "house:1"], SINCE) == [
        UpstreamUsage(
            upstream="house:0",
            calls=2,
            prompt_tokens=101 + 102 + 2 * (1024 + 7),
            output_tokens=46,
            gpu_micros=1_000_000,
            cost_nanos=7,
            draft_tokens=83,
            accepted_tokens=60,
        )
    ]


def test_use_is_counted_from_the_second_that_was_asked_for(engine: Engine) -> None:
    since = SINCE + 427.5
    receipts = [
        an_engine_receipt(
            n,
            call_id=f"call_{int((since + n - 5) * 1000):012x}7{n:019x}",
            upstream="gpu",
            started=since + n - 5,
        )
        for n in range(2_000)
    ]
    inserter(engine)(receipts)
    (usage,) = upstream_usage(engine, ["gpu"], since)

    assert usage.calls == 1_995
    assert usage.gpu_micros == 1_995 * 500_000


def test_a_run_grows_and_never_shrinks(engine: Engine) -> None:
    ledger = ReplicaTimeLedger(engine)
    for ended in (100.0, 300.25, 200.0):
        ledger.extend_runs([ReplicaRun("gpu", 50.0, ended)])

    assert ledger.run_seconds("gpu", 0.0, 1_000.0) == 250.25
    assert ledger.run_seconds("gpu", 60.0, 70.5) == 10.5
    assert ledger.run_seconds("other", 0.0, 1_000.0) == 0.0


@pytest.mark.parametrize(("now", "ran"), [(308.0, 258.0), (400.0, 250.0)])
def test_a_replica_seen_a_moment_ago_runs_until_now(engine: Engine, now: float, ran: float) -> None:
    ledger = ReplicaTimeLedger(engine)
    ledger.extend_runs([ReplicaRun("gpu", 50.0, 300.0)])

    assert ledger.run_seconds_until_now("gpu", 0.0, now) == ran


def test_old_runs_are_deleted(engine: Engine) -> None:
    ledger = ReplicaTimeLedger(engine)
    ledger.extend_runs([ReplicaRun("gpu", 0.0, 10.0), ReplicaRun("gpu", 20.0, 30.0)])
    ledger.delete_runs(before=25.0)

    assert ledger.run_seconds("gpu", 0.0, 100.0) == 10.0
