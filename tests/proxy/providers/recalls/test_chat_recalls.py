from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.recalls.chat_recalls import ChatRecallFilter, append_recalls
from proxy.providers.recalls.recall_filter import RecallRequest
from tests.examples import examples

Json = dict[str, Any]
NAME = "thriftgate_recall"
USAGE = {"prompt_tokens": 9, "completion_tokens": 3}


def event(delta: Json, finish: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "created": 1, "choices": [choice]} | fields
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def call_events(index: int, name: str, arguments: str, **extra: Any) -> list[bytes]:
    function = {"name": name, "arguments": ""}
    begun = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
    part = {"index": index, "function": {"arguments": arguments}}
    return [event({"tool_calls": [begun | extra]}), event({"tool_calls": [part]})]


OPENING = event({"role": "assistant", "content": ""})
WORDS = [event({"content": "Let me "}), event({"content": "look."})]
RECALL = call_events(0, NAME, '{"id":"3"}')
END = [
    event({}, "tool_calls"),
    event({}, choices=[], usage=USAGE),
    b"data: [DONE]\n\n",
]
PLAIN = [OPENING, *WORDS, event({}, "stop"), *END[1:]]


def read(events: Sequence[bytes], **fields: Any) -> tuple[list[Json], ChatRecallFilter]:
    """The chunks that a caller gets of a stream, and the filter."""
    recall_filter = ChatRecallFilter(NAME, streamed=True, **fields)
    out = b"".join(map(recall_filter.feed, events))
    return chunks_of(out), recall_filter


def chunks_of(out: bytes) -> list[Json]:
    blocks = [block.removeprefix(b"data: ") for block in out.split(b"\n\n") if block]
    return [orjson.loads(block) for block in blocks if block != b"[DONE]"]


def deltas(chunks: Sequence[Json]) -> list[Json]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


def test_a_stream_without_a_recall_passes_byte_for_byte_but_for_its_end():
    recall_filter = ChatRecallFilter(NAME, streamed=True)

    assert [recall_filter.feed(piece) for piece in PLAIN[:3]] == PLAIN[:3]
    assert chunks_of(b"".join(map(recall_filter.feed, PLAIN[3:]))) == chunks_of(b"".join(PLAIN[3:]))
    assert recall_filter.request is None
    assert recall_filter.end() == b""


def test_a_recall_alone_is_held_back_with_the_end_of_its_stream():
    chunks, recall_filter = read([OPENING, *WORDS, *RECALL, *END])

    assert [delta.get("content") for delta in deltas(chunks)] == ["", "Let me ", "look."]
    assert recall_filter.request is not None
    (call,) = recall_filter.request.calls
    assert (call.id, call.arguments) == ("call_0", '{"id":"3"}')
    assert recall_filter.request.answer[0] == {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {
                "id": "call_0",
                "type": "function",
                "function": {"name": NAME, "arguments": '{"id":"3"}'},
            }
        ],
    }


def test_a_recall_that_no_round_follows_ends_the_stream_as_one_that_stopped():
    _, recall_filter = read([OPENING, *WORDS, *RECALL, *END])
    held = recall_filter.end()

    assert [choice["finish_reason"] for c in chunks_of(held) for choice in c["choices"]] == ["stop"]
    assert chunks_of(held)[-1]["usage"] == USAGE
    assert held.endswith(b"data: [DONE]\n\n")
    assert recall_filter.request is None


@pytest.mark.parametrize("recall_first", [True, False])
def test_calls_of_the_callers_tools_are_renumbered_and_the_recall_is_left_out(recall_first):
    numbers = (0, 1) if recall_first else (1, 0)
    ours = call_events(numbers[0], NAME, "{}")
    theirs = call_events(numbers[1], "find", '{"a":1}')
    events = [*ours, *theirs] if recall_first else [*theirs, *ours]
    chunks, recall_filter = read([OPENING, *events, *END])
    parts = [part for delta in deltas(chunks) for part in delta.get("tool_calls", ())]

    assert {part["index"] for part in parts} == {0}
    assert [part["function"].get("name") for part in parts] == ["find", None]
    assert [choice["finish_reason"] for c in chunks for choice in c["choices"]][-1] == "tool_calls"
    assert recall_filter.request is None


@examples(60)
@given(
    st.lists(st.integers(1, 4), max_size=12),
    st.sampled_from([PLAIN, [OPENING, *WORDS, *RECALL, *END]]),
)
def test_any_runs_of_events_give_the_same_answer_and_recall(sizes, events):
    runs, start = [], 0
    for size in sizes:
        runs.append(b"".join(events[start : start + size]))
        start += size
    runs.append(b"".join(events[start:]))
    whole, in_runs = read(events), read([run for run in runs if run])

    assert in_runs[0] == whole[0]
    assert in_runs[1].request == whole[1].request
    assert in_runs[1].end() == whole[1].end()


def test_the_next_round_goes_on_as_the_same_answer():
    first, recall_filter = read([OPENING, *WORDS, *RECALL, *END])
    renamed = [piece.replace(b"chatcmpl-1", b"chatcmpl-2") for piece in PLAIN]
    second = chunks_of(b"".join(map(recall_filter.next_round().feed, renamed)))

    assert {chunk["id"] for chunk in [*first, *second]} == {"chatcmpl-1"}
    assert [delta["role"] for delta in deltas([*first, *second]) if "role" in delta] == [
        "assistant"
    ]
    said = "".join(delta.get("content") or "" for delta in deltas([*first, *second]))
    assert said == "Let me look.\n\nLet me look."


def test_signatures_and_reasoning_of_a_recall_go_into_the_next_round():
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    thought = event({"reasoning_content": "Hm."})
    _, recall_filter = read([thought, *call_events(0, NAME, "{}", **extra), *END])

    assert recall_filter.request is not None
    message = recall_filter.request.answer[0]
    assert message["tool_calls"][0]["extra_content"] == extra["extra_content"]
    assert message["reasoning_content"] == "Hm."


def test_a_recall_with_a_number_for_its_id_is_answered_by_that_id():
    numbered = [event.replace(b'"call_0"', b"7") for event in RECALL]
    chunks, recall_filter = read([OPENING, *numbered, *END])

    assert deltas(chunks) == [{"role": "assistant", "content": ""}]
    assert recall_filter.request is not None
    assert [call.id for call in recall_filter.request.calls] == ["7"]
    assert recall_filter.request.answer[0]["tool_calls"][0]["id"] == "7"


def test_signed_thinking_of_a_recall_goes_back_and_is_not_delivered():
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    signed = event({"thinking_blocks": [{**thinking, "index": 0}]})
    chunks, recall_filter = read([OPENING, signed, *RECALL, *END])

    assert recall_filter.request is not None
    assert recall_filter.request.answer[0]["thinking_blocks"] == [thinking]
    assert not any("thinking_blocks" in delta for delta in deltas(chunks))


def test_signed_thinking_of_later_rounds_is_numbered_behind_what_was_delivered():
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    signed = event({"thinking_blocks": [thinking]})
    first, recall_filter = read([OPENING, signed, *WORDS, *RECALL, *END])
    following = recall_filter.next_round()
    second = chunks_of(b"".join(map(following.feed, [signed, *PLAIN])))
    blocks = [b for d in deltas([*first, *second]) for b in d.get("thinking_blocks", ())]

    assert blocks == [thinking, {**thinking, "index": 1}]


def whole_answer(*names: str) -> bytes:
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate(names)
    ]
    message = {"role": "assistant", "content": "Let me look.", "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return orjson.dumps({"id": "chatcmpl-1", "choices": [choice], "usage": USAGE})


def test_a_whole_answer_that_recalls_is_held_back():
    recall_filter = ChatRecallFilter(NAME, streamed=False)

    assert recall_filter.feed(whole_answer(NAME)) == b""
    assert recall_filter.request is not None
    (choice,) = orjson.loads(recall_filter.end())["choices"]
    assert choice["finish_reason"] == "stop"
    assert "tool_calls" not in choice["message"]


def test_a_whole_answer_keeps_the_callers_calls_alone():
    recall_filter = ChatRecallFilter(NAME, streamed=False)
    (choice,) = orjson.loads(recall_filter.feed(whole_answer(NAME, "find")))["choices"]
    plain = whole_answer("find")

    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["find"]
    assert "index" not in choice["message"]["tool_calls"][0]
    assert recall_filter.request is None
    assert ChatRecallFilter(NAME, streamed=False).feed(plain) == plain


@pytest.mark.parametrize(
    "call",
    [
        None,
        {"id": 5.5, "function": {"name": "find", "arguments": "{}"}},
        {"function": {"name": ["find"]}},
    ],
)
def test_a_call_in_an_unknown_form_is_delivered_and_ends_the_answer(call):
    calls = [call, {"index": 1, "id": "call_1", "function": {"name": NAME, "arguments": "{}"}}]
    chunks, recall_filter = read([OPENING, event({"tool_calls": calls}), *END])
    message = {"role": "assistant", "tool_calls": calls}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    whole = ChatRecallFilter(NAME, streamed=False).feed(orjson.dumps(body))

    assert deltas(chunks)[1] == {"tool_calls": [call]}
    assert recall_filter.request is None
    assert orjson.loads(whole)["choices"][0]["message"]["tool_calls"] == [call]


@pytest.mark.parametrize(
    "body", [b"no json", b"[1]", b'{"choices":[]}', b'{"choices":[{"message":7}]}']
)
def test_an_answer_of_another_form_passes_unmodified(body):
    named = body + f" {NAME}".encode()
    for answer in (body, named):
        assert ChatRecallFilter(NAME, streamed=False).feed(answer) == answer
        framed = b"data: " + answer + b"\n\n"
        assert b"data:" in ChatRecallFilter(NAME, streamed=True).feed(framed)


def test_the_next_rounds_body_goes_on_with_the_recall_and_its_answers():
    _, recall_filter = read([*RECALL, *END])
    assert isinstance(recall_filter.request, RecallRequest)
    body = b'{"model":"m", "messages": [{"role":"user","content":"a"} ],"seed":1}'
    after = append_recalls(body, recall_filter.request, ["what was said"])

    assert after.startswith(b'{"model":"m","messages":[{"role":"user","content":"a"},')
    *_, asked, told = orjson.loads(after)["messages"]
    assert asked == recall_filter.request.answer[0]
    assert told == {"role": "tool", "tool_call_id": "call_0", "content": "what was said"}
    assert orjson.loads(after)["seed"] == 1
