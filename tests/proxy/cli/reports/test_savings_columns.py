from proxy.cli.columns import documents
from proxy.cli.reports.savings import _comparison_columns, _miss_columns
from proxy.prefix.guard import ArmComparison, ArmTotals, ComparisonFinding, Interval
from proxy.store.sql.ledger.control_arms import Comparison, MissSum

NAMES = {"team_1": "acme"}


def test_a_miss_has_its_price_and_its_fix():
    miss = MissSum(
        team="team_1",
        feature="",
        reason="expired",
        calls=3,
        tokens=90,
        nanos=-5,
        example="call_1",
        detail="idle for 400 s",
    )
    (entry,) = documents(_miss_columns(NAMES), [miss])

    assert (entry["team"], entry["feature"], entry["reason"]) == ("acme", "", "expired")
    assert (entry["calls"], entry["tokens"], entry["cost_usd"]) == (3, 90, "-0.000000005")
    assert (entry["example"], entry["detail"]) == ("call_1", "idle for 400 s")
    assert entry["fix"].startswith("Choose a longer lifetime")


def test_savings_come_with_their_interval_and_are_null_where_nothing_was_measured():
    treated = ArmTotals(conversations=90, cost=1_000_000_000, tokens=100, reads=50)
    control = ArmTotals(conversations=60)
    measured = ArmComparison(
        finding=ComparisonFinding.MEASURED, saving=Interval(0.4, 0.5, 0.6), why="so"
    )
    little = ArmComparison(finding=ComparisonFinding.NOT_ENOUGH, why="too few")
    one, other = documents(
        _comparison_columns(NAMES),
        [
            Comparison(
                team="team_1", feature="chat", treated=treated, control=control, verdict=verdict
            )
            for verdict in (measured, little)
        ],
    )

    assert one["saved_per_token"] == Interval(0.4, 0.5, 0.6)
    assert (one["saved_usd"], one["hit_rate"], one["control_hit_rate"]) == ("1", 0.5, None)
    assert (one["planned_conversations"], one["control_conversations"]) == (90, 60)
    assert (other["saved_per_token"], other["saved_usd"]) == (None, None)
    assert (other["finding"], other["why"]) == (ComparisonFinding.NOT_ENOUGH, "too few")
