from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.records.prompt_segments import CacheMark, PromptSegments
from proxy.records.receipt import Outcome, PhasesFrom, Receipt
from proxy.store.sql import schema
from proxy.store.sql.ledger.receipt_rows import COLUMNS, receipt_from_row, row_from_receipt
from slo.usage import Usage
from tests.fakes.receipts import a_receipt

MONEY = st.none() | st.integers(0, 10**15)
MICROS = st.integers(0, 10**9).map(lambda micros: micros / 1e6)
RECEIPTS = st.builds(
    Receipt,
    call_id=st.text(),
    attempt=st.integers(0, 9),
    started=st.integers(0, 10**15).map(lambda n: n * 4 / 1e6),
    team=st.text(),
    key_id=st.text(),
    feature=st.text(),
    user=st.text(),
    endpoint=st.text(),
    status=st.integers(100, 599),
    outcome=st.sampled_from(Outcome),
    usage=st.none() | st.builds(Usage, input=st.integers(0, 10**9), write_12h=st.integers(0, 9)),
    list_nanos=MONEY,
    cost_nanos=MONEY,
    ttft=st.none() | MICROS,
    duration=MICROS,
    overhead=MICROS,
    notes=st.lists(st.text()).map(tuple),
    prompt=st.none() | st.text(),
    conversation=st.text(),
    arm=st.sampled_from(["", "treated", "control"]),
    layout=st.integers(0, 9),
    expected_read=st.none() | st.integers(0, 10**9),
    miss=st.sampled_from(["", "expired"]),
    miss_detail=st.text(),
    miss_tokens=st.none() | st.integers(0, 10**9),
    miss_nanos=MONEY,
    reroute_reason=st.text(),
    compaction=st.sampled_from(["", "facts"]),
    compaction_why=st.text(),
    compacted=st.booleans(),
    tokens_before=st.none() | st.integers(0, 10**9),
    tokens_after=st.none() | st.integers(0, 10**9),
    reset=st.booleans(),
    compaction_nanos=st.none() | st.integers(-(10**15), 10**15),
    needed=st.integers(0, 10**6),
    lost=st.integers(0, 10**6),
    compacted_messages=st.none() | st.integers(0, 10**6),
    upstream_request_id=st.text(),
    unplanned_why=st.text(),
    queue=st.none() | MICROS,
    prefill=st.none() | MICROS,
    decode=st.none() | MICROS,
    transfer=st.none() | MICROS,
    phases_from=st.sampled_from(PhasesFrom),
    read_saved_nanos=MONEY,
    write_extra_nanos=st.none() | st.integers(-(10**15), 10**15),
    draft_tokens=st.none() | st.integers(0, 10**9),
    accepted_tokens=st.none() | st.integers(0, 10**9),
    gpu_seconds=st.none() | MICROS,
    segments=st.none()
    | st.builds(
        PromptSegments,
        st.integers(0, 10**9),
        st.integers(0, 10**9),
        st.integers(0, 10**9),
        st.lists(st.builds(CacheMark, st.integers(0, 10**9), st.text())).map(tuple),
    ),
)


@given(RECEIPTS)
def test_a_receipt_comes_back_from_its_row(before: Receipt) -> None:
    after = receipt_from_row(row_from_receipt(before), before.prompt)

    assert after.started == pytest.approx(before.started, abs=1e-6)
    assert _timeless(after) == _timeless(before)
    assert (after.ttft, after.duration, after.overhead) == (
        before.ttft,
        before.duration,
        before.overhead,
    )


def _timeless(some: Receipt) -> dict[str, object]:
    return {name: getattr(some, name) for name in some.__struct_fields__ if name != "started"}


def test_a_row_has_a_value_for_every_column() -> None:
    assert len(row_from_receipt(a_receipt())) == len(COLUMNS) == len(schema.calls.columns)


def test_columns_that_planning_does_not_fill_are_null() -> None:
    said = dict(zip(COLUMNS, row_from_receipt(a_receipt()), strict=True))

    assert {said[name] for name in ("conversation", "arm", "layout", "miss", "miss_detail")} == {
        None
    }


def test_the_buckets_stand_in_the_order_of_usage() -> None:
    assert Usage.__struct_fields__ == schema.BUCKETS


@pytest.mark.parametrize(
    "absurd",
    [
        {"cost_nanos": 2**60},
        {"usage": Usage(input=2**70)},
        {"duration": 1e300},
        {"list_nanos": -(2**63)},
        {"miss_nanos": 2**60},
        {"expected_read": 2**60},
        {"miss_tokens": 2**60},
        {"decode": 1e300},
        {"draft_tokens": 2**60},
        {"gpu_seconds": 1e300},
    ],
)
def test_a_number_no_call_can_reach_is_refused(absurd: dict[str, Any]) -> None:
    with pytest.raises(OverflowError):
        row_from_receipt(a_receipt(**absurd))
