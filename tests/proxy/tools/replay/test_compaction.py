"""Recorded calls as the gateway would have compacted them."""

import logging
from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest

from compaction.compact import CompactedChat
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.reading.message import CannotCompactError
from proxy.tools.replay.compaction import CompactedVariant
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.run import replay
from proxy.tools.replay.variant_totals import sum_of
from slo.usage import Usage
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.proxy.tools.replay.scene import (
    RULES,
    assistant,
    call,
    dialogue,
    prompt_reader,
    system,
    user,
    with_times,
)

NOTHING = Usage(input=1)
LONG = system(*RULES)


def agent(turns: int, size: int = 60) -> list[RecordedCall]:
    """A conversation whose tool results are long."""
    messages: list[dict[str, Any]] = [LONG]
    calls = []
    for turn in range(turns):
        messages.append(user(f"Where is order ORD-{turn}?"))
        function = {"name": "read_file", "arguments": f'{{"path":"orders/{turn}.txt"}}'}
        reply = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{turn}", "type": "function", "function": function}],
        }
        calls.append(call(*messages, reply=reply))
        text = " ".join(
            f"In year {turn * size + n} the ship with order ORD-{turn} lay before the quay."
            for n in range(size)
        )
        messages += [reply, {"role": "tool", "tool_call_id": f"c{turn}", "content": text}]
        answer = assistant(f"Order ORD-{turn} was sent.")
        calls.append(call(*messages, reply=answer))
        messages.append(answer)
    return calls


def small(vocabulary) -> PromptReader:
    """A route whose window a long conversation outgrows, so that it has to be compacted."""
    read = prompt_reader("breakpoints", vocabulary)
    read.route = replace(read.route, window=12_000)
    return read


def bodies_of(variant: CompactedVariant, calls: list[RecordedCall]) -> list[bytes]:
    sent_bodies = []
    for now, line in with_times(calls):
        sent_bodies.append(variant.body(line, now))
        variant.record_answer(NOTHING)
    return sent_bodies


def test_a_long_conversation_is_sent_shorter_and_its_prefix_moves_at_resets_alone(vocabulary):
    variant = CompactedVariant(small(vocabulary), 0.0)
    calls = agent(40)
    bodies = bodies_of(variant, calls)
    came = variant.totals

    assert came.calls > 10
    assert 0 < came.resets < 8
    assert sum(map(len, bodies)) < 0.7 * sum(len(line.body) for line in calls)
    assert 0 < came.trimmed + came.calls <= 80
    assert sum(came.uncompacted.values()) + came.calls == 80


def test_a_compacted_conversation_costs_less_than_what_was_sent(vocabulary):
    read = small(vocabulary)
    variants = (PlannedVariant(read, 0.0, arranges=True), CompactedVariant(read, 0.0))
    run = replay(with_times(agent(40)), read, variants)
    as_sent, arranged, row = sum_of(run.features())

    assert row.input_tokens < 0.7 * arranged.input_tokens
    assert row.refused == 0
    assert row.nanos is not None
    assert as_sent.nanos is not None
    assert row.nanos < as_sent.nanos


def test_messages_calls_are_compacted_as_they_would_be_live(vocabulary):
    variant = CompactedVariant(small(vocabulary), 0.0)
    for line in agent(40):
        request_body = orjson.loads(line.body)
        for message in request_body["messages"]:
            if message["role"] == "tool":
                block = {"type": "tool_result", "tool_use_id": message.pop("tool_call_id")}
                message |= {"role": "user", "content": [block | {"content": message["content"]}]}
            elif "tool_calls" in message:
                (called,) = message.pop("tool_calls")
                path = orjson.loads(called["function"]["arguments"])
                block = {"type": "tool_use", "id": called["id"], "name": "read_file"}
                message["content"] = [block | {"input": path}]
        request_body["system"] = request_body["messages"].pop(0)["content"]
        native = msgspec.structs.replace(line, body=orjson.dumps(request_body), is_native=True)
        variant.body(native, 0.0)

    assert variant.totals.calls > 10
    assert 0 < variant.totals.resets < 8


def test_a_short_conversation_goes_as_it_is_arranged_with_its_reason_counted(vocabulary):
    variant = CompactedVariant(prompt_reader("breakpoints", vocabulary), 0.0)
    calls = dialogue(LONG, 3)

    for line, body_sent in zip(calls, bodies_of(variant, calls), strict=True):
        assert_nothing_lost(line.body, body_sent)
    assert variant.totals.calls == 0
    assert sum(variant.totals.uncompacted.values()) == 3


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (call({"role": "user", "content": ""}), None),
        (call(LONG, {"role": 7, "content": "?"}), None),
        (call(user("/compact")), "client"),
        (call(LONG), "nothing_said"),
    ],
)
def test_a_call_that_cannot_be_compacted_goes_unmodified(vocabulary, line, why):
    variant = CompactedVariant(prompt_reader("breakpoints", vocabulary), 0.0)

    assert_nothing_lost(line.body, variant.body(line, 0.0))
    (reason,) = variant.totals.uncompacted
    assert reason == (why or reason)


def test_off_compacts_nothing(vocabulary):
    variant = CompactedVariant(
        prompt_reader("breakpoints", vocabulary), 0.0, mode=CompactionMode.OFF
    )
    bodies_of(variant, agent(20))

    assert variant.totals.calls == 0


def test_results_said_shorter_are_counted_apart(vocabulary):
    variant = CompactedVariant(
        prompt_reader("breakpoints", vocabulary), 0.0, mode=CompactionMode.TRIM
    )
    rows = [{"name": f"tea {n}", "state": "sent"} for n in range(40)]
    lines = agent(2)
    messages = orjson.loads(lines[-1].body)["messages"]
    messages[2]["tool_calls"][0]["function"]["name"] = "list_teas"
    messages[3]["content"] = orjson.dumps(rows).decode()
    body_sent = variant.body(call(*messages), 0.0)

    assert len(body_sent) < len(orjson.dumps(messages))
    assert (variant.totals.calls, variant.totals.trimmed) == (0, 1)


@pytest.mark.parametrize("why", ["signed", ""])
def test_a_call_that_compaction_refuses_goes_unmodified(vocabulary, why):
    def refuse_compaction(*_: Any, **__: Any) -> CompactedChat:
        raise CannotCompactError(why)

    variant = CompactedVariant(
        prompt_reader("breakpoints", vocabulary), 0.0, compact_chat=refuse_compaction
    )
    (line,) = agent(1)[:1]

    assert_nothing_lost(line.body, variant.body(line, 0.0))
    assert variant.totals.uncompacted == {why or "not_compactable": 1}


def test_a_mistake_costs_no_call_and_is_told_once(vocabulary, caplog):
    def clumsy(*_: Any, **__: Any) -> CompactedChat:
        raise TypeError("of compaction")

    variant = CompactedVariant(prompt_reader("breakpoints", vocabulary), 0.0, compact_chat=clumsy)
    with caplog.at_level(logging.ERROR):
        bodies = bodies_of(variant, agent(2))

    assert len(bodies) == 4
    assert variant.totals.uncompacted == {"failed": 4}
    assert len(caplog.records) == 1


def test_reasons_are_bounded(vocabulary):
    variant = CompactedVariant(prompt_reader("breakpoints", vocabulary), 0.0)
    for number in range(30):
        variant.totals.leave(f"reason {number}")

    assert len(variant.totals.uncompacted) == 21
    assert variant.totals.uncompacted["other reasons"] == 10


def test_the_policy_has_the_routes_prices(vocabulary):
    policy = CompactedVariant(prompt_reader("breakpoints", vocabulary), 0.0)._policy

    assert isinstance(policy, CompactionPolicy)
    assert (policy.prices.read, policy.prices.write, policy.prices.output) == (0.1, 1.25, 5.0)
