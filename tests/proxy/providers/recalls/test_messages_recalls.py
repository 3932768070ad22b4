from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.recalls.messages_recalls import MessagesRecallFilter, append_recalls
from proxy.providers.recalls.recall_filter import MAX_HELD_THINKING_BYTES, RecallRequest
from tests.examples import examples
from tests.fakes.model_wires import ModelTurn, message, message_events

Json = dict[str, Any]
NAME = "thriftgate_recall"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Where?"}]}
RECALL = (NAME, {"id": "3"})
FIND = ("find", {"name": "lantern"})


def events_of(number: int = 1, **fields: Any) -> list[bytes]:
    return list(message_events(BODY, ModelTurn(**fields), number))


def parse(out: bytes) -> list[Json]:
    blocks = [block.partition(b"data: ")[2] for block in out.split(b"\n\n") if block]
    return [orjson.loads(block) for block in blocks]


def feed(recall_filter: MessagesRecallFilter, pieces: Sequence[bytes]) -> list[Json]:
    """The events that a caller gets."""
    return parse(b"".join(map(recall_filter.feed, pieces)))


def blocks_of(events: Sequence[Json]) -> list[tuple[int, str]]:
    """The number and the kind of each block that begins."""
    starts = [event for event in events if event["type"] == "content_block_start"]
    return [(event["index"], event["content_block"]["type"]) for event in starts]


def text_of(events: Sequence[Json]) -> str:
    return "".join(event.get("delta", {}).get("text", "") for event in events)


def new_filter(*, streamed: bool = True) -> MessagesRecallFilter:
    return MessagesRecallFilter(NAME, streamed=streamed)


def recall_of(recall_filter: MessagesRecallFilter) -> RecallRequest:
    assert recall_filter.request is not None
    return recall_filter.request


def test_a_stream_without_a_recall_passes_byte_for_byte():
    pieces = events_of(thinking="Hm.", text="It is there.", calls=[FIND])
    recall_filter = new_filter()

    assert b"".join(map(recall_filter.feed, pieces)) == b"".join(pieces)
    assert recall_filter.request is None
    assert recall_filter.end() == b""


def test_a_recall_alone_is_held_back_and_goes_back_as_it_was_said():
    recall_filter = new_filter()
    events = feed(recall_filter, events_of(thinking="Hm.", text="Let me look.", calls=[RECALL]))
    request = recall_of(recall_filter)

    assert blocks_of(events) == [(0, "thinking"), (1, "text")]
    assert events[-1] == {"type": "content_block_stop", "index": 1}
    assert [(call.id, call.arguments) for call in request.calls] == [("toolu_1_0", '{"id":"3"}')]
    assert request.answer == (
        {
            "role": "assistant",
            "content": message(
                BODY, ModelTurn(thinking="Hm.", text="Let me look.", calls=[RECALL]), 1
            )["content"],
        },
    )


def test_a_recall_that_no_round_follows_ends_the_stream_as_one_that_stopped():
    recall_filter = new_filter()
    feed(recall_filter, events_of(text="Let me look.", calls=[RECALL]))
    end, stop = parse(recall_filter.end())

    assert end["delta"]["stop_reason"] == "end_turn"
    assert stop == {"type": "message_stop"}
    assert recall_filter.request is None


def test_the_next_round_goes_on_as_the_same_message_with_its_own_usage():
    recall_filter = new_filter()
    first = feed(recall_filter, events_of(text="Let me look.", calls=[RECALL]))
    second = feed(recall_filter.next_round(), events_of(2, thinking="Ah.", text="There."))
    end = second[-2]

    assert [e["type"] for e in [*first, *second]].count("message_start") == 1
    assert blocks_of([*first, *second]) == [(0, "text"), (1, "thinking"), (2, "text")]
    assert text_of([*first, *second]) == "Let me look.There."
    assert end["usage"]["input_tokens"] > 0
    assert end["usage"]["output_tokens"] > 0


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("streamed", [False, True])
def test_calls_of_the_callers_tools_are_renumbered_and_the_recall_is_left_out(place, streamed):
    calls = [FIND, FIND]
    calls.insert(place, RECALL)
    recall_filter = new_filter(streamed=streamed)
    turn = ModelTurn(thinking="Hm.", text="So.", calls=calls)
    if streamed:
        events = feed(recall_filter, list(message_events(BODY, turn, 1)))
        kinds = blocks_of(events)
        assert events[-2]["delta"]["stop_reason"] == "tool_use"
    else:
        answer = orjson.loads(recall_filter.feed(orjson.dumps(message(BODY, turn, 1))))
        kinds = list(enumerate(block["type"] for block in answer["content"]))
        assert answer["stop_reason"] == "tool_use"

    assert kinds == [(0, "thinking"), (1, "text"), (2, "tool_use"), (3, "tool_use")]
    assert recall_filter.request is None


@pytest.mark.parametrize("later_thinking", ["", "Ah."])
def test_the_caller_gets_the_newest_thinking_before_its_own_tools(later_thinking):
    recall_filter = new_filter()
    feed(recall_filter, events_of(thinking="Hm.", calls=[RECALL]))
    following = recall_filter.next_round()
    out = feed(following, events_of(2, thinking=later_thinking, calls=[FIND]))
    thoughts = [e["delta"].get("thinking", "") for e in out if "delta" in e]

    assert blocks_of(out) == [(0, "thinking"), (1, "tool_use")]
    assert "".join(thoughts) == (later_thinking or "Hm.")


def test_long_thinking_goes_out_at_once_and_that_of_the_next_round_does_not():
    words = "hm " * MAX_HELD_THINKING_BYTES
    recall_filter = new_filter()
    pieces = events_of(thinking=words, calls=[RECALL])
    first = feed(recall_filter, pieces)
    second = feed(recall_filter.next_round(), events_of(2, thinking="Ah.", text="There."))
    thought = "".join(e["delta"].get("thinking", "") for e in first if "delta" in e)

    assert thought == words
    assert feed(new_filter(), pieces[: len(pieces) // 2])
    assert blocks_of([*first, *second]) == [(0, "thinking"), (1, "text")]


def test_an_answer_that_ran_out_of_tokens_within_a_recall_ends_for_that_reason():
    pieces = [
        piece.replace(b'"tool_use","stop_s', b'"max_tokens","stop_s')
        for piece in events_of(thinking="Hm.", calls=[RECALL])
    ]
    recall_filter = new_filter()
    events = feed(recall_filter, pieces)

    assert recall_filter.request is None
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    assert blocks_of(events) == [(0, "thinking")]


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


def test_a_whole_answer_that_recalls_is_held_back():
    recall_filter = new_filter(streamed=False)
    answer = message(BODY, ModelTurn(text="Let me look.", calls=[RECALL]), 1)

    assert recall_filter.feed(orjson.dumps(answer)) == b""
    assert recall_of(recall_filter).answer[0]["content"] == answer["content"]
    held = orjson.loads(recall_filter.end())
    assert (held["stop_reason"], held["content"]) == ("end_turn", answer["content"][:1])


@pytest.mark.parametrize(
    "body", [b"no json", b"[1]", b'{"content":7}', b'{"content":["x"]}', b'{"type":"error"}']
)
def test_an_answer_of_another_form_passes_unmodified(body):
    assert new_filter(streamed=False).feed(body) == body
    framed = b"event: x\ndata: " + body + b"\n\n"
    assert new_filter().feed(framed) == framed


def test_the_next_rounds_body_goes_on_with_the_recall_and_its_answers():
    recall_filter = new_filter()
    feed(recall_filter, events_of(calls=[RECALL, RECALL]))
    request = recall_of(recall_filter)
    body = b'{"model":"m", "messages": [{"role":"user","content":"a"} ],"seed":1}'
    after = append_recalls(body, request, ["one", "two"])
    _, said, results = orjson.loads(after)["messages"]

    assert after.startswith(b'{"model":"m","messages":[{"role":"user","content":"a"},')
    assert said == request.answer[0]
    assert results["role"] == "user"
    assert [(r["tool_use_id"], r["content"]) for r in results["content"]] == [
        ("toolu_1_0", "one"),
        ("toolu_1_1", "two"),
    ]


def test_blank_text_is_not_sent_back():
    blank = {"type": "text", "text": " "}
    answer = message(BODY, ModelTurn(calls=[RECALL]), 1)
    recall_filter = new_filter(streamed=False)
    recall_filter.feed(orjson.dumps({**answer, "content": [blank, *answer["content"]]}))

    assert recall_of(recall_filter).answer[0]["content"] == answer["content"]
