"""The content of one message, written block by block."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from proxy.errors import UpstreamError
from proxy.providers.chat.chat_chunk import Delta
from proxy.providers.messages.body import MessagesBlock
from proxy.providers.messages.output import MessageOutput
from proxy.providers.messages.signatures import call_extras
from tests.fakes.messages_calls import Json, part, settings

Told = list[tuple[str, int]]


def write(deltas: Iterable[Json], **fields: Any) -> tuple[MessageOutput, list[Json]]:
    output = MessageOutput(settings(**fields), "7f")
    read = [msgspec.json.decode(msgspec.json.encode(delta), type=Delta) for delta in deltas]
    events = [event for delta in read for event in output.gain(delta)]
    return output, [*events, *output.end()]


def events_and_indexes(events: list[Json]) -> Told:
    return [(event["type"].removeprefix("content_block_"), event["index"]) for event in events]


def calls(*pieces: Json) -> Json:
    return {"tool_calls": [*pieces]}


def inputs(output: MessageOutput) -> list[str]:
    return [bytes(block["input"]).decode() for block in output.content()]


def test_words_and_reasoning_are_blocks_of_their_own() -> None:
    output, events = write(
        [
            {"reasoning_content": "H"},
            {"reasoning_content": "m"},
            {"content": "Y"},
            {"content": "o"},
        ],
        thinking="shown",
    )

    assert events_and_indexes(events) == [
        ("start", 0), ("delta", 0), ("delta", 0), ("delta", 0), ("stop", 0),
        ("start", 1), ("delta", 1), ("delta", 1), ("stop", 1),
    ]  # fmt: skip
    assert [block["type"] for block in output.content()] == ["thinking", "text"]


def test_reasoning_that_nobody_asked_for_is_left_out() -> None:
    output, _ = write([{"reasoning": "Hm"}, {"content": "Yo"}])

    assert output.content() == [{"type": "text", "text": "Yo"}]


def test_reasoning_that_is_not_shown_travels_in_its_signature() -> None:
    output, events = write([{"reasoning_content": "Hm"}, {"content": "Yo"}], thinking="sealed")

    assert events_and_indexes(events)[:3] == [("start", 0), ("delta", 0), ("stop", 0)]
    assert output.content()[0]["thinking"] == ""


def test_a_block_that_claude_signed_closes_the_reasoning_it_says() -> None:
    signed = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    other = {"type": "thinking", "thinking": "", "signature": "b3Ro"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    deltas: list[Json] = [
        {"reasoning_content": "Hm"},
        {"thinking_blocks": [signed]},
        {"thinking_blocks": [{"type": "said", "length": 1, "digest": ""}, other, redacted]},
        {"content": "Yo"},
    ]
    output, _ = write(deltas, thinking="shown")

    assert output.content() == [signed, other, redacted, {"type": "text", "text": "Yo"}]


def test_a_refusal_is_text_of_the_message() -> None:
    output, _ = write([{"refusal": "I can"}, {"refusal": "not."}])

    assert output.content() == [{"type": "text", "text": "I cannot."}]
    assert output.refused


def test_calls_come_one_after_the_other() -> None:
    output, events = write(
        [
            calls(part(0, name="a", id="c0")),
            calls(part(0, '{"x":')),
            calls(part(0, "1}")),
            calls(part(1, "{}", name="b", id="c1")),
        ]
    )

    assert events_and_indexes(events) == [
        ("start", 0), ("delta", 0), ("delta", 0), ("stop", 0),
        ("start", 1), ("delta", 1), ("stop", 1),
    ]  # fmt: skip
    assert inputs(output) == ['{"x":1}', "{}"]
    assert output.calls_tools


def test_a_call_waits_until_the_one_before_it_is_complete() -> None:
    output, events = write(
        [
            calls(part(0, '{"x":', name="a", id="c0"), part(1, '{"y":', name="b", id="c1")),
            calls(part(1, "2}")),
            calls(part(0, "1}")),
            calls(part(2, "{}", name="c", id="c2")),
        ]
    )

    assert [place for _, place in events_and_indexes(events)] == sorted(
        place for _, place in events_and_indexes(events)
    )
    assert inputs(output) == ['{"x":1}', '{"y":2}', "{}"]


def test_calls_that_never_become_complete_are_told_at_the_end() -> None:
    output, _ = write(
        [calls(part(0, '{"x":', name="a", id="c0")), calls(part(1, '{"y', name="b", id="c1"))]
    )

    assert [block["input"] for block in output.content()] == [
        {"arguments": '{"x":'},
        {"arguments": '{"y'},
    ]


def test_a_call_that_has_ended_cannot_go_on() -> None:
    with pytest.raises(UpstreamError):
        write([calls(part(0, "{}", name="a", id="c")), {"content": "So"}, calls(part(0, "{}"))])


def test_a_call_without_a_name_is_no_answer() -> None:
    with pytest.raises(UpstreamError):
        write([calls(part(0, "{}", id="c"))])


def test_a_name_may_come_after_the_id() -> None:
    output, _ = write([calls(part(0, id="c")), calls(part(0, "{}", name="a"))])

    assert output.content()[0]["name"] == "a"


def test_calls_without_ids_get_their_own_and_the_callers_names() -> None:
    given = [calls(part(0, "{}", name="short")), calls(part(1, "{}", name="short"))]
    output, _ = write(given, tool_names={"short": "the_long_name"})
    names = [(block["id"], block["name"]) for block in output.content()]

    assert len({name for name, _ in names}) == 2
    assert {name for _, name in names} == {"the_long_name"}


def test_calls_that_only_ids_tell_apart_are_several() -> None:
    pieces = [{"id": name, "function": {"name": "a", "arguments": "{}"}} for name in ("c0", "c1")]
    output, _ = write([calls(*pieces)])

    assert len(output.content()) == 2


@pytest.mark.parametrize(("thinking", "kinds"), [
    ("shown", ["thinking", "tool_use", "tool_use"]),
    ("sealed", ["thinking", "tool_use", "tool_use"]),
    ("hidden", ["tool_use", "tool_use"]),
])  # fmt: skip
def test_signatures_of_calls_travel_in_a_thinking_block(thinking: str, kinds: list[str]) -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    parts = [part(0, "{}", "a", id="c0", extra_content=extra), part(1, "{}", "a", id="c1")]
    output, _ = write([calls(*parts)], thinking=thinking)
    blocks = output.content()

    assert [block["type"] for block in blocks] == kinds
    if thinking != "hidden":
        assert call_extras(msgspec.convert(blocks[0], MessagesBlock)) == {"c0": extra}
