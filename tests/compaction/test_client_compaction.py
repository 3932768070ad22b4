import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.client_compaction import client_compaction_kind


def raw_message(content: object, role: str = "user") -> bytes:
    return json.dumps({"role": role, "content": content}).encode()


TALK = (
    raw_message("You help.", "system"),
    raw_message("Where is my order?"),
    raw_message("On its way.", "assistant"),
)


@pytest.mark.parametrize(
    "words",
    [
        "Your task is to create a detailed summary of the conversation so far, paying attention",
        "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another",
        "First, reason in your scratchpad. Then, generate the <state_snapshot>.",
        "Provide a detailed prompt for continuing our conversation above.",
        "You are maintaining a context-aware state summary for an interactive agent.",
        "*Briefly* summarize this partial conversation about programming.",
        "<role>\nContext Extraction Assistant\n</role>",
        "/compact",
        "Please summarise the whole conversation.",
        "Summarize the conversation so far, please",
        "Condense this chat. Keep the names.",
        "/compact focus on the API changes",
        "/compact\nKeep the paths of the files.",
        "/summarize",
        "x" * 90_000 + " Distill the above\nchat messages",
    ],
)
def test_a_request_to_compact_is_the_clients_own(words):
    assert client_compaction_kind({"messages"}, (*TALK, raw_message(words))) == "client"
    assert (
        client_compaction_kind(
            {"messages"}, (*TALK, raw_message([{"type": "text", "text": words}]))
        )
        == "client"
    )


def test_a_reminder_may_follow_the_request_to_compact():
    assert (
        client_compaction_kind(
            (), (*TALK, raw_message("/compact"), raw_message("Be brief.", "system"))
        )
        == "client"
    )


@pytest.mark.parametrize(
    "message",
    [
        raw_message("Write a function that can summarize a conversation."),
        raw_message("Summarize the conversation between Alice and Bob: Alice said hello."),
        raw_message("Compress the conversation table in postgres."),
        raw_message("Summarize the session storage API."),
        raw_message("Compact the chat: it takes too much room on my page"),
        raw_message("/compact mode for my css?"),
        raw_message("/compactor"),
        raw_message("/compact focus styles, how?"),
        raw_message("/summarize.py fails"),
        raw_message("/compact", "assistant"),
        raw_message("/compact", "tool"),
        raw_message(None),
        raw_message([1, {"type": "image_url"}, {"type": "text"}]),
        b"[1]",
        b'{"role":"user","content":"\xff"}',
        b'{"role":"user","content":[{"type":1}]}',
    ],
)
def test_other_messages_are_not(message):
    assert client_compaction_kind({"messages", "tools"}, (*TALK, message)) == ""


def test_an_earlier_request_for_a_summary_does_not_count():
    assert client_compaction_kind((), (raw_message("/compact"), *TALK)) == ""


@pytest.mark.parametrize("field", ["context_management", "compaction"])
def test_a_call_that_asks_its_provider_is_left_to_it(field):
    assert client_compaction_kind({"messages", field}, TALK) == "native"


def test_a_conversation_that_a_provider_compacted_is_native():
    assert (
        client_compaction_kind(
            (), (raw_message([{"type": "compaction", "content": "…"}], "assistant"), *TALK)
        )
        == "native"
    )


def test_text_about_compaction_is_no_compaction_item():
    assert client_compaction_kind((), (*TALK, raw_message('Send {"type": "compaction"}.'))) == ""


@given(st.binary(max_size=200))
def test_any_message_has_a_compaction_kind(raw):
    assert client_compaction_kind((), (raw,)) in {"", "native", "client"}


def test_a_request_to_compact_stands_within_4000_characters_of_an_end():
    request, other_text = "distill the above chat messages", "x" * 9_000
    near, far = "x" * (4_000 - len(request)), "x" * (4_001 - len(request))

    def kind(text: str) -> str:
        return client_compaction_kind((), (*TALK, raw_message(text)))

    assert kind(near + request + other_text) == kind(other_text + request + near) == "client"
    assert kind(far + request + other_text) == kind(other_text + request + far) == ""


def test_a_request_to_compact_before_two_reminders_does_not_count():
    reminder = raw_message("Be brief.", "system")

    assert client_compaction_kind((), (*TALK, raw_message("/compact"), reminder, reminder)) == ""
