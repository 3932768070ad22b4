from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.records.prompt_segments import CacheMark, PromptSegments
from proxy.records.receipt import Outcome, PhasesFrom, Receipt, ServedBy
from proxy.store.sql import schema
from proxy.store.sql.receipt_columns import COLUMNS, receipt_from_row, row_from_receipt
from slo.usage import Usage
from tests.fakes.receipts import a_receipt

MICROS = st.integers(0, 10**9).map(lambda micros: micros / 1e6)
COUNTS = st.integers(0, 10**9)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    bool: st.booleans(),
    int: st.integers(0, 9),
    int | None: st.none() | st.integers(-(10**15), 10**15),
    float: MICROS,
    float | None: st.none() | MICROS,
    str | None: st.none() | st.text(),
    Outcome: st.sampled_from(Outcome),
    PhasesFrom: st.sampled_from(PhasesFrom),
    ServedBy: st.sampled_from(ServedBy),
    tuple[tuple[str, str], ...]: st.dictionaries(st.text(), st.text()).map(
        lambda tags: tuple(tags.items())
    ),
    tuple[str, ...]: st.lists(st.text()).map(tuple),
    Usage | None: st.none() | st.builds(Usage, input=COUNTS, write_12h=COUNTS),
    PromptSegments | None: st.none()
    | st.builds(
        PromptSegments,
        COUNTS,
        COUNTS,
        COUNTS,
        st.lists(st.builds(CacheMark, COUNTS, st.text())).map(tuple),
    ),
}
FIELDS = {field.name: VALUES[field.type] for field in msgspec.structs.fields(Receipt)}
FIELDS["started"] = st.integers(0, 10**15).map(lambda n: n * 4 / 1e6)
RECEIPTS = st.builds(Receipt, **FIELDS)


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


def test_columns_of_planning_are_null_for_a_call_that_was_not_planned() -> None:
    row = dict(zip(COLUMNS, row_from_receipt(a_receipt()), strict=True))

    assert {row[name] for name in ("conversation", "arm", "layout", "miss", "compacted")} == {None}


def test_texts_and_flags_of_every_call_are_never_null_in_its_row() -> None:
    row = dict(zip(COLUMNS, row_from_receipt(a_receipt(feature="", user="")), strict=True))

    assert (row["feature"], row["user_hash"], row["error"], row["streamed"]) == ("", "", "", 0)


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
