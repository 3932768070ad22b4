from typing import Any

import pytest

from compaction.policy import CompactionMode
from compaction.quality_evidence import QualityEvidence
from proxy.services.compaction.live_quality import CompactionSums, LiveQuality
from tests.fakes.receipts import START, a_receipt

_MAX_FEATURES = 1_024
SLOT_S = 600
WINDOW_S = 86_400

PLACE = ("t", "chat")


def compacted_receipt(time: float = START, **fields):
    defaults: dict[str, Any] = {
        "team": "t",
        "feature": "chat",
        "started": time,
        "compacted": True,
        "tokens_before": 100,
        "tokens_after": 40,
        "compaction_nanos": 7,
    }
    return a_receipt(**defaults | fields)


def of(compacted=60, tokens=9, **fields):
    return CompactionSums(compacted=compacted, tokens=tokens, **fields)


@pytest.mark.parametrize(
    ("sums", "expected"),
    [
        (of(nanos=-11, paid=1_000), True),
        (of(nanos=-9, paid=1_000), False),
        (of(nanos=-100, paid=50), True),
        (of(nanos=0, paid=0), False),
        (of(nanos=5, paid=1_000), False),
        (of(compacted=49, nanos=-500, paid=1_000), False),
        (of(tokens=0, nanos=-500, paid=1_000), False),
    ],
)
def test_smaller_is_dearer_where_enough_calls_cost_clearly_more(sums, expected):
    assert sums.is_dearer is expected


def test_spend_counts_only_where_savings_are_known():
    proofs = LiveQuality()
    proofs.add(compacted_receipt(cost_nanos=40))
    proofs.add(compacted_receipt(cost_nanos=50, compaction_nanos=None))

    assert proofs.sums(PLACE, START).paid == 40


def test_recalls_without_end_count_among_compacted_calls():
    quality = LiveQuality()
    quality.add(compacted_receipt(needed=9, lost=9))
    quality.add(compacted_receipt(compacted=False, compaction_why="recall_failed"))
    quality.add(compacted_receipt(compacted=False, compaction_why="control"))
    quality.add(compacted_receipt(recalls=3))
    quality.add(compacted_receipt(recalls=4))
    sums = quality.sums(PLACE, START)

    assert sums.evidence(CompactionMode.FACTS_RECALL) == (QualityEvidence(needed=4, lost=2),)
    assert sums.compacted == 3


def test_a_features_calls_add_up():
    proofs = LiveQuality()
    for _ in range(3):
        proofs.add(compacted_receipt(needed=4, lost=1))
    proofs.add(compacted_receipt(compacted=False, needed=2, compaction_nanos=None))

    sums = proofs.sums(PLACE, START)
    assert (sums.compacted, sums.tokens, sums.nanos) == (3, 180, 21)
    assert sums.treated == QualityEvidence(needed=12, lost=3)
    assert sums.control == QualityEvidence(needed=2)
    assert proofs.sums(("t", "other"), START) == CompactionSums()


def test_counts_older_than_a_day_are_forgotten():
    proofs = LiveQuality()
    proofs.add(compacted_receipt())
    later = START + WINDOW_S + SLOT_S
    proofs.add(compacted_receipt(later))

    assert proofs.sums(PLACE, later).compacted == 1
    assert len(proofs._features[PLACE]) == 1


def test_calls_before_a_mode_was_set_do_not_count():
    proofs = LiveQuality()
    proofs.add(compacted_receipt())

    assert proofs.sums(PLACE, START, since=START + 1).compacted == 0
    assert proofs.sums(PLACE, START, since=START - SLOT_S).compacted == 1


@pytest.mark.parametrize("into", [1.0, SLOT_S / 2, SLOT_S - 1.0])
def test_the_first_call_after_a_mode_is_set_counts_and_the_last_before_does_not(into):
    proofs, chosen = LiveQuality(), (START // SLOT_S) * SLOT_S + into
    for time in (chosen - 0.5, chosen, chosen + 0.5):
        proofs.add(compacted_receipt(time, needed=1), chosen)

    sums = proofs.sums(PLACE, chosen + 1, chosen)
    assert (sums.compacted, sums.treated.needed) == (2, 2)
    assert sums.nanos == 2 * 7


def test_a_mode_that_is_set_again_begins_afresh():
    proofs = LiveQuality()
    proofs.add(compacted_receipt(START + 1), START)
    proofs.add(compacted_receipt(START + 3), START + 2)

    assert proofs.sums(PLACE, START + 4, START + 2).compacted == 1


def test_a_feature_is_counted_afresh():
    proofs = LiveQuality()
    proofs.add(compacted_receipt())
    proofs.forget(PLACE)
    proofs.forget(PLACE)

    assert proofs.sums(PLACE, START) == CompactionSums()


def test_features_are_bounded():
    proofs = LiveQuality()
    for n in range(_MAX_FEATURES + 3):
        proofs.add(a_receipt(team="t", feature=str(n)))

    assert len(proofs) == _MAX_FEATURES


@pytest.mark.parametrize(("seconds", "compacted"), [(86_400, 1), (86_401, 0)])
def test_a_call_counts_for_a_day_from_the_beginning_of_its_ten_minutes(
    seconds: int, compacted: int
):
    slot = START - START % 600
    quality = LiveQuality()
    quality.add(compacted_receipt(slot + 599))

    assert quality.sums(PLACE, slot + seconds).compacted == compacted
