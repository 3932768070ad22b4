from collections.abc import Iterable
from typing import Any

import msgspec

from proxy.providers.chat.chat_chunk import Delta, Token
from proxy.providers.responses.items import Event
from proxy.providers.responses.output import ResponseOutput
from proxy.providers.responses.reasoning import unseal_parts


def gain(output: ResponseOutput, **delta: object) -> list[str]:
    return kinds(output.gain(msgspec.convert(delta, Delta), []))


def kinds(events: Iterable[Event]) -> list[str]:
    """The events in short, those that begin or end an item with its type."""
    kinds_seen = []
    for event in events:
        kind = str(event["type"]).removeprefix("response.")
        kinds_seen.append(f"{kind} {event['item']['type']}" if "item" in event else kind)
    return kinds_seen


def part(index: int | None, arguments: str, **more: object) -> dict[str, Any]:
    fields: dict[str, Any] = {"function": {"name": "f", "arguments": arguments}, **more}
    return fields if index is None else fields | {"index": index}


def test_an_output_item_is_done_when_another_kind_begins() -> None:
    output = ResponseOutput("1")

    assert gain(output, reasoning_content="hm")[0] == "output_item.added reasoning"
    assert gain(output, content="Hi")[-3:] == [
        "output_item.added message",
        "content_part.added",
        "output_text.delta",
    ]
    assert gain(output, content="!") == ["output_text.delta"]
    assert gain(output, tool_calls=[part(0, "{}", id="c")])[-3:] == [
        "output_item.done message",
        "output_item.added function_call",
        "function_call_arguments.delta",
    ]
    assert kinds(output.end(cut=False)) == [
        "function_call_arguments.done",
        "output_item.done function_call",
    ]
    assert [item["id"] for item in output.items()] == ["rs_1_0", "msg_1_1", "fc_1_2"]


def test_a_call_may_be_taken_up_again_by_its_index() -> None:
    output = ResponseOutput("1")
    gain(output, tool_calls=[part(0, "a", id="c0"), part(1, "b", id="c1")])
    gain(output, content="by the way")
    gain(output, tool_calls=[part(0, "A")])
    gain(output, tool_calls=[part(1, "B")])
    list(output.end(cut=False))

    assert [item.get("arguments") for item in output.items()] == ["aA", "bB", None]


def test_calls_without_an_index_are_kept_apart_by_id_or_place() -> None:
    output = ResponseOutput("1")
    gain(output, tool_calls=[part(None, "a", id="c0")])
    gain(output, tool_calls=[part(None, "b", id="c1")])
    nameless = ResponseOutput("2")
    gain(nameless, tool_calls=[part(None, "a"), part(None, "b")])

    assert [(item["call_id"], item["arguments"]) for item in output.items()] == [
        ("c0", "a"),
        ("c1", "b"),
    ]
    assert [item["call_id"] for item in nameless.items()] == ["call_2_0", "call_2_1"]


def test_first_event_of_a_call_has_its_whole_name() -> None:
    output = ResponseOutput("1")
    gain(output, tool_calls=[{"index": 0, "id": "c"}])
    gain(output, tool_calls=[{"index": 0, "custom": None, "function": {"name": "g"}}])
    last = {"tool_calls": [part(0, "{", function={"name": "_h", "arguments": "{"})]}
    events = list(output.gain(msgspec.convert(last, Delta), []))

    assert events[0]["item"]["name"] == "g_h"
    assert kinds(events) == ["output_item.added function_call", "function_call_arguments.delta"]


def test_call_without_arguments_begins_with_the_arguments_of_a_later_one() -> None:
    output = ResponseOutput("1")

    assert gain(output, tool_calls=[part(0, ""), part(1, "")]) == []
    assert gain(output, tool_calls=[part(1, "{}")]) == [
        "output_item.added function_call",
        "output_item.added function_call",
        "function_call_arguments.delta",
    ]


def test_a_call_with_free_text_is_a_custom_one() -> None:
    output = ResponseOutput("1")
    gain(output, tool_calls=[{"index": 0, "id": "c", "custom": {"name": "g", "input": "x"}}])
    gain(output, tool_calls=[{"index": 0, "custom": {"input": "y"}}])

    assert output.items()[0]["input"] == "xy"
    assert output.items()[0]["type"] == "custom_tool_call"


def test_only_the_last_item_of_an_answer_that_was_cut_off_is_incomplete() -> None:
    output = ResponseOutput("1")
    gain(output, tool_calls=[part(0, "a", id="c0"), part(1, "b", id="c1")])
    list(output.end(cut=True))

    assert [item["status"] for item in output.items()] == ["completed", "incomplete"]


def test_an_empty_answer_ends_without_items() -> None:
    output = ResponseOutput("1")

    assert gain(output, role="assistant", content="") == []
    assert kinds(output.end(cut=True)) == []
    assert output.items() == []


def test_an_unfinished_item_is_incomplete() -> None:
    output = ResponseOutput("1")
    gain(output, reasoning_content="hm")
    gain(output, content="Hi")

    assert [item["status"] for item in output.items()] == ["completed", "incomplete"]


def test_text_and_refusal_share_a_message_and_citations_join_it() -> None:
    output = ResponseOutput("1")
    cited = {"type": "url_citation", "url_citation": {"url": "http://a"}}
    gain(output, annotations=[cited, {"type": "other"}])
    gain(output, content="Hi", annotations=[cited, {"type": "other"}], refusal=None)
    gain(output, refusal="no")

    assert [content["type"] for content in output.items()[0]["content"]] == [
        "output_text",
        "refusal",
    ]
    assert len(output.items()[0]["content"][0]["annotations"]) == 1


def test_a_citation_is_placed_within_its_own_message() -> None:
    output = ResponseOutput("1")
    cited = {"url_citation": {"url": "http://a", "start_index": 4, "end_index": 8}}
    gain(output, content="see ")
    gain(output, reasoning_content="hm")
    gain(output, content="here", annotations=[cited])

    (note,) = output.items()[2]["content"][0]["annotations"]
    assert (note["start_index"], note["end_index"]) == (0, 4)


def test_an_item_that_only_keeps_the_order_is_no_reasoning() -> None:
    output = ResponseOutput("1")
    gain(output, thinking_blocks=[msgspec.Raw(b'{"type":"called","id":"t1"}')])

    assert output.items() == []


def test_reasoning_after_a_call_is_an_item_of_its_own() -> None:
    output = ResponseOutput("1")
    gain(output, reasoning_content="a", thinking_blocks=[msgspec.Raw(b"1")])
    gain(output, tool_calls=[part(0, "{}")])
    gain(output, thinking_blocks=[msgspec.Raw(b"2")])

    seals = [item["encrypted_content"] for item in output.items() if item["type"] == "reasoning"]
    assert [unseal_parts(seal).thinking_blocks for seal in seals] == [[1], [2]]


def test_log_probabilities_stay_with_their_words() -> None:
    output = ResponseOutput("1")
    token = Token(token="Hi", logprob=-0.5)
    list(output.gain(Delta(content="Hi"), [token]))

    assert output.items()[0]["content"][0]["logprobs"] == [token.for_responses()]


def test_a_compaction_is_an_item_of_its_own_among_the_thoughts() -> None:
    output = ResponseOutput("1")
    block = {"type": "compaction", "content": "so far"}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    blocks = [msgspec.Raw(msgspec.json.encode(block_object)) for block_object in (block, thought)]

    assert kinds(output.gain(Delta(thinking_blocks=blocks), [])) == [
        "output_item.added compaction",
        "output_item.done compaction",
        "output_item.added reasoning",
    ]
    list(output.end(cut=False))
    items = output.items()
    assert [item["id"] for item in items] == ["cmp_1_0", "rs_1_1"]
    assert [unseal_parts(item["encrypted_content"]).thinking_blocks for item in items] == [
        [block],
        [thought],
    ]


def test_a_compaction_alone_is_done_at_the_end() -> None:
    output = ResponseOutput("1")
    block = msgspec.Raw(b'{"type":"compaction","content":null}')

    assert kinds(output.gain(Delta(thinking_blocks=[block]), [])) == [
        "output_item.added compaction"
    ]
    assert kinds(output.end(cut=False)) == ["output_item.done compaction"]
