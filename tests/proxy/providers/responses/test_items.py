from collections.abc import Iterable

import msgspec
import pytest
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import TypeAdapter

from proxy.providers.chat.chat_chunk import Citation, Token
from proxy.providers.responses.items import (
    Event,
    OutputCall,
    OutputCompaction,
    OutputItem,
    OutputMessage,
    OutputReasoning,
)
from proxy.providers.responses.namespaces import OwnName
from proxy.providers.responses.reasoning import OpaqueParts, unseal_parts

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
ITEM: TypeAdapter[ResponseOutputItem] = TypeAdapter(ResponseOutputItem)
TOKEN = Token(token="H", logprob=-0.5)


def kinds(events: Iterable[Event]) -> list[str]:
    """The short names of the events, each of which the SDK can read."""
    events_read = list(events)
    for number, event in enumerate(events_read):
        EVENT.validate_python(event | {"sequence_number": number})
    return [str(event["type"]).removeprefix("response.") for event in events_read]


def read(item: OutputItem) -> Event:
    item_read = item.item("completed")
    ITEM.validate_python(item_read)
    return item_read


def test_a_message_says_its_text_and_then_its_refusal() -> None:
    message = OutputMessage("1_0", 0)

    assert kinds(message.say("output_text", "H", [TOKEN])) == [
        "content_part.added",
        "output_text.delta",
    ]
    assert kinds(message.say("output_text", "i", [])) == ["output_text.delta"]
    assert kinds(message.say("refusal", "no", [])) == [
        "output_text.done",
        "content_part.done",
        "content_part.added",
        "refusal.delta",
    ]
    assert kinds(message.close()) == ["refusal.done", "content_part.done"]
    assert read(message)["content"] == [
        {
            "type": "output_text",
            "text": "Hi",
            "annotations": [],
            "logprobs": [TOKEN.for_responses()],
        },
        {"type": "refusal", "refusal": "no"},
    ]


def test_a_citation_stands_on_text_or_not_at_all() -> None:
    message = OutputMessage("1_0", 0)
    citation = Citation(url="http://a", title="A", start_index=1, end_index=2)

    assert kinds(message.cite(citation)) == []
    list(message.say("output_text", "Hi", []))
    assert kinds(message.cite(citation)) == ["output_text.annotation.added"]
    assert read(message)["content"][0]["annotations"] == [
        {"type": "url_citation", "url": "http://a", "title": "A", "start_index": 1, "end_index": 2}
    ]
    list(message.say("refusal", "no", []))
    assert kinds(message.cite(citation)) == []


def test_reasoning_is_summed_up_and_sealed() -> None:
    reasoning = OutputReasoning("1_0", 0)
    block = msgspec.Raw(b'{"signature":"s"}')

    assert read(reasoning)["encrypted_content"] is None
    assert kinds(reasoning.think("h", [])) == [
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
    ]
    assert kinds(reasoning.think("m", [block])) == ["reasoning_summary_text.delta"]
    assert kinds(reasoning.close()) == [
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
    ]
    assert read(reasoning)["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert unseal_parts(read(reasoning)["encrypted_content"]) == OpaqueParts(
        thinking_blocks=[{"signature": "s"}]
    )


def test_hidden_reasoning_has_no_summary() -> None:
    reasoning = OutputReasoning("1_0", 0)

    assert kinds(reasoning.think("", [msgspec.Raw(b"{}")])) == []
    assert kinds(reasoning.close()) == []
    assert read(reasoning)["summary"] == []


@pytest.mark.parametrize(
    ("custom", "kind", "field", "event", "item_id"),
    [
        (False, "function_call", "arguments", "function_call_arguments", "fc_1_0"),
        (True, "custom_tool_call", "input", "custom_tool_call_input", "ctc_1_0"),
    ],
)
def test_an_output_call_gains_its_arguments(
    *, custom: bool, kind: str, field: str, event: str, item_id: str
) -> None:
    call = OutputCall("1_0", 0, "c1", OwnName("f", "", is_custom=False), custom=custom)

    assert kinds(call.gain("")) == []
    assert kinds(call.gain('{"a":')) == [f"{event}.delta"]
    assert kinds(call.gain("1}")) == [f"{event}.delta"]
    assert kinds(call.close()) == [f"{event}.done"]
    assert read(call) == {
        "id": item_id,
        "type": kind,
        "call_id": "c1",
        "name": "f",
        field: '{"a":1}',
        "status": "completed",
    }


def test_a_compaction_comes_whole_and_sealed() -> None:
    compaction = OutputCompaction("1_0", msgspec.Raw(b'{"type":"compaction","content":"so far"}'))

    assert kinds(compaction.close()) == []
    item = read(compaction)
    assert (item["id"], item["type"]) == ("cmp_1_0", "compaction")
    assert unseal_parts(item["encrypted_content"]).thinking_blocks == [
        {"type": "compaction", "content": "so far"}
    ]
