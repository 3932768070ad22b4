import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.client_compaction import client_compaction_kind


def said(content: object, role: str = "user") -> bytes:
    return json.dumps({"role": role, "content": content}).encode()


TALK = (said("You help.", "system"), said("Where is my order?"), said("On its way.", "assistant"))


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
    assert client_compaction_kind({"messages"}, (*TALK, said(words))) == "client"
    assert (
        client_compaction_kind({"messages"}, (*TALK, said([{"type": "text", "text": words}])))
        == "client"
    )


def test_a_reminder_may_follow_it():
    assert (
        client_compaction_kind((), (*TALK, said("/compact"), said("Be brief.", "system")))
        == "client"
    )


@pytest.mark.parametrize(
    "message",
    [
        said("Write a function that can summarize a conversation."),
        said("Summarize the conversation between Alice and Bob: Alice said hello."),
        said("Compress the conversation table in postgres."),
        said("Summarize the session storage API."),
        said("Compact the chat: it takes too much room on my page"),
        said("/compact mode for my css?"),
        said("/compactor"),
        said("/compact focus styles, how?"),
        said("/summarize.py fails"),
        said("/compact", "assistant"),
        said("/compact", "tool"),
        said(None),
        said([1, {"type": "image_url"}, {"type": "text"}]),
        b"[1]",
        b'{"role":"user","content":"\xff"}',
        b'{"role":"user","content":[{"type":1}]}',
    ],
)
def test_other_messages_are_not(message):
    assert client_compaction_kind({"messages", "tools"}, (*TALK, message)) == ""


def test_an_earlier_request_for_a_summary_does_not_count():
    assert client_compaction_kind((), (said("/compact"), *TALK)) == ""


@pytest.mark.parametrize("field", ["context_management", "compaction"])
def test_a_call_that_asks_its_provider_is_left_to_it(field):
    assert client_compaction_kind({"messages", field}, TALK) == "native"


def test_a_conversation_that_a_provider_compacted_is_native():
    assert (
        client_compaction_kind(
            (), (said([{"type": "compaction", "content": "…"}], "assistant"), *TALK)
        )
        == "native"
    )


def test_words_about_it_are_no_such_item():
    assert client_compaction_kind((), (*TALK, said('Send {"type": "compaction"}.'))) == ""


@given(st.binary(max_size=200))
def test_whatever_stands_there_is_read_without_harm(raw):
    assert client_compaction_kind((), (raw,)) in {"", "native", "client"}
