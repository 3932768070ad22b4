from datetime import date

from dashboards.reports import Percentiles, ReportPeriod, Spend, Times
from proxy.cli import json_documents
from proxy.prefix.guard import ArmComparison, ArmTotals, ComparisonFinding, Interval
from proxy.records.feature_mode import FeatureState, LayoutScope, PlanningMode
from proxy.store.sql.ledger.control_arms import Comparison, MissSum
from proxy.store.sql.settings.layout_rows import Proposal, ProposalState
from slo.usage import Usage
from tests.proxy.cli.planning.test_layouts import MOVES, NOW

NAMES = {"team_1": "acme"}
SPEND = Spend(
    team="team_1",
    feature="chat",
    calls=2,
    attempts=3,
    errors=1,
    estimated=0,
    unpriced=1,
    usage=Usage(input=30, cache_read=10, output=7),
    list_nanos=2_500_000_001,
    cost_nanos=None,
    ttft=None,
    duration=None,
)
PROPOSAL = Proposal(
    version=1,
    digest="d",
    moves=MOVES,
    state=ProposalState.PROPOSED,
    made=NOW,
    decided_by="",
    decided_at=0.0,
)


def test_money_is_a_decimal_text_whatever_its_sign():
    assert json_documents.usd(1_500_000_000) == "1.5"
    assert json_documents.usd(-1) == "-0.000000001"
    assert json_documents.usd(0) == "0"
    assert json_documents.usd(None) is None


def test_a_report_names_its_period_and_has_a_row_for_each_part():
    period = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 11, 3), zone="UTC")
    key: tuple[str, ...] = ("team_1", "chat")
    times = {key: Times(Percentiles(0.1, 0.2, 0.3), calls=2)}
    document = json_documents.report(period, [SPEND], [SPEND], NAMES, ["feature"], times)

    assert (document["first"], document["end"], document["zone"]) == (
        "2026-11-01",
        "2026-11-03",
        "UTC",
    )
    assert document["rows"] == [
        {
            "team": "acme",
            "team_id": "team_1",
            "feature": "chat",
            "calls": 2,
            "errors": 1,
            "input_tokens": 40,
            "cached_tokens": 10,
            "hit_rate": 0.25,
            "output_tokens": 7,
            "cost_usd": None,
            "cost_per_1k_calls_usd": None,
            "list_cost_usd": "2.500000001",
            "idle_cost_usd": "0",
            "estimated": 0,
            "unpriced": 1,
            "timed_calls": 2,
            "ttft_s": {"p50": 0.1, "p95": 0.2, "p99": 0.3},
            "duration_s": {"p50": None, "p95": None, "p99": None},
        }
    ]
    assert (document["total"]["calls"], document["total"]["timed_calls"]) == (2, 0)


def test_a_report_without_calls_has_no_total():
    period = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 11, 2), zone="UTC")
    document = json_documents.report(period, [], [], NAMES, [])

    assert (document["rows"], document["total"]) == ([], None)


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
    (entry,) = json_documents.misses(7, [miss], NAMES)["misses"]

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
    one, other = json_documents.savings(
        30,
        [
            Comparison(
                team="team_1", feature="chat", treated=treated, control=control, verdict=verdict
            )
            for verdict in (measured, little)
        ],
        [],
        NAMES,
    )["savings"]

    assert one["saved_per_token"] == {"low": 0.4, "value": 0.5, "high": 0.6}
    assert (one["saved_usd"], one["hit_rate"], one["control_hit_rate"]) == ("1", 0.5, None)
    assert (one["planned_conversations"], one["control_conversations"]) == (90, 60)
    assert (other["saved_per_token"], other["saved_usd"]) == (None, None)
    assert (other["finding"], other["why"]) == ("not enough", "too few")


def test_a_feature_says_what_holds_and_what_waits():
    place = LayoutScope("team_1", "chat", "gpt")
    standing = FeatureState(mode=PlanningMode.AUTO, version=2, active_from=NOW)
    (entry,) = json_documents.features([(place, standing, [PROPOSAL])], NAMES)["features"]

    assert entry == {
        "team": "acme",
        "team_id": "team_1",
        "feature": "chat",
        "family": "gpt",
        "mode": "auto",
        "is_off": False,
        "suspended": "",
        "suspended_at": None,
        "layout": 2,
        "active_from": "2026-09-21T14:13:20+00:00",
        "proposals": 1,
    }


def test_a_feature_has_the_moves_of_each_version_null_where_they_cannot_be_read():
    broken = Proposal(
        version=2,
        digest="e",
        moves="{",
        state=ProposalState.APPROVED,
        made=NOW,
        decided_by="ann",
        decided_at=NOW,
    )
    document = json_documents.feature(
        LayoutScope("team_2", ""), FeatureState(), [PROPOSAL, broken], NAMES
    )
    first, second = document["versions"]

    assert (document["team"], document["layout"], document["mode"]) == ("team_2", None, None)
    assert first["moves"] == [
        {
            "label": "Current time",
            "shows": "line 3",
            "slot": "variable",
            "values": 40,
            "calls": 40,
            "conversations": 9,
            "saves_usd_per_1k_calls": "1.25",
        }
    ]
    assert (first["decided_at"], first["state"]) == (None, "proposed")
    assert (second["moves"], second["decided_by"], second["state"]) == (None, "ann", "approved")
