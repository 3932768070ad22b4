"""A whole chat message, unfolded in the model's order."""

from typing import Any

import msgspec
from msgspec.structs import replace

from proxy.providers.chat.block_order import BlockOrder
from proxy.providers.chat.call_parts import number_calls
from proxy.providers.chat.chat_chunk import Delta
from proxy.providers.chat.message_order import blocks_of, in_order

_A = {"type": "thinking", "thinking": "a", "signature": "s"}
_B = {"type": "thinking", "thinking": "b", "signature": "s"}
_CALL: dict[str, Any] = {"id": "t1", "function": {"name": "f", "arguments": "{}"}}


def _message(**fields: object) -> Delta:
    order = BlockOrder()
    entries = order.entries_for_block(_A)
    order.note_words("see ")
    order.note_call("t1")
    entries += order.entries_for_block(_B)
    message: dict[str, Any] = {
        "content": "see here",
        "reasoning_content": "ab",
        "thinking_blocks": entries,
        "tool_calls": [_CALL],
    }
    return msgspec.json.decode(msgspec.json.encode(message | fields), type=Delta)


def _pieces(message: Delta) -> list[str]:
    """Return what each piece gains: thoughts in brackets, words, names of functions."""
    return [
        f"[{piece.reasoning_text}]"
        if piece.thinking_blocks
        else piece.text or str((piece.tool_calls or [])[0].id)
        for piece in in_order(message)
    ]


def test_text_and_refusal_are_parts_of_one_output_message() -> None:
    assert _pieces(_message()) == ["[a]", "see ", "t1", "[b]", "here"]


def test_a_tool_call_keeps_its_number_between_chunks() -> None:
    calls = [piece.tool_calls[0] for piece in in_order(_message()) if piece.tool_calls]

    assert [call.index for call in calls] == [0]


def test_a_note_goes_with_the_words_it_is_on() -> None:
    notes = [
        {"url_citation": {"url": "http://a", "start_index": 4, "end_index": 8}},
        {"url_citation": {"url": "http://b", "start_index": 0, "end_index": 3}},
        {"url_citation": None},
    ]
    urls = [
        [note.url_citation.url for note in piece.annotations or () if note.url_citation]
        for piece in in_order(_message(annotations=notes))
        if piece.text
    ]

    assert urls == [["http://b"], ["http://a"]]


def test_a_message_whose_order_is_unknown_stays_whole_with_numbered_calls() -> None:
    plain = Delta(content="so", reasoning_content="hm")
    for message in (
        plain,
        _message(content="changed"),
        _message(reasoning_content="something else"),
        _message(refusal="no"),
        _message(thinking_blocks=[5]),
    ):
        calls = message.tool_calls and number_calls(message.tool_calls)
        assert list(in_order(message)) == [replace(message, tool_calls=calls)]


def test_places_of_the_order_are_no_thinking_blocks() -> None:
    entries = _message().thinking_blocks or []

    assert [bytes(raw) for raw in blocks_of(entries)] == [
        msgspec.json.encode(_A),
        msgspec.json.encode(_B),
    ]
