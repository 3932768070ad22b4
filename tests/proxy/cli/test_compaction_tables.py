from compaction.policy import CompactionMode
from proxy.cli.compaction_tables import compaction_total, feature_compactions
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot
from proxy.store.sql.ledger.compaction_receipts import CompactionTotals

BACK = FeatureSettings(
    mode=CompactionMode.FACTS, stepped=CompactionMode.TRIM, why="9 of 100 lost", stepped_at=9.0
)


def a_sum(feature: str, nanos: int | None) -> CompactionTotals:
    return CompactionTotals(
        team="t",
        feature=feature,
        calls=2,
        compacted=1,
        resets=0,
        tokens_before=900,
        tokens_after=300,
        nanos=nanos,
        needed=0,
        lost=0,
    )


def test_a_feature_is_listed_that_was_called_or_stepped_back():
    chosen = SettingsSnapshot(
        1,
        {
            ("t", "back"): BACK,
            ("t", "called"): FeatureSettings(mode=CompactionMode.FACTS),
            ("t", "merely-chosen"): FeatureSettings(mode=CompactionMode.FACTS),
        },
    )
    features = feature_compactions(chosen, [a_sum("called", 5), a_sum("by-default", 5)])

    assert [(feature.feature, feature.is_stepped_back) for feature in features] == [
        ("back", True),
        ("by-default", False),
        ("called", False),
    ]


def test_the_total_sums_the_savings_that_are_known():
    total = compaction_total(
        feature_compactions(SettingsSnapshot(), [a_sum("a", 10), a_sum("b", None), a_sum("c", 3)])
    )

    assert total.nanos == 13
    assert (total.stepped_back, total.features, total.share) == (0, 3, 0.0)


def test_savings_that_nobody_knows_are_unknown_and_not_zero():
    assert (
        compaction_total(feature_compactions(SettingsSnapshot(), [a_sum("a", None)])).nanos is None
    )
    assert compaction_total([]).share is None
