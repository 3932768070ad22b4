from sqlalchemy import Engine

from proxy.records.receipt import Outcome, Receipt
from proxy.store.sql.ledger.compaction_receipts import CompactionReceipts, CompactionTotals
from proxy.store.sql.ledger.inserts import inserter
from tests.fakes.receipts import START, a_receipt


def compacted_receipt(n: int, **fields: object) -> Receipt:
    given: dict[str, object] = {
        "team": "t",
        "feature": "chat",
        "compaction": "facts",
        "compaction_why": "pays",
        "compacted": True,
        "tokens_before": 900,
        "tokens_after": 300,
        "compaction_nanos": 5,
    }
    return a_receipt(n, **given | fields)


def test_each_features_compactions_are_summed(engine: Engine) -> None:
    inserter(engine)(
        [
            compacted_receipt(1, reset=True, compaction_nanos=-9, needed=4, lost=1),
            compacted_receipt(2, needed=2),
            compacted_receipt(
                3, compacted=False, compaction_why="control", compaction_nanos=None, needed=4
            ),
            compacted_receipt(4, feature="code", compaction_nanos=None),
            a_receipt(5),
        ]
    )
    totals = CompactionReceipts(engine).totals(START)

    assert totals == [
        CompactionTotals(
            team="t",
            feature="chat",
            calls=3,
            compacted=2,
            resets=1,
            tokens_before=1_800,
            tokens_after=600,
            nanos=-4,
            needed=6,
            lost=1,
            control_needed=4,
        ),
        CompactionTotals(
            team="t",
            feature="code",
            calls=1,
            compacted=1,
            resets=0,
            tokens_before=900,
            tokens_after=300,
            nanos=None,
            needed=0,
            lost=0,
        ),
    ]
    assert totals[0].tokens_saved == 1_200


def test_a_compaction_that_no_upstream_accepted_saved_nothing(engine: Engine) -> None:
    failed = {"outcome": Outcome.FAILED, "status": 400, "usage": None, "compaction_nanos": None}
    inserter(engine)([compacted_receipt(1), compacted_receipt(2, reset=True, **failed)])
    (total,) = CompactionReceipts(engine).totals(START)

    assert (total.calls, total.compacted, total.resets, total.tokens_saved) == (1, 1, 0, 600)


def test_calls_shortened_by_mode_trim_are_counted_apart(engine: Engine) -> None:
    inserter(engine)(
        [
            compacted_receipt(1),
            compacted_receipt(2, compaction="trim"),
            compacted_receipt(3, compaction="trim"),
        ]
    )
    (total,) = CompactionReceipts(engine).totals(START)

    assert (total.calls, total.compacted, total.trimmed) == (3, 1, 2)
    assert total.tokens_saved == 1_800


def test_a_call_that_no_fact_shortened_is_trimmed_whatever_its_mode_allows(engine: Engine) -> None:
    inserter(engine)(
        [
            compacted_receipt(1, compaction_why="too_few_calls", compacted_messages=0),
            compacted_receipt(2, compacted_messages=12),
            compacted_receipt(3, compaction_why="cooling_down"),
            compacted_receipt(4, compaction="trim", compacted_messages=0),
            compacted_receipt(5, compacted=False, compaction_why="control", compaction_nanos=None),
        ]
    )
    (total,) = CompactionReceipts(engine).totals(START)

    assert (total.calls, total.compacted, total.trimmed) == (5, 2, 2)
    assert total.tokens_saved == 4 * 600


def test_calls_before_the_period_are_not_counted(engine: Engine) -> None:
    inserter(engine)([compacted_receipt(1)])

    assert CompactionReceipts(engine).totals(START + 60) == []


def test_savings_of_each_feature_are_read_for_a_period(engine: Engine) -> None:
    hour = 3_600
    inserter(engine)(
        [
            compacted_receipt(1),
            compacted_receipt(2, compaction_nanos=-9),
            compacted_receipt(3, feature="code", compaction_nanos=None),
            compacted_receipt(hour, feature="code", compaction_nanos=7),
            a_receipt(5),
        ]
    )
    receipts = CompactionReceipts(engine)

    assert receipts.savings_by_feature(START, START + 2 * hour) == {
        ("t", "chat"): -4,
        ("t", "code"): 7,
    }
    assert receipts.savings_by_feature(START + hour, START + 2 * hour) == {("t", "code"): 7}
    assert receipts.savings_by_feature(START + 2 * hour, START + 3 * hour) == {}
