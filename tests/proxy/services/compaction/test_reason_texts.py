import pytest

from compaction.cost_model import CompactionReason
from proxy.calls.eligibility.eligibility import NO_PROMPT, OTHER_WIRE, UNDER_2_KB
from proxy.services.compaction.reason_texts import (
    COMPACTED_CODES,
    PASSTHROUGH_TEXTS,
    REASON_TEXTS,
    reason_text,
)


@pytest.mark.parametrize("reason", CompactionReason)
def test_each_reason_of_the_gate_has_words(reason: CompactionReason) -> None:
    assert reason_text(reason.value) == REASON_TEXTS[reason.value]


@pytest.mark.parametrize(
    "code", ["banked", "late", "unreadable", "thinks", "control", "dry_run", "client", "refused"]
)
def test_each_reason_code_in_receipts_has_a_text_without_a_full_stop(code: str) -> None:
    assert reason_text(code) not in {code, code.replace("_", " ")}
    assert not reason_text(code).endswith(".")


def test_each_reason_for_which_nothing_is_planned_has_words() -> None:
    assert {NO_PROMPT, OTHER_WIRE, UNDER_2_KB, "off"} == PASSTHROUGH_TEXTS.keys()


def test_a_dry_run_reason_is_reported_with_the_requested_mode() -> None:
    assert reason_text("dry_run: pays") == f"it was a dry run; else: {REASON_TEXTS['pays']}"


def test_a_code_of_another_version_is_reported_as_it_is() -> None:
    assert reason_text("of_tomorrow") == "of tomorrow"


def test_the_modes_that_compact_are_known() -> None:
    assert all(code in REASON_TEXTS for code in COMPACTED_CODES)
