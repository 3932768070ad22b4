from proxy.folding.proofs import _FEATURES, SLOT, WINDOW, Proofs, Sums
from tests.fakes.receipts import START, a_receipt

PLACE = ("t", "chat")


def folded(at: float = START, **fields):
    given = {"tokens_before": 100, "tokens_after": 40, "compaction_nanos": 7, "folded": True}
    return a_receipt(team="t", feature="chat", started=at, **given | fields)


def test_a_features_calls_add_up():
    proofs = Proofs()
    for _ in range(3):
        proofs.add(folded(needed=4, lost=1))
    proofs.add(folded(folded=False, needed=2, compaction_nanos=None))

    assert proofs.sums(PLACE, START) == Sums(folded=3, tokens=180, nanos=21, needed=14, lost=3)
    assert proofs.sums(("t", "other"), START) == Sums()


def test_what_is_older_than_a_day_counts_no_more_and_is_forgotten():
    proofs = Proofs()
    proofs.add(folded())
    later = START + WINDOW + SLOT
    proofs.add(folded(later))

    assert proofs.sums(PLACE, later).folded == 1
    assert len(proofs._features[PLACE]) == 1


def test_what_questions_for_notes_cost_is_taken_off():
    proofs = Proofs()
    asked = a_receipt(team="t", feature="chat/compaction", started=START, cost_nanos=9)
    proofs.add(folded())
    proofs.charge(asked)
    proofs.charge(a_receipt(team="u", feature="chat/compaction", started=START, cost_nanos=9))
    proofs.charge(
        a_receipt(team="t", feature="chat/compaction", started=START, usage=None, cost_nanos=None)
    )

    assert proofs.sums(PLACE, START).nanos == 7 - 9
    proofs.forget(PLACE)
    assert proofs.sums(PLACE, START) == Sums()


def test_what_was_before_a_decision_does_not_count():
    proofs = Proofs()
    proofs.add(folded())

    assert proofs.sums(PLACE, START, since=START + 1).folded == 0
    assert proofs.sums(PLACE, START, since=START - SLOT).folded == 1


def test_a_feature_is_counted_afresh():
    proofs = Proofs()
    proofs.add(folded())
    proofs.forget(PLACE)
    proofs.forget(PLACE)

    assert proofs.sums(PLACE, START) == Sums()


def test_features_are_bounded():
    proofs = Proofs()
    for n in range(_FEATURES + 3):
        proofs.add(a_receipt(team="t", feature=str(n)))

    assert len(proofs) == _FEATURES
