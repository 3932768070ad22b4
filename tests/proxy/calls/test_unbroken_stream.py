"""Streams whose upstream dies midway, and the routes that go on from there."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from proxy.calls.deadlines import ClientDisconnected
from proxy.calls.metering.metering import Meter
from proxy.calls.ports import ReplicaOrder
from proxy.calls.route_choice import RoutingDecision
from proxy.records.call import Call
from proxy.records.receipt import Outcome
from slo.policies.stream_continuation import StreamContinuation
from slo.usage import Usage
from tests.fakes.answers import DONE, STREAMED, chunk, failed_answer, stream, usage_chunk
from tests.fakes.call_dependencies import ESTIMATE
from tests.fakes.caller import FakeCaller
from tests.fakes.upstream import SILENCE, broken_connection
from tests.proxy.calls.unbroken_calls import TWO, serve_stream

pytestmark = pytest.mark.instant_time

BROKEN = stream(chunk("Hello "), chunk("wor"), broken_connection())
REST = stream(chunk("ld!"), chunk("", reason="stop"), usage_chunk() + DONE)
ERROR = b'data: {"error":{"message":"The model crashed.","type":"server_error"}}\n\n'


def said(body: bytes) -> str:
    """The text of all chunks."""
    documents = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: {")]
    choices = (choice for text in documents for choice in json.loads(text).get("choices", ()))
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def test_the_next_route_goes_on_from_the_text_that_the_caller_has():
    served = serve_stream(BROKEN, REST)

    assert said(served.caller.body) == "Hello world!"
    assert b"error" not in served.caller.body
    assert served.caller.body.endswith(DONE)
    assert served.upstreams == ["one", "two"]
    sent = json.loads(served.transport.sent[1][1].body)
    assert sent["messages"][-1] == {"role": "assistant", "content": "Hello wor"}


def test_each_part_is_booked_and_the_last_is_final():
    served = serve_stream(BROKEN, REST)
    first, last = served.receipts

    assert served.outcomes == [(Outcome.BROKEN, False), (Outcome.ANSWERED, True)]
    assert (first.usage, first.estimated) == (ESTIMATE, True)
    assert (last.usage, last.estimated) == (Usage(input=36, cache_read=64, output=10), False)
    assert [receipt.attempt for receipt in served.receipts] == [0, 1]
    assert last.notes == ("continues one/m after 9 characters: upstream_connection_broken",)
    assert served.caller.attempts == [first]
    assert served.estimator.delivered == ["Hello wor"]
    assert served.estimator.learnt == []  # half an answer has no usual length


def test_a_stream_is_continued_as_often_as_the_policy_allows():
    again = stream(chunk("ld, and "), broken_connection())
    served = serve_stream(BROKEN, again, stream(chunk("all."), chunk("", reason="stop"), DONE))

    assert said(served.caller.body) == "Hello world, and all."
    assert served.upstreams == ["one", "two", "three"]
    body = json.loads(served.transport.sent[2][1].body)
    assert body["messages"][-1]["content"] == "Hello world, and"
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


def test_a_stream_that_breaks_once_too_often_ends_with_its_error():
    once = StreamContinuation(name="once", max_continuations=1)
    served = serve_stream(BROKEN, stream(chunk("ld"), broken_connection()), rules=(once,))

    assert said(served.caller.body) == "Hello world"
    assert b"upstream_connection_broken" in served.caller.last_piece
    assert served.outcomes == [(Outcome.BROKEN, False), (Outcome.BROKEN, True)]


@pytest.mark.parametrize(
    "rules",
    [
        (),
        (StreamContinuation(name="never", max_continuations=0),),
        (StreamContinuation(name="other", team="beta"),),
    ],
)
def test_without_a_rule_a_broken_stream_ends_with_its_error(rules):
    served = serve_stream(BROKEN, rules=rules)

    assert served.upstreams == ["one"]
    assert b"upstream_connection_broken" in served.caller.last_piece
    assert served.outcomes == [(Outcome.BROKEN, True)]


@pytest.mark.parametrize(
    "script",
    [
        stream(chunk("Hello "), chunk("wor")),
        stream(chunk("Hello "), chunk("wor"), ERROR),
        stream(chunk("Hello "), chunk("wor"), chunk("ld! and more") + ERROR),
        stream(chunk("Hello "), chunk("wor"), chunk("ld!")[:-20]),
        stream(chunk("Hello "), chunk("wor"), SILENCE),
    ],
    ids=["cut", "error event", "content beside an error", "torn event", "silence"],
)
def test_each_way_to_die_is_continued_and_nothing_of_it_reaches_the_caller(script):
    served = serve_stream(script, REST)

    assert said(served.caller.body) == "Hello world!"
    assert b"crashed" not in served.caller.body
    assert served.outcomes == [(Outcome.BROKEN, False), (Outcome.ANSWERED, True)]


def test_where_no_route_goes_on_the_stream_ends_with_the_first_error():
    served = serve_stream(BROKEN, failed_answer(400), failed_answer(503))

    assert served.upstreams == ["one", "two", "three"]
    assert b"upstream_connection_broken" in served.caller.last_piece
    assert served.outcomes == [
        (Outcome.BROKEN, False),
        (Outcome.FAILED, False),
        (Outcome.FAILED, True),
    ]
    assert said(served.caller.body) == "Hello wor"
    assert [receipt.spent_nanos for receipt in served.receipts[1:]] == [0, 0]


@pytest.mark.parametrize(
    "script",
    [
        stream(chunk("Hello"), chunk("", reason="stop"), broken_connection()),
        stream(chunk(" "), broken_connection()),
    ],
    ids=["its text is whole", "it has no words"],
)
def test_an_answer_that_is_not_open_text_ends_with_its_error(script):
    served = serve_stream(script)

    assert served.upstreams == ["one"]
    assert b"upstream_connection_broken" in served.caller.last_piece
    assert served.outcomes == [(Outcome.BROKEN, True)]


def test_an_upstreams_own_error_is_passed_on_where_the_answer_is_not_continued():
    body = STREAMED[:-1] + b',"response_format":{"type":"json_object"}}'
    served = serve_stream(stream(chunk('{"a":'), ERROR), body=body)

    assert b"The model crashed." in served.caller.body
    assert served.caller.is_ended
    assert served.outcomes == [(Outcome.BROKEN, True)]


def test_a_torn_event_is_passed_on_where_the_answer_is_not_continued():
    body = STREAMED[:-1] + b',"n":2}'
    served = serve_stream(stream(chunk("a"), chunk("b")[:-9]), body=body)

    assert chunk("b")[:-9] in served.caller.body
    assert b"upstream_cut_off" in served.caller.last_piece


def test_a_part_that_thinks_anew_ends_the_stream_with_an_error():
    thought = b'data: {"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"Hm"}}]}\n\n'
    once = StreamContinuation(name="once", max_continuations=1)
    served = serve_stream(BROKEN, stream(thought, chunk("x")), rules=(once,))

    assert b"continuation_unreadable" in served.caller.last_piece
    assert said(served.caller.body) == "Hello wor"
    assert served.outcomes == [(Outcome.BROKEN, False), (Outcome.BROKEN, True)]


def test_a_caller_who_leaves_while_another_route_begins_is_booked_once_as_final():
    served = serve_stream(BROKEN, SILENCE, caller=FakeCaller(leaves_after=9.0))

    assert isinstance(served.error, ClientDisconnected)
    assert served.outcomes == [(Outcome.BROKEN, False), (Outcome.HUNG_UP, True)]
    assert not served.caller.is_ended


class SlowReplicas:
    """Replicas whose order is never known."""

    async def order(self, *_: Any) -> ReplicaOrder:
        await asyncio.Event().wait()
        raise AssertionError


def test_a_caller_who_leaves_while_replicas_are_ordered_is_booked_once_as_final():
    engine = replace(TWO, upstream=replace(TWO.upstream, engine="house"))
    caller, ports = FakeCaller(leaves_after=9.0), {"replicas": SlowReplicas()}
    served = serve_stream(BROKEN, caller=caller, ports=ports, two=engine)

    assert isinstance(served.error, ClientDisconnected)
    assert served.outcomes == [(Outcome.BROKEN, False), (Outcome.HUNG_UP, True)]
    assert [receipt.attempt for receipt in served.receipts] == [0, 1]


class NotedAnswers:
    """Takes note of answers as what sends calls to small models does."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def decide(self, _call: Call, decision: RoutingDecision) -> RoutingDecision:
        return decision

    def note_answer(self, _call: Call, meter: Meter) -> None:
        self.texts.append(meter.delivered_text())


def test_a_stream_of_one_part_is_noted_for_comparison_and_one_of_several_is_not():
    whole = stream(chunk("Hello"), chunk("", reason="stop"), DONE)
    one, several = NotedAnswers(), NotedAnswers()

    serve_stream(whole, ports={"small_first": one})
    serve_stream(BROKEN, REST, ports={"small_first": several})

    assert (one.texts, several.texts) == (["Hello"], [])


def test_an_answer_that_never_breaks_is_delivered_byte_for_byte():
    answer = chunk("Hel") + chunk("lo") + chunk("", reason="stop") + DONE
    with_rule, without = (
        serve_stream(stream(answer), rules=rules)
        for rules in ((StreamContinuation(name="all"),), ())
    )

    assert with_rule.caller.body == without.caller.body == answer
    assert with_rule.outcomes == without.outcomes == [(Outcome.ANSWERED, True)]
