"""Drafts that run beside an answer: their time, their end, their receipts."""

import json

import pytest

from proxy.calls.drafts.drafting import DRAFT_NUMBER
from proxy.records.receipt import Outcome, ServedBy
from slo.policies.drafts import DraftRule
from slo.usage import Usage
from tests.fakes.answers import DONE, chunk, failed_answer, stream, usage_chunk
from tests.fakes.call_dependencies import ESTIMATE, FakeEstimator, route
from tests.fakes.upstream import JSON, SILENCE, After, broken_connection
from tests.proxy.calls.drafts.drafted_calls import ROOM, serve_drafted

ANSWER = chunk("The answer") + chunk("", reason="stop") + DONE
LATE = stream(After(1.0, chunk("The answer")), chunk("", reason="stop"), usage_chunk() + DONE)
SLOW_DRAFT = stream(After(0.1, chunk("A ")), After(0.2, chunk("draft")), SILENCE)
WHOLE_DRAFT = stream(After(0.1, chunk("A draft")), chunk("", reason="stop"), usage_chunk() + DONE)


def draft_text_of(served) -> str:
    return "".join(json.loads(data)["draft"] for data in served.draft_events)


def test_the_first_words_come_at_the_drafts_time_and_the_answer_at_its_own():
    served = serve_drafted(LATE, SLOW_DRAFT)

    assert served.at[:3] == pytest.approx([0.1, 0.3, 1.0], abs=0.001)
    assert draft_text_of(served) == "A draft"
    assert served.caller.body.endswith(ANSWER)
    assert served.caller.head is not None
    assert served.caller.head.headers["x-thriftgate-draft"] == "s"


def test_a_draft_that_is_overtaken_is_cut_off_and_billed_for_what_ran():
    estimator = FakeEstimator()
    served = serve_drafted(LATE, SLOW_DRAFT, estimator=estimator)
    draft = served.draft

    assert estimator.delivered == ["A draft"]
    assert (draft.attempt, draft.final, draft.route) == (DRAFT_NUMBER, False, "small/m")
    assert (draft.outcome, draft.error) == (Outcome.HUNG_UP, "draft_ended")
    assert (draft.usage, draft.estimated) == (ESTIMATE, True)
    assert draft.cost_nanos is not None
    assert draft.fast_path_nanos == -draft.cost_nanos
    assert served.caller.attempts == [draft]


def test_the_answer_is_booked_as_without_a_draft():
    served = serve_drafted(LATE, SLOW_DRAFT)

    assert (served.answer.attempt, served.answer.served_by) == (0, ServedBy.NOBODY)
    assert (served.answer.outcome, served.answer.usage) == (
        Outcome.ANSWERED,
        Usage(input=36, cache_read=64, output=10),
    )
    assert served.answer.ttft == pytest.approx(1.0, abs=0.001)


def test_a_draft_that_ends_first_says_so_and_has_its_own_usage():
    served = serve_drafted(LATE, WHOLE_DRAFT)

    assert json.loads(served.draft_events[-1])["done"] is True
    assert (served.draft.outcome, served.draft.estimated) == (Outcome.ANSWERED, False)
    assert draft_text_of(served) == "A draft"
    assert served.caller.body.endswith(ANSWER)


def test_an_answer_that_is_first_comes_byte_for_byte_with_its_own_head():
    served = serve_drafted(stream(ANSWER), stream(After(0.5, chunk("A draft"))))

    assert served.caller.body == ANSWER
    assert served.caller.head is not None
    assert served.caller.head.model == "m"
    assert (served.draft.outcome, served.draft.error) == (Outcome.HUNG_UP, "draft_ended")


@pytest.mark.parametrize(
    ("draft", "outcome"),
    [
        (failed_answer(500), Outcome.FAILED),
        (broken_connection(), Outcome.FAILED),
        (stream(After(0.1, chunk("A ")), broken_connection()), Outcome.BROKEN),
        (stream(After(0.1, b"data: {oops\n\n"), b"data: also\n\n"), Outcome.BROKEN),
    ],
)
def test_a_draft_that_fails_never_harms_the_answer(draft, outcome):
    served = serve_drafted(LATE, draft)

    assert served.error is None
    assert served.caller.body.endswith(ANSWER)
    assert b"error" not in served.caller.body
    assert (served.draft.outcome, served.draft.final) == (outcome, False)
    assert served.answer.outcome is Outcome.ANSWERED


def test_an_answer_that_fails_after_a_draft_ends_the_stream_with_its_error():
    served = serve_drafted(failed_answer(500), stream(After(0.0, chunk("A draft")), SILENCE))
    late = serve_drafted(stream(After(1.0, b"")), SLOW_DRAFT)

    assert served.error is not None  # nothing was sent yet
    assert (late.error, late.caller.is_ended) == (None, True)
    assert b"upstream_failed_early" in late.caller.last_piece
    assert (late.answer.outcome, late.draft.final) == (Outcome.FAILED, False)


def test_a_caller_who_leaves_ends_both_and_pays_for_what_ran():
    served = serve_drafted(stream(SILENCE), SLOW_DRAFT, caller={"leaves_after": 0.2})

    assert served.error is not None
    assert served.error.code == "caller_hung_up"
    assert [(one.outcome, one.final) for one in (served.answer, served.draft)] == [
        (Outcome.HUNG_UP, True),
        (Outcome.HUNG_UP, False),
    ]
    assert served.draft.cost_nanos


def test_an_answer_that_is_no_stream_ends_a_drafted_stream_with_an_error():
    whole = {"id": "c", "choices": [{"index": 0, "message": {"content": "Hi"}}]}
    answer = stream(After(1.0, json.dumps(whole).encode()), headers=JSON)
    served = serve_drafted(answer, SLOW_DRAFT)

    assert b"answer_not_streamed" in served.caller.last_piece


def test_a_rule_of_the_policies_has_calls_of_its_feature_drafted():
    rule = DraftRule(name="chat", feature="chat", model="s")
    other = DraftRule(name="other", feature="other", model="s")

    assert draft_text_of(serve_drafted(LATE, SLOW_DRAFT, rules=(rule,))) == "A draft"
    assert serve_drafted(LATE, SLOW_DRAFT, rules=(other,)).caller.body == ANSWER
    assert serve_drafted(LATE, SLOW_DRAFT, rules=(rule,), draft="off").caller.body == ANSWER


def test_a_draft_has_no_idempotency_key_of_the_answers():
    key = {"idempotency-key": "k", "content-type": "application/json"}
    served = serve_drafted(LATE, WHOLE_DRAFT, headers=key)
    sent = {name: fake.sent[0][1].headers for name, fake in served.transport.by_name.items()}

    assert sent["large"]["idempotency-key"] == "k"
    assert "idempotency-key" not in sent["small"]


def test_an_upstream_that_may_go_on_is_counted_as_other_abandoned_answers():
    served = serve_drafted(
        LATE, SLOW_DRAFT, draft_route=route("small", bills_abandoned=True, **ROOM),
        estimator=FakeEstimator(average=40),
    )  # fmt: skip

    assert served.draft.usage == Usage(input=11, output=40)
    assert any(note.startswith("abandoned: 40") for note in served.draft.notes)
