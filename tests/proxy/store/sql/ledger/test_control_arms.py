import threading
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine

from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.guard import ArmTotals, ComparisonFinding
from proxy.records.receipt import Outcome, Receipt
from proxy.store.errors import StoreError
from proxy.store.sql.database import StoppableReads
from proxy.store.sql.ledger.control_arms import Estimate, MissSum, Savings
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.usage import Usage
from tests.fakes.arm_samples import ConversationSums, sample_arm
from tests.fakes.receipts import START, a_receipt

HERE: dict[str, Any] = {"team": "team_0", "feature": "support", "model": "m"}
PLACE = ("team_0", "support")


def planned_receipt(n: int, **changes: Any) -> Receipt:
    """The nth call of forty conversations, every fifth of them left alone."""
    conversation = n % 40
    fields: dict[str, Any] = {
        "conversation": f"{conversation:032x}",
        "arm": "control" if conversation % 5 == 0 else "treated",
        "usage": Usage(input=100 + 7 * n, cache_read=50 * (n % 9), write_1h=n % 3, output=n),
        **HERE,
    }
    return a_receipt(n, **(fields | changes))


@pytest.fixture
def savings(engine: Engine) -> Savings:
    return Savings(engine)


def by_hand(receipts: Iterable[Receipt]) -> ArmTotals:
    conversations: dict[str, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        conversations[receipt.conversation].append(receipt)
    return sample_arm(
        ConversationSums(
            cost=sum(receipt.cost_nanos or 0 for receipt in calls),
            tokens=sum(receipt.usage.prompt_tokens for receipt in calls if receipt.usage),
            reads=sum(receipt.usage.cache_read for receipt in calls if receipt.usage),
        )
        for calls in conversations.values()
    )


def test_each_arms_sums_are_those_of_its_conversations(engine: Engine, savings: Savings) -> None:
    receipts = [planned_receipt(n) for n in range(200)]
    inserter(engine)([*receipts, *(a_receipt(n) for n in range(200, 220))])
    arms = savings.arm_totals(START)[PLACE]

    for arm, totals in arms.items():
        expected = by_hand(receipt for receipt in receipts if receipt.arm == arm)
        for name in ArmTotals.__struct_fields__:
            assert getattr(totals, name) == pytest.approx(getattr(expected, name), rel=1e-12)
    treated = arms[ExperimentArm.TREATED]
    assert (arms[ExperimentArm.CONTROL].conversations, treated.conversations) == (8, 32)
    assert type(treated.cost) is int


@pytest.mark.parametrize(
    "left_out",
    [
        {"estimated": True},
        {"reroute_reason": "chat-ttft: fallback level 1"},
        {"cost_nanos": None},
        {"usage": None, "outcome": Outcome.FAILED},
        {"arm": ""},
        {"conversation": ""},
        {"started": START - 1},
    ],
)
def test_calls_without_an_arm_are_left_out_of_savings(
    engine: Engine, savings: Savings, left_out: dict[str, Any]
) -> None:
    inserter(engine)([planned_receipt(1, **left_out)])

    assert savings.arm_totals(START) == {}


def test_arm_totals_are_kept_apart_by_team_and_feature(engine: Engine, savings: Savings) -> None:
    places = [{"team": "team_1"}, {"feature": ""}, {}]
    inserter(engine)([planned_receipt(n, **place) for n, place in enumerate(places, 1)])

    def places_of(**wanted: str) -> list[tuple[str, str]]:
        return list(savings.arm_totals(START, **wanted))

    assert places_of() == [("team_0", ""), PLACE, ("team_1", "support")]
    assert places_of(team="team_1") == [("team_1", "support")]
    assert places_of(team="team_0", feature="") == [("team_0", "")]
    assert places_of(team="team_0", feature="support") == [PLACE]


def test_a_conversation_on_two_models_is_two_of_its_arm(engine: Engine, savings: Savings) -> None:
    inserter(engine)([planned_receipt(1), planned_receipt(41, model="n")])

    assert savings.arm_totals(START)[PLACE][ExperimentArm.TREATED].conversations == 2


def test_conversations_that_cost_millions_of_dollars_do_not_overflow(
    engine: Engine, savings: Savings
) -> None:
    inserter(engine)([planned_receipt(n, cost_nanos=10**15 - n) for n in range(20)])

    assert sum(totals.cost_cost for totals in savings.arm_totals(START)[PLACE].values()) > 1e31


def test_the_guard_judges_what_the_ledger_tells(engine: Engine, savings: Savings) -> None:
    receipts = [
        a_receipt(
            n,
            **HERE,
            conversation=f"{n:032x}",
            arm="control" if n % 3 == 0 else "treated",
            usage=Usage(input=1000 + n % 17),
            cost_nanos=(3000 + n % 7) * (1 if n % 3 == 0 else 2),
        )
        for n in range(300)
    ]
    inserter(engine)(receipts)
    (comparison,) = savings.compare(START)

    assert comparison.verdict.finding is ComparisonFinding.WORSE


def test_misses_are_summed_by_reason_the_dearest_first(engine: Engine, savings: Savings) -> None:
    expired = [
        planned_receipt(
            n, miss="expired", miss_detail=f"idle {n} s", miss_tokens=10, miss_nanos=100
        )
        for n in range(3)
    ]
    inserter(engine)(
        [
            *expired,
            planned_receipt(3, miss="diverged", miss_tokens=5, miss_nanos=9_000),
            planned_receipt(4, miss="elsewhere", miss_tokens=7),
            planned_receipt(5, miss="expired", miss_tokens=1, miss_nanos=1, team="team_1"),
            planned_receipt(6, miss="expired", started=START - 5),
            planned_receipt(7),
        ]
    )

    def a_sum(
        reason: str, calls: int, tokens: int, nanos: int | None, last: int, detail: str = ""
    ) -> MissSum:
        return MissSum(
            team="team_0",
            feature="support",
            reason=reason,
            calls=calls,
            tokens=tokens,
            nanos=nanos,
            example=a_receipt(last).call_id,
            detail=detail,
        )

    assert savings.misses(START, team="team_0") == [
        a_sum("diverged", 1, 5, 9_000, 3),
        a_sum("expired", 3, 30, 300, 2, "idle 2 s"),
        a_sum("elsewhere", 1, 7, None, 4),
    ]
    assert [miss.team for miss in savings.misses(START)] == ["team_0"] * 3 + ["team_1"]


def test_an_estimate_is_there_from_the_first_call(engine: Engine, savings: Savings) -> None:
    inserter(engine)(
        [
            planned_receipt(1, planning_nanos=300, cost_nanos=700),
            planned_receipt(2, planning_nanos=-100, cost_nanos=300),
            planned_receipt(3, planning_nanos=None, cost_nanos=50_000),
            planned_receipt(5, feature="other", planning_nanos=10, cost_nanos=90),
        ]
    )
    estimates = {comparison.feature: comparison.estimate for comparison in savings.compare(START)}

    assert estimates["support"] == Estimate(calls=2, nanos=200, cost=1_000)
    assert estimates["support"].part == pytest.approx(1 / 6)
    assert savings.estimates(START, feature="other") == {
        ("team_0", "other"): Estimate(calls=1, nanos=10, cost=90)
    }


def test_control_calls_cost_what_they_would_have_without_what_treated_ones_stored(
    engine: Engine, savings: Savings
) -> None:
    inserter(engine)(
        [
            planned_receipt(1, planning_nanos=300, cost_nanos=700),
            planned_receipt(5, planning_nanos=400, cost_nanos=600),
            planned_receipt(10, planning_nanos=None, cost_nanos=1_000),
        ]
    )
    arms = savings.arm_totals(START)[PLACE]

    assert arms[ExperimentArm.TREATED].cost == 700
    assert arms[ExperimentArm.CONTROL].cost == 2_000


def test_a_conversation_released_from_the_control_arm_stays_in_it_at_its_cost_unmodified(
    engine: Engine, savings: Savings
) -> None:
    inserter(engine)(
        [
            planned_receipt(1, planning_nanos=300, cost_nanos=700),
            planned_receipt(5, planning_nanos=-200, cost_nanos=1_200),
            planned_receipt(45, arm="released", planning_nanos=400, cost_nanos=600),
        ]
    )
    arms = savings.arm_totals(START)[PLACE]

    assert [totals.conversations for totals in arms.values()] == [1, 1, 0]
    assert arms[ExperimentArm.TREATED].cost == 700
    assert arms[ExperimentArm.CONTROL].cost == 2_000


def test_a_feature_says_how_many_conversations_it_still_needs(
    engine: Engine, savings: Savings
) -> None:
    inserter(engine)([planned_receipt(n) for n in range(1, 5)])
    (before,) = savings.compare(START)
    inserter(engine)([planned_receipt(n) for n in range(5, 40)])
    (after,) = savings.compare(START)

    assert before.missing_conversations == 3 * 20
    assert after.missing_conversations == pytest.approx(
        (50 - after.control.conversations) * 5, rel=0.2
    )


def test_a_long_statement_ends_when_the_store_is_closed_and_none_begins_then(
    engine: Engine,
) -> None:
    reads, began = StoppableReads(engine, 600.0), threading.Event()

    def read() -> int:
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT sum(i) FROM n"
        with reads.transaction() as connection:
            began.set()
            return int(connection.exec_driver_sql(endless).scalar_one())

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read)
        began.wait()
        reads.stop()
        with pytest.raises(StoreError):
            reading.result(60)
    with pytest.raises(StoreError, match="being closed"):
        read()


def test_measurements_of_a_closed_store_are_refused(store: Store) -> None:
    store.close(5)

    with pytest.raises(StoreError, match="being closed"):
        store.savings.misses(START)
    with pytest.raises(StoreError, match="being closed"):
        store.arms.measure(lambda: START)
