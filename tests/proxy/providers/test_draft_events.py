import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.draft_events import draft_event, draft_text
from proxy.providers.sse import parse_events
from tests.fakes.answers import DONE, STREAMED, chunk, event, usage_chunk
from tests.fakes.call_dependencies import call


def named_event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\n".encode() + event({"type": kind, **fields})


def chat(**delta: object) -> bytes:
    return event({"id": "c", "choices": [{"index": 0, "delta": delta}]})


MESSAGES = named_event("content_block_start", index=0, content_block={"type": "text", "text": ""})
for delta in (
    {"type": "thinking_delta", "thinking": "Hm."},
    {"type": "text_delta", "text": "Hel"},
    {"type": "input_json_delta", "partial_json": '{"a"'},
    {"type": "text_delta", "text": "lo"},
):
    MESSAGES += named_event("content_block_delta", index=0, delta=delta)
RESPONSES = (
    named_event("response.reasoning_summary_text.delta", output_index=0, delta="Hm.")
    + named_event("response.output_text.delta", output_index=1, content_index=0, delta="Hel")
    + named_event("response.function_call_arguments.delta", output_index=2, delta='{"a"')
    + named_event("response.output_text.delta", output_index=1, content_index=0, delta="lo")
    + named_event("response.output_text.done", output_index=1, content_index=0, text="Hello")
)
CHAT = (
    chat(role="assistant")
    + chat(reasoning_content="Hm.")
    + chat(content="Hel")
    + chat(refusal="No.")
    + chat(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": '{"a"'}}])
    + chunk("lo", reason="stop")
    + usage_chunk()
    + DONE
)


@pytest.mark.parametrize(
    ("endpoint", "run"),
    [("chat/completions", CHAT), ("messages", MESSAGES), ("responses", RESPONSES)],
)
def test_the_text_of_a_run_is_what_its_reader_sees_alone(endpoint, run):
    assert draft_text(endpoint, run) == "Hello"


def test_a_chat_draft_is_a_chunk_without_choices_that_is_no_chunk_by_name():
    (read,) = parse_events(draft_event(call(STREAMED), "small", "Hi"))

    assert read.name == "thriftgate.draft"
    assert json.loads(read.data) == {
        "id": "call_1",
        "object": "thriftgate.draft",
        "created": 1_790_000_000,
        "choices": [],
        "model": "small",
        "draft": "Hi",
    }


def test_a_messages_draft_is_an_event_of_its_own_type():
    (read,) = parse_events(draft_event(call(STREAMED, "messages"), "small", "Hi", is_last=True))

    assert read.name == "thriftgate.draft"
    assert json.loads(read.data) == {
        "type": "thriftgate.draft",
        "model": "small",
        "draft": "Hi",
        "done": True,
    }


@given(st.text(), st.sampled_from(["chat/completions", "messages", "responses"]))
def test_whatever_a_draft_says_stays_within_its_one_event(text, endpoint):
    written = draft_event(call(STREAMED, endpoint), "small", text.encode(errors="replace").decode())

    assert written.endswith(b"\n\n")
    assert written.count(b"\n\n") == 1
    assert len(list(parse_events(written))) == (endpoint != "responses")  # there, a comment
