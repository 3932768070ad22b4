"""A receipt says what was asked for, taken, answered and paid."""

from dataclasses import replace

import msgspec
import pytest

from proxy.calls.metering.attempt_receipts import build_receipt
from proxy.calls.metering.settlement import (
    AttemptInfo,
)
from proxy.providers.answers.engine_timings import EngineTimings
from proxy.records.receipt import Outcome, PhasesFrom
from proxy.records.timeline import Timeline
from slo.replica_cost import CostShare
from tests.fakes.call_dependencies import KEY, call, route
from tests.fakes.clock import ManualClock
from tests.proxy.calls.settled_calls import BODY, SEAL, USAGE, attempt_outcome, there

SHARE = CostShare(ns=2 * 10**9, nanos=1_234, gpu_seconds=2.0)


def test_a_receipt_says_whose_price_it_assumes():
    served = replace(there(), assumed_price_of="m-1")
    attempt = AttemptInfo(call=call(BODY), route=served)

    receipt = build_receipt(attempt, attempt_outcome(), Timeline(ManualClock(5.0)), SEAL)

    assert receipt.notes[-1].startswith("its price is assumed: that of m-1,")


def test_a_receipt_says_what_was_asked_taken_and_paid():
    ticks = ManualClock(5.0)
    timeline = Timeline(ticks)
    ticks.now = 6.0
    timeline.mark_first_content()
    with timeline.waiting:
        ticks.now = 8.0
    attempt = AttemptInfo(call=call(BODY), route=there(), number=1, notes=("dropped seed",))
    receipt = build_receipt(
        attempt, attempt_outcome(upstream_id="chatcmpl-1", estimated=True), timeline, SEAL
    )

    assert (receipt.call_id, receipt.attempt, receipt.final) == ("call_1", 1, True)
    assert (receipt.team, receipt.key_id, receipt.feature) == ("team_1", "key_1", "chat")
    assert (receipt.endpoint, receipt.model, receipt.streamed) == ("chat/completions", "m", False)
    assert (receipt.route, receipt.upstream, receipt.upstream_id) == ("up/m", "up", "chatcmpl-1")
    assert (receipt.outcome, receipt.status, receipt.error) == (Outcome.ANSWERED, 200, "")
    assert (receipt.usage, receipt.estimated) == (USAGE, True)
    assert (receipt.list_nanos, receipt.cost_nanos) == (145_000, 130_500)
    assert (receipt.read_saved_nanos, receipt.write_extra_nanos) == (45_000, 0)
    assert (receipt.ttft, receipt.duration, receipt.overhead) == (1.0, 3.0, 1.0)
    assert (receipt.notes, receipt.started) == (("dropped seed",), 1_790_000_000.0)
    assert receipt.user == SEAL.pseudonym("team_1", b"ann")
    assert receipt.fingerprint == SEAL.pseudonym("team_1", BODY)


def test_usage_of_a_background_answer_is_unknown_and_not_estimated():
    later = call(b'{"model":"m","background":true}', "responses")
    attempt = AttemptInfo(call=later, route=there(), notes=("dropped seed",))
    receipt = build_receipt(
        attempt, attempt_outcome(estimated=True), Timeline(ManualClock(5.0)), SEAL
    )

    assert (receipt.usage, receipt.cost_nanos, receipt.estimated) == (None, None, False)
    assert receipt.notes == (
        "dropped seed",
        "answered in the background: what it used is not known here",
    )


def test_a_background_call_that_reported_its_usage_is_priced_and_one_cut_off_is_estimated():
    attempt = AttemptInfo(call=call(b'{"background":true}', "responses"), route=there())
    reported, cut = (
        build_receipt(attempt, end, Timeline(ManualClock(5.0)), SEAL)
        for end in (attempt_outcome(), attempt_outcome(outcome=Outcome.BROKEN, estimated=True))
    )

    assert (reported.cost_nanos, reported.notes) == (130_500, ())
    assert (cut.cost_nanos, cut.estimated, len(cut.notes)) == (130_500, True, 1)


def test_a_receipt_says_that_fees_of_hosted_tools_are_not_in_its_cost():
    body = b'{"tools":[{"type":"web_search"}]}'
    attempt = AttemptInfo(call=call(body, "responses"), route=there())

    assert build_receipt(attempt, attempt_outcome(), Timeline(ManualClock(5.0)), SEAL).notes == (
        "it offered hosted tools: their fees, where it used them, are not in the cost",
    )


def test_clocks_that_disagree_make_no_negative_overhead():
    timeline = Timeline(ManualClock(5.0))
    timeline.waiting.seconds = 9.0

    assert (
        build_receipt(AttemptInfo(call=call(BODY)), attempt_outcome(), timeline, SEAL).overhead
        == 0.0
    )


def test_prompts_are_kept_only_for_teams_that_ask_for_it():
    keeps = msgspec.structs.replace(KEY, keeps_prompts=True)
    receipts = [
        build_receipt(
            AttemptInfo(call=call(body, key=key, fields=None)),
            attempt_outcome(),
            Timeline(ManualClock(5.0)),
            SEAL,
        )
        for key, body in ((KEY, BODY), (keeps, BODY), (keeps, b"\xff" * 5_000_000))
    ]

    assert [receipt.prompt for receipt in receipts[:2]] == [None, BODY.decode()]
    assert len(receipts[2].prompt or "") == 4 * 1024 * 1024


def test_a_receipt_has_its_engine_s_phases_and_draft_tokens():
    report = EngineTimings(queue=0.5, prefill=0.25, decode=1.0, draft_tokens=8, accepted_tokens=6)
    ticks = ManualClock(5.0)
    timeline = Timeline(ticks)
    with timeline.waiting:
        ticks.now += 2.0
    attempt = AttemptInfo(call=call(BODY), route=there(), sent_at=5.0)
    receipt = build_receipt(attempt, attempt_outcome(timings=report), timeline, SEAL)

    assert (receipt.queue, receipt.prefill, receipt.decode, receipt.transfer) == (
        0.5,
        0.25,
        1.0,
        0.25,
    )
    assert (receipt.draft_tokens, receipt.accepted_tokens) == (8, 6)
    assert receipt.phases_from is PhasesFrom.ENGINE


def test_a_receipt_of_a_provider_has_no_phases():
    receipt = build_receipt(
        AttemptInfo(call=call(BODY), route=there(), sent_at=5.0),
        attempt_outcome(),
        Timeline(ManualClock(5.0)),
        SEAL,
    )

    assert (receipt.queue, receipt.prefill, receipt.phases_from) == (None, None, PhasesFrom.NOBODY)


def test_a_call_of_an_engine_costs_its_share_of_the_replica():
    attempt = AttemptInfo(call=call(BODY), route=route(tariff=None))
    receipt = build_receipt(attempt, attempt_outcome(share=SHARE), Timeline(ManualClock(5.0)), SEAL)

    assert (receipt.list_nanos, receipt.cost_nanos, receipt.gpu_seconds) == (1_234, 1_234, 2.0)


def test_a_share_of_unknown_price_is_not_free():
    share = CostShare(ns=10**9, nanos=None, gpu_seconds=1.0)
    attempt = AttemptInfo(call=call(BODY), route=route(tariff=None))
    receipt = build_receipt(attempt, attempt_outcome(share=share), Timeline(ManualClock(5.0)), SEAL)

    assert (receipt.cost_nanos, receipt.gpu_seconds) == (None, 1.0)


@pytest.mark.parametrize(
    ("body", "changes", "is_noted"),
    [
        (b'{"model":"m","max_tokens":10}', {}, True),
        (b'{"model":"m","max_completion_tokens":9}', {}, True),
        (b'{"model":"m","max_tokens":11}', {}, False),
        (b'{"model":"m","max_tokens":10,"n":2}', {}, False),
        (b'{"model":"m"}', {}, False),
        (b'{"model":"m","max_tokens":10}', {"estimated": True}, False),
        (b'{"model":"m","max_tokens":10}', {"outcome": Outcome.BROKEN}, False),
        (b'{"model":"m","max_tokens":10}', {"usage": None}, False),
    ],
)
def test_an_answer_as_long_as_its_limit_says_that_no_cache_keeps_it(body, changes, is_noted):
    attempt = AttemptInfo(call=call(body), route=there())
    end = attempt_outcome(**changes)
    notes = build_receipt(attempt, end, Timeline(ManualClock(5.0)), SEAL).notes

    assert any("keeps no cut answer" in note for note in notes) == is_noted
