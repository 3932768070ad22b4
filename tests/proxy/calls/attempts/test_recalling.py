"""Recalls of a compacted call on its way through the whole pipeline, before a scripted upstream."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import orjson
import pytest

from compaction.compact import compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.reading.message import Count
from compaction.reading.token_estimate import estimate_tokens
from compaction.recall.tool_index import TOOL_NAME
from proxy.catalog.entries import Route
from proxy.errors import ProxyError
from proxy.records.call import Call
from proxy.records.compaction_result import CompactionResult
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import COMPLETION, failed_answer
from tests.fakes.call_dependencies import FakeEstimator, call, fake_dependencies, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.chat_messages import assistant, system, user
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import FakeTransport, Piece, ScriptedAnswer, broken_connection
from tests.proxy.api.served_calls import ONE

pytestmark = pytest.mark.instant_time

RAWS = [
    system("You help."),
    *[
        raw
        for day in range(12)
        for raw in (user(f"And day {day}?"), assistant(f"Fog {day}. " + "It rained. " * 60))
    ],
    user("Which fog was on day 3?"),
]
BODY = b'{"model":"m","messages":[' + b",".join(RAWS) + b"]}"
SHORT = b'{"model":"m","messages":[{"role":"user","content":"In short."}],"seed":7}'
ROUND_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def recall_answer(*arguments: str) -> ScriptedAnswer:
    """A whole answer that calls the recall tool so often, and nothing else."""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": TOOL_NAME, "arguments": text}}
        for n, text in enumerate(arguments)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = {"id": "chatcmpl-0", "choices": [choice], "usage": ROUND_USAGE}
    return ScriptedAnswer([orjson.dumps(body)])


class RecallingCompaction:
    """Compacts every call so that its model may recall."""

    def __init__(self, count: Count = estimate_tokens) -> None:
        policy = CompactionPolicy(mode=CompactionMode.FACTS_RECALL, force=True, least=500)
        removed = compact(RAWS, policy, memory=CompactionMemory()).removed
        assert removed is not None
        self.removed = msgspec.structs.replace(removed, count=count)
        self.refusals: list[str] = []

    def has_part(self, call: Call) -> bool:
        return True

    async def compact(self, call: Call, route: Route) -> CompactionResult:
        sent_call = msgspec.structs.replace(call, body=SHORT)
        return CompactionResult(
            mode="facts+recall",
            why="pays",
            sent=sent_call,
            is_compacted=True,
            before=900,
            after=90,
            removed=self.removed,
        )

    async def track_unmodified(self, call: Call, compaction: CompactionResult) -> CompactionResult:
        return compaction

    def record_refusal(self, call: Call, compaction: CompactionResult) -> None:
        self.refusals.append(compaction.why)


@dataclass
class RecalledCall:
    receipts: list[Receipt]
    sent: list[dict[str, Any]]
    caller: FakeCaller
    refusals: list[str]
    headers: list[dict[str, str]] = field(default_factory=list)


def serve(
    *scripts: ScriptedAnswer | Piece, count: Count = estimate_tokens, **fields: Any
) -> RecalledCall:
    async def work() -> RecalledCall:
        transport, caller = FakeTransport(scripts), FakeCaller()
        table, ledger = fake_dependencies(transport, ONE, estimator=FakeEstimator())
        compaction = RecallingCompaction(count)
        table = replace(table, compaction=compaction)
        with suppress(ProxyError):
            await serve_call(call(BODY, **fields), caller, table, Timeline(ticks))
        requests = [prepared for _, prepared in transport.sent]
        bodies = [orjson.loads(request.body) for request in requests]
        headers = [dict(request.headers) for request in requests]
        return RecalledCall(ledger.receipts, bodies, caller, compaction.refusals, headers)

    return run_in_instant_time(work())


def test_a_recall_is_answered_from_the_callers_own_messages():
    done = serve(recall_answer('{"query":"fog day 3"}'), ScriptedAnswer([COMPLETION]))
    first, second = done.sent
    (receipt,) = done.receipts

    assert second["messages"][:1] == first["messages"]
    assert "Fog 3." in second["messages"][-1]["content"]
    assert second["seed"] == first["seed"]
    assert (receipt.recalls, receipt.outcome) == (1, Outcome.ANSWERED)
    assert 0 < receipt.recalled_tokens < 8_000
    assert done.caller.body == COMPLETION


def test_several_recalls_of_one_round_are_answered_together():
    done = serve(recall_answer('{"id":"2"}', '{"id":"4"}', "no json"), ScriptedAnswer([COMPLETION]))
    answers = [message["content"] for message in done.sent[1]["messages"][-3:]]

    assert "Fog 1." in answers[0]
    assert "Fog 3." in answers[1]
    assert "Give `id`" in answers[2]
    assert done.receipts[0].recalls == 1


def test_the_usage_of_all_rounds_is_on_one_receipt_and_planning_counts_one_prompt():
    rounds = [recall_answer('{"id":"2"}') for _ in range(2)]
    (receipt,) = serve(*rounds, ScriptedAnswer([COMPLETION])).receipts
    (single,) = serve(ScriptedAnswer([COMPLETION])).receipts

    assert receipt.usage is not None
    assert single.usage is not None
    assert receipt.usage.prompt_tokens == 200 + single.usage.prompt_tokens
    assert receipt.usage.generated_tokens == 20 + single.usage.generated_tokens
    assert receipt.recalls == 2
    assert receipt.cost_nanos is not None
    assert single.cost_nanos is not None
    assert receipt.cost_nanos > single.cost_nanos
    assert receipt.compaction_nanos is not None
    assert single.compaction_nanos is not None


def test_a_model_that_recalls_more_often_than_it_may_is_sent_the_unmodified_prompt():
    rounds = [recall_answer('{"id":"2"}') for _ in range(3 + 1)]
    done = serve(*rounds, ScriptedAnswer([COMPLETION]))
    failed, answered = done.receipts

    assert done.sent[-1] == orjson.loads(BODY)
    assert (failed.error, failed.final) == ("recall_failed", False)
    assert failed.usage == Usage(input=100 * 4, output=10 * 4)
    assert (answered.compacted, answered.outcome) == (False, Outcome.ANSWERED)
    assert (answered.compaction_why, done.refusals) == ("recall_failed", [])


def test_a_recall_that_cannot_be_looked_up_sends_the_unmodified_prompt():
    def failing_count(text: str) -> int:
        raise OverflowError(text)

    done = serve(recall_answer('{"id":"2"}'), ScriptedAnswer([COMPLETION]), count=failing_count)
    failed, answered = done.receipts

    assert done.sent[-1] == orjson.loads(BODY)
    assert (failed.error, failed.usage) == ("recall_failed", Usage(input=100, output=10))
    assert (answered.compacted, answered.outcome) == (False, Outcome.ANSWERED)


def test_a_round_that_is_refused_costs_what_the_rounds_before_did():
    done = serve(recall_answer('{"id":"2"}'), failed_answer(400), ScriptedAnswer([COMPLETION]))
    failed, answered = done.receipts

    assert failed.usage == Usage(input=100, output=10)
    assert failed.estimated is False
    assert done.refusals == ["refused"]
    assert done.sent[-1] == orjson.loads(BODY)
    assert answered.recalls == 0


def test_a_round_whose_connection_breaks_leaves_a_receipt_of_all_that_was_used():
    broken = ScriptedAnswer([broken_connection()])
    done = serve(recall_answer('{"id":"2"}'), broken)
    (failed,) = done.receipts

    assert (failed.outcome, failed.recalls, failed.final) == (Outcome.FAILED, 1, True)
    assert failed.usage is not None
    assert failed.usage.prompt_tokens > 100


def test_each_round_has_an_idempotency_key_of_its_own():
    headers = {"idempotency-key": "k"}
    done = serve(recall_answer('{"id":"2"}'), ScriptedAnswer([COMPLETION]), headers=headers)

    assert [sent.get("idempotency-key") for sent in done.headers] == ["k", "k-1"]
