"""Tests of what an attempt's steps tell of it."""

import msgspec
import pytest

from proxy.calls.attempts.steps import CompactedAttempt, PlannedAttempt
from proxy.calls.metering.settlement import AttemptInfo
from proxy.errors import UpstreamError
from proxy.prefix.planned import Passthrough
from proxy.records.compaction_result import CompactionResult
from tests.fakes.call_dependencies import call
from tests.fakes.planned_calls import marked_call

CALL = call(b'{"model":"m","messages":[],"stream":true}')
SHORTER = CompactionResult(mode="facts", sent=msgspec.structs.replace(CALL, body=b"{}"))
PLANNED = marked_call("Well?")


def failure(status: int, code: str = "upstream_error") -> UpstreamError:
    return UpstreamError("no", status=status, code=code, retryable=False)


@pytest.mark.parametrize(("status", "is_refused"), [(400, True), (422, True), (503, False)])
def test_only_a_refusal_may_be_for_what_planning_changed(status, is_refused):
    attempt = PlannedAttempt(info=AttemptInfo(call=CALL), plan=PLANNED)

    assert attempt.refused_plan(failure(status)) is (PLANNED if is_refused else None)


def test_no_plan_is_refused_where_the_prompt_was_not_changed():
    info = AttemptInfo(call=CALL)
    same = msgspec.structs.replace(PLANNED, body=CALL.body)

    for plan in (same, Passthrough("planning failed")):
        assert PlannedAttempt(info=info, plan=plan).refused_plan(failure(400)) is None
    assert CompactedAttempt(info=info).refused_plan(failure(400)) is None


@pytest.mark.parametrize(
    ("status", "code", "why"),
    [
        (400, "upstream_error", "refused"),
        (422, "recall_failed", "recall_failed"),
        (400, "context_length_exceeded", ""),
        (503, "upstream_error", ""),
    ],
)
def test_only_a_refusal_for_another_reason_than_length_may_be_for_compaction(status, code, why):
    attempt = CompactedAttempt(info=AttemptInfo(call=CALL, compaction=SHORTER))

    refused = attempt.refused_compaction(failure(status, code))
    assert refused == (msgspec.structs.replace(SHORTER, why=why) if why else None)


def test_no_compaction_is_refused_where_nothing_was_shortened():
    attempt = CompactedAttempt(info=AttemptInfo(call=CALL))

    assert attempt.refused_compaction(failure(400)) is None
