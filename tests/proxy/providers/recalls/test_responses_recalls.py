from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.recalls.recall_filter import MAX_HELD_THINKING_BYTES, RecallRequest
from proxy.providers.recalls.responses_recalls import ResponsesRecallFilter, append_recalls
from tests.examples import examples
from tests.fakes.model_wires import ModelTurn, response, response_events

Json = dict[str, Any]
NAME = "thriftgate_recall"
BODY: Json = {
    "model": "m",
    "input": "Where?",
    "tools": [{"type": "function", "name": "find"}, {"type": "function", "name": NAME}],
}
RECALL = (NAME, {"id": "3"})
FIND = ("find", {"name": "lantern"})


def events_of(number: int = 1, **fields: Any) -> list[bytes]:
    return list(response_events(BODY, ModelTurn(**fields), number))


def parse(out: bytes) -> list[Json]:
    blocks = [block.partition(b"data: ")[2] for block in out.split(b"\n\n") if block]
    return [orjson.loads(block) for block in blocks]


def feed(recall_filter: ResponsesRecallFilter, pieces: Sequence[bytes]) -> list[Json]:
    """The events that a caller gets."""
    return parse(b"".join(map(recall_filter.feed, pieces)))


def items_of(events: Sequence[Json]) -> list[tuple[int, str]]:
    """The number and the kind of each item that begins."""
    starts = [event for event in events if event["type"] == "response.output_item.added"]
    return [(event["output_index"], event["item"]["type"]) for event in starts]


def new_filter(*, streamed: bool = True) -> ResponsesRecallFilter:
    return ResponsesRecallFilter(NAME, streamed=streamed)


def recall_of(recall_filter: ResponsesRecallFilter) -> RecallRequest:
    assert recall_filter.request is not None
    return recall_filter.request


def kinds(items: Sequence[Json]) -> list[str]:
    return [item["type"] for item in items]


def test_a_stream_without_a_recall_says_all_that_came_but_for_the_tool():
    pieces = events_of(thinking="Hm.", text="It is there.", calls=[FIND])
    recall_filter = new_filter()
    came = parse(b"".join(pieces))
    for event in came:
        if "response" in event:
            event["response"]["tools"] = BODY["tools"][:1]

    assert feed(recall_filter, pieces) == came
    assert recall_filter.request is None
    assert recall_filter.end() == b""


def test_a_recall_alone_is_held_back_and_goes_back_with_its_reasoning():
    recall_filter = new_filter()
    events = feed(recall_filter, events_of(thinking="Hm.", calls=[RECALL]))
    request = recall_of(recall_filter)

    assert kinds(events) == ["response.created", "response.in_progress"]
    assert kinds(request.answer) == ["reasoning", "function_call"]
    assert request.answer[0]["encrypted_content"] == "sealed: Hm."
    assert [(call.id, call.arguments) for call in request.calls] == [("call_1_0", '{"id":"3"}')]


@pytest.mark.parametrize("sealed", [None, ""])
def test_reasoning_that_is_known_nowhere_is_not_named(sealed):
    answer = response(BODY, ModelTurn(thinking="Hm.", calls=[RECALL]), 1)
    answer["output"][0]["encrypted_content"] = sealed
    recall_filter = new_filter(streamed=False)
    recall_filter.feed(orjson.dumps(answer))
    (call,) = recall_of(recall_filter).answer

    assert call["type"] == "function_call"
    assert "id" not in call


def test_the_next_round_goes_on_as_the_same_response():
    recall_filter = new_filter()
    first = feed(recall_filter, events_of(text="Let me look.", calls=[RECALL]))
    second = feed(recall_filter.next_round(), events_of(2, thinking="Ah.", text="There."))
    events = [*first, *second]
    last = second[-1]["response"]

    assert items_of(events) == [(0, "message"), (1, "reasoning"), (2, "message")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert kinds(events).count("response.created") == 1
    assert (last["id"], last["status"]) == ("resp_1", "completed")
    assert kinds(last["output"]) == ["message", "reasoning", "message"]
    assert last["usage"] == response(BODY, ModelTurn(text="There."), 2)["usage"]
    assert NAME not in str(events)


def test_a_recall_that_no_round_follows_ends_the_stream_as_one_that_is_complete():
    recall_filter = new_filter()
    events = feed(recall_filter, events_of(text="Let me look.", calls=[RECALL]))
    (end,) = parse(recall_filter.end())

    assert end["type"] == "response.completed"
    assert end["sequence_number"] == len(events)
    assert kinds(end["response"]["output"]) == ["message"]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("streamed", [False, True])
def test_calls_of_the_callers_tools_are_renumbered_and_the_recall_is_left_out(place, streamed):
    calls = [FIND, FIND]
    calls.insert(place, RECALL)
    recall_filter = new_filter(streamed=streamed)
    turn = ModelTurn(thinking="Hm.", calls=calls)
    if streamed:
        events = feed(recall_filter, list(response_events(BODY, turn, 1)))
        assert [n for n, _ in items_of(events)] == [0, 1, 2]
        answer = events[-1]["response"]
    else:
        answer = orjson.loads(recall_filter.feed(orjson.dumps(response(BODY, turn, 1))))

    assert kinds(answer["output"]) == ["reasoning", "function_call", "function_call"]
    assert {item.get("name") for item in answer["output"]} == {None, "find"}
    assert recall_filter.request is None


def test_long_reasoning_goes_out_at_once():
    words = "hm " * MAX_HELD_THINKING_BYTES
    events = feed(new_filter(), events_of(thinking=words, calls=[RECALL]))

    assert items_of(events) == [(0, "reasoning")]


def test_an_incomplete_answer_ends_for_its_own_reason():
    pieces = events_of(calls=[RECALL])
    pieces[-1] = pieces[-1].replace(b"response.completed", b"response.incomplete")
    recall_filter = new_filter()
    events = feed(recall_filter, pieces)

    assert recall_filter.request is None
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["output"] == []


@examples(60)
@given(
    st.lists(st.integers(1, 4), max_size=12),
    st.sampled_from([(), (RECALL,), (RECALL, FIND), (FIND,)]),
    st.sampled_from(["", "Hm."]),
    st.sampled_from(["", "Let me look."]),
)
def test_any_runs_of_events_give_the_same_answer_and_recall(sizes, calls, thinking, text):
    events = events_of(thinking=thinking, text=text, calls=calls)
    runs, start = [], 0
    for size in sizes:
        runs.append(b"".join(events[start : start + size]))
        start += size
    runs.append(b"".join(events[start:]))
    whole, in_runs = new_filter(), new_filter()

    assert feed(in_runs, [run for run in runs if run]) == feed(whole, events)
    assert in_runs.request == whole.request
    assert in_runs.end() == whole.end()


@pytest.mark.parametrize("body", [b"no json", b"[1]", b'{"output":7}', b'{"error":{}}'])
def test_an_answer_of_another_form_passes_unmodified(body):
    named = body + f" {NAME}".encode()
    for answer in (body, named):
        assert new_filter(streamed=False).feed(answer) == answer


@pytest.mark.parametrize("given", ['"Where?"', '[{"role":"user","content":"Where?"}]'])
def test_the_next_rounds_body_goes_on_with_the_recall_and_its_answers(given):
    recall_filter = new_filter()
    feed(recall_filter, events_of(calls=[RECALL]))
    request = recall_of(recall_filter)
    body = b'{"model":"m","input":%b,"store":false}' % given.encode()
    after = orjson.loads(append_recalls(body, request, ["what was said"]))
    question, call, result = after["input"]

    assert question == {"role": "user", "content": "Where?"}
    assert call == request.answer[0]
    assert result == {
        "type": "function_call_output",
        "call_id": "call_1_0",
        "output": "what was said",
    }
    assert after["store"] is False
