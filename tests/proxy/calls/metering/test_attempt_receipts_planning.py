"""A receipt says what was planned and compacted, and what that saved."""

import msgspec
import pytest

from proxy.calls.metering.attempt_receipts import build_receipt
from proxy.calls.metering.settlement import AttemptInfo
from proxy.prefix.explain.reasons import CacheMiss, MissReason
from proxy.prefix.planned import Passthrough, Planned
from proxy.records.compaction_result import CompactionResult
from proxy.records.receipt import Receipt
from proxy.records.timeline import Timeline
from slo.price import (
    PricePeriod,
    PriceSheet,
    Tariff,
)
from slo.usage import Usage
from tests.fakes.call_dependencies import RATES, call, route
from tests.fakes.clock import ManualClock
from tests.proxy.calls.settled_calls import BODY, SEAL, attempt_outcome, there
from tests.proxy.prefix.planning_requests import (
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    planning_request,
)


def again(share: float = 0.0) -> Planned:
    """The second call of a conversation whose first one was not counted, planned."""
    process = PlanningProcess(TARGETS["block-chain"], share=share)
    first = process.plan(planning_request(body(*conversation_messages(0))))
    process.planner.settle_call(first, None)
    return process.plan(planning_request(body(*conversation_messages(1))))


def receipt_of(planned: Planned | Passthrough, **fields: object) -> Receipt:
    attempt = AttemptInfo(call=call(BODY), route=there(), planned=planned)
    return build_receipt(attempt, attempt_outcome(**fields), Timeline(ManualClock(5.0)), SEAL)


def warm() -> Planned:
    """A call that reads by our marks what Anthropic would not have stored without them."""
    process = PlanningProcess(TARGETS["anthropic-breakpoint"])
    for turns in range(6):
        call = planning_request(body(*conversation_messages(turns, "Read the rules. " * 2_000)))
        planned = process.plan_and_settle(call)
    return planned


def test_a_receipt_says_what_was_planned():
    planned = again()
    receipt = receipt_of(planned)

    assert receipt.conversation == planned.draft.conversation.hex()
    assert (receipt.arm, receipt.layout) == ("treated", 0)
    assert (receipt.miss, receipt.miss_detail, receipt.miss_tokens, receipt.miss_nanos) == (
        "",
        "",
        None,
        None,
    )
    assert receipt_of(again(share=1.0)).arm == "control"


def test_the_expected_cache_read_is_reported_in_the_providers_own_tokens():
    planned = again()
    total = planned.evidence.sent.estimate
    expected = planned.evidence.expected.tokens

    assert expected > 0
    assert receipt_of(planned, usage=None).expected_read == expected
    assert receipt_of(planned, usage=Usage(input=2 * total)).expected_read == pytest.approx(
        2 * expected, rel=0.01
    )


def test_a_receipt_keeps_the_sizes_of_its_segments_and_the_places_of_its_marks():
    planned = warm()
    total = planned.evidence.sent.estimate
    segments = receipt_of(planned, usage=Usage(input=2 * total)).segments

    assert segments is not None
    assert sum(tokens for _, tokens in segments.sizes()) == 2 * total
    assert segments.stable > 0
    assert segments.variable > 0
    assert len(segments.marks) == len(planned.evidence.sent.marks) > 0
    assert [mark.tokens for mark in segments.marks] == sorted(
        mark.tokens for mark in segments.marks
    )
    assert segments.stable <= segments.marks[-1].tokens <= 2 * total
    assert len(msgspec.json.encode(segments)) < 100
    assert receipt_of(Passthrough("too large")).segments is None


def test_a_receipt_says_why_the_cache_missed():
    miss = CacheMiss(reason=MissReason.DIVERGED, detail="tools[3] moved", tokens=900, nanos=810_000)
    receipt = receipt_of(again(), miss=miss)

    assert (receipt.miss, receipt.miss_detail) == ("diverged", "tools[3] moved")
    assert (receipt.miss_tokens, receipt.miss_nanos) == (900, 810_000)


def test_a_call_that_was_not_planned_says_nothing_of_it():
    receipt = receipt_of(Passthrough("too large"))

    assert (receipt.conversation, receipt.arm, receipt.layout, receipt.expected_read) == (
        "",
        "",
        0,
        None,
    )
    assert receipt.unplanned_why == "too large"


def test_a_small_call_that_was_not_planned_has_the_reason_in_its_receipt():
    receipt = receipt_of(Passthrough(reason="under_2_kb"))

    assert (receipt.unplanned_why, receipt_of(Passthrough()).unplanned_why) == ("under_2_kb", "")


def test_a_compacted_call_says_what_was_sent_and_what_that_saved():
    compaction = CompactionResult(
        mode="facts",
        why="pays",
        is_compacted=True,
        messages=12,
        before=600,
        after=150,
        needed=4,
        lost=1,
    )
    receipt = build_receipt(
        AttemptInfo(call=call(BODY), route=there(), compaction=compaction),
        attempt_outcome(),
        Timeline(ManualClock(5.0)),
        SEAL,
    )
    guessed = build_receipt(
        AttemptInfo(call=call(BODY), route=there(), compaction=compaction),
        attempt_outcome(estimated=True),
        Timeline(ManualClock(5.0)),
        SEAL,
    )

    assert (receipt.compaction, receipt.compaction_why, receipt.compacted) == (
        "facts",
        "pays",
        True,
    )
    assert receipt.compacted_messages == 12
    assert (receipt.tokens_before, receipt.tokens_after, receipt.needed, receipt.lost) == (
        600,
        150,
        4,
        1,
    )
    assert receipt.compaction_nanos == 450 * 90
    assert guessed.compaction_nanos is None


def test_a_receipt_says_what_planning_should_have_saved():
    planned = warm()
    total = planned.evidence.sent.estimate
    rates = msgspec.structs.replace(RATES, write_5m=1_250_000_000)
    tariff = Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=rates)}),))
    attempt = AttemptInfo(call=call(BODY), route=route("up", tariff=tariff), planned=planned)
    end = attempt_outcome(usage=Usage(input=100, cache_read=total - 100, output=5))
    receipt = build_receipt(attempt, end, Timeline(ManualClock(5.0)), SEAL)

    assert planned.direct is not None
    assert receipt.planning_nanos is not None
    assert receipt.cost_nanos is not None
    assert receipt.planning_nanos > receipt.cost_nanos
    assert receipt_of(planned, usage=None).planning_nanos is None
    assert receipt_of(again(), usage=Usage(input=100)).planning_nanos == 0
    assert receipt_of(again(share=1.0), usage=Usage(input=100)).planning_nanos is None
