"""Stakes of compaction: a feature that lost what it may keeps new conversations strict."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compaction.compact import CompactedChat
from compaction.cost_model import STRICT_SAFETY_FACTOR
from proxy.records.compaction_result import CompactionResult
from proxy.records.receipt import Receipt
from proxy.services.compaction.chat_body import CompactedCall, identify_conversation
from proxy.services.compaction.stakes import CompactionStakes
from proxy.store.sql.database import open_database
from proxy.store.sql.ledger.inserts import inserter
from tests.fakes.call_dependencies import RATES
from tests.fakes.clock import ManualClock
from tests.fakes.receipts import a_receipt
from tests.proxy.services.compaction.compaction_fixtures import (
    NOW,
    ROUTE,
    SECRET,
    Shorter,
    chat,
    chat_message,
    room,
    talk,
    task,
)

CENT = 10_000_000
PLACE = ("team_1", "chat")
DAY_S = 86_400.0


def receipt(n: int, nanos: int | None, **fields: object) -> Receipt:
    """The receipt of a compacted call of the feature."""
    given = {"team": "team_1", "feature": "chat", "compaction": "facts", "compacted": True}
    return a_receipt(n, **{**given, "compaction_nanos": nanos, **fields})


def conversation(n: int):
    return chat(chat_message("user", f"Parcel {n}?"), *talk()[2:], id=f"call_{n}")


def refuses(stakes: CompactionStakes, n: int, *, now: float = NOW, **result: Any) -> bool:
    """True if the nth conversation is refused a compaction to 10,000 of 60,000 tokens."""
    call = conversation(n)
    given: dict[str, Any] = {
        "why": "pays",
        "is_compacted": True,
        "messages": 9,
        "before": 60_000,
        "after": 10_000,
    }
    compacted = CompactedCall(
        result=CompactionResult(mode="facts", **{**given, **result}),
        conversation=identify_conversation(call, SECRET),
    )
    dear = replace(task().policy, prices=replace(task().policy.prices, read=0.1, write=1.25))
    return stakes.refuses(task(call, policy=dear), compacted, RATES, now)  # stakes 0.65 cents


def test_a_reset_is_at_stake_until_its_call_has_ended():
    stakes = CompactionStakes(CENT)

    assert not refuses(stakes, 1)
    assert stakes.balance(PLACE, NOW) == -6_500_000
    assert refuses(stakes, 2)
    stakes.record(receipt(1, None, call_id="call_1"))
    assert stakes.balance(PLACE, NOW) == 0
    assert not refuses(stakes, 3)


def test_a_call_without_a_receipt_is_at_stake_for_an_hour():
    stakes = CompactionStakes(CENT)

    assert not refuses(stakes, 1)
    assert refuses(stakes, 2, now=NOW + 3_599)
    assert not refuses(stakes, 3, now=NOW + 3_601)


def test_a_conversation_keeps_the_rule_of_its_first_compaction():
    stakes = CompactionStakes(CENT)
    assert not refuses(stakes, 1)
    stakes.record(receipt(1, -3 * CENT, call_id="call_1"))
    assert refuses(stakes, 2)
    stakes.record(receipt(3, 9 * CENT))

    assert not refuses(stakes, 1, why="cooling_down")
    assert refuses(stakes, 2)
    assert not refuses(stakes, 4)


def test_one_reset_that_is_dearer_than_the_stake_is_allowed_at_a_time():
    stakes = CompactionStakes(1)

    assert not refuses(stakes, 1)
    assert refuses(stakes, 2)


def test_another_processes_compaction_is_kept_unless_its_feature_lost_its_stake():
    sound, losing = CompactionStakes(CENT), CompactionStakes(CENT)
    losing.record(receipt(9, -2 * CENT))

    assert not refuses(sound, 1, why="cooling_down")
    assert refuses(losing, 1, why="cooling_down")


@pytest.mark.parametrize(
    "result",
    [{"messages": 0}, {"is_compacted": False, "messages": None}],
)
def test_trimming_alone_is_no_stake(result):
    stakes = CompactionStakes(CENT)
    stakes.record(receipt(9, -2 * CENT))

    assert not refuses(stakes, 1, **result)


def test_a_compaction_that_its_conversations_savings_pay_is_no_stake():
    stakes = CompactionStakes(CENT)

    assert not any(refuses(stakes, n, why="banked") for n in range(9))
    assert stakes.balance(PLACE, NOW) == 0


def test_losses_that_are_not_stored_yet_are_not_forgotten():
    stakes = CompactionStakes(CENT)
    stakes.record(receipt(1, -2 * CENT))
    stakes.record(receipt(2, 5 * CENT, feature="other"))

    stakes.adopt_stored({})
    assert stakes.balance(PLACE, NOW) == -2 * CENT
    assert stakes.balance(("team_1", "other"), NOW) == 0
    stakes.adopt_stored({PLACE: -2 * CENT})
    assert stakes.balance(PLACE, NOW) == -2 * CENT
    assert stakes.is_used


class StrictlyUnmodified(Shorter):
    """Compacts by the usual rule, and not by the strict one."""

    def __call__(self, raws, policy, *, memory, context):
        compacted = super().__call__(raws, policy, memory=memory, context=context)
        if policy.safety != STRICT_SAFETY_FACTOR:
            return compacted
        return CompactedChat(
            messages=tuple(raws),
            changed=False,
            reason="does_not_pay",
            tokens_before=compacted.tokens_before,
            tokens_after=compacted.tokens_before,
        )


def test_a_feature_that_lost_its_stake_keeps_new_conversations_unmodified(tmp_path):
    with room(tmp_path, StrictlyUnmodified(), stake=CENT) as (compactor, _):

        def compact(n: int) -> CompactionResult:
            return asyncio.run(compactor.compact(conversation(n), ROUTE))

        results = [compact(1)]
        compactor.record_outcome(receipt(1, -2 * CENT, call_id="call_1"))
        results += [compact(n) for n in (2, 2, 1)]

    assert [result.why for result in results] == ["pays", "stake_lost", "stake_lost", "pays"]
    assert [result.is_compacted for result in results] == [True, False, False, True]


class Trimmed(Shorter):
    """Shortens results alone, until the fourth message; from then on compacts unless strict."""

    def __call__(self, raws, policy, *, memory, context):
        compacted = super().__call__(raws, policy, memory=memory, context=context)
        if len(raws) > 4 and policy.safety != STRICT_SAFETY_FACTOR:
            return compacted
        return replace(compacted, reason="too_early", compacted_messages=0, reset=False)


def test_a_refused_conversation_has_no_reset_where_it_goes_on_as_before(tmp_path):
    with room(tmp_path, Trimmed(), stake=CENT) as (compactor, _):
        compactor.record_outcome(receipt(1, -2 * CENT))
        results = [asyncio.run(compactor.compact(chat(*talk(turns)), ROUTE)) for turns in (1, 2, 3)]

    assert [(result.why, result.reset) for result in results] == [("too_early", False)] * 3


def test_without_a_stake_every_policy_is_strict(tmp_path):
    shorter = Shorter()
    with room(tmp_path, shorter, stake=0) as (compactor, _):
        result = asyncio.run(compactor.compact(chat(), ROUTE))

    assert result.is_compacted
    assert [policy.safety for policy in shorter.asked] == [STRICT_SAFETY_FACTOR]


def store_receipts(folder: Path, *receipts: Receipt) -> None:
    """Another process's receipts."""
    engine = open_database(f"sqlite:///{folder / 'thriftgate.db'}")
    inserter(engine)(list(receipts))
    engine.dispose()


def test_losses_of_other_processes_count_for_a_day(tmp_path):
    clock = ManualClock(NOW)
    with room(tmp_path, StrictlyUnmodified(), now=lambda: clock.now) as (compactor, _):

        async def compact(n: int) -> CompactionResult:
            await compactor.read_balances()
            return await compactor.compact(conversation(n), ROUTE)

        store_receipts(tmp_path, receipt(1, -2 * CENT))
        lost = asyncio.run(compact(1))
        clock.now += DAY_S + 3_600
        later = asyncio.run(compact(2))

    assert [lost.why, later.why] == ["stake_lost", "pays"]


def test_a_database_that_is_away_leaves_the_balances_as_they_are(tmp_path):
    with room(tmp_path, StrictlyUnmodified()) as (compactor, _):
        compactor.record_outcome(receipt(1, -2 * CENT))
        (tmp_path / "thriftgate.db").write_bytes(b"no database")
        asyncio.run(compactor.read_balances())

        assert asyncio.run(compactor.compact(conversation(1), ROUTE)).why == "stake_lost"


def test_50000_conversations_and_8192_features_have_a_balance():
    stakes = CompactionStakes(CENT)
    for number in range(50_500):
        stakes._is_strict.put(b"%d" % number, value=True)
    for number in range(8_300):
        stakes._recent.put(("team_1", str(number)), CENT)

    assert 49_500 < len(stakes._is_strict) <= 50_000
    assert 8_100 < len(stakes._recent) <= 8_192
