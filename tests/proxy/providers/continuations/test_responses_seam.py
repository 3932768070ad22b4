"""Tests of responses that broke off and go on."""

from typing import Any

import orjson
import pytest

from proxy.errors import UpstreamError
from proxy.providers.continuations.responses_seam import read_open_response
from proxy.providers.recalls.recall_filter import named_event
from proxy.providers.sse import parse_events

Json = dict[str, Any]
PART = {"type": "output_text", "text": "", "annotations": []}
REASONING = {"id": "rs_1", "type": "reasoning", "summary": []}
CALL = {"id": "fc_1", "type": "function_call", "name": "f", "arguments": "{}"}


def message(name: str, status: str = "in_progress", **fields: Any) -> Json:
    return {
        "id": name, "type": "message", "role": "assistant", "status": status, "content": [],
    } | fields  # fmt: skip


def stream(*events: Json) -> bytes:
    return b"".join(
        named_event({**event, "sequence_number": number}) for number, event in enumerate(events)
    )


def opening(name: str) -> Json:
    response: Json = {"id": name, "created_at": 7 if name == "resp_1" else 8, "output": []}
    return {"type": "response.created", "response": response}


def item_added(index: int, item: Json) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def item_done(index: int, item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def text(index: int, name: str, words: str) -> Json:
    place = {"item_id": name, "output_index": index, "content_index": 0}
    return {"type": "response.output_text.delta", **place, "delta": words}


def part(index: int, name: str, kind: str = "added", **fields: Any) -> Json:
    place = {"item_id": name, "output_index": index, "content_index": 0}
    return {"type": f"response.content_part.{kind}", **place, "part": PART | fields}


def response_end(name: str, status: str = "completed", output: list[Json] | None = None) -> Json:
    response = {"id": name, "created_at": 8, "status": status, "output": output or [], "usage": {}}
    return {"type": f"response.{status}", "response": response}


OPENED = (
    opening("resp_1"),
    item_added(0, REASONING),
    item_done(0, REASONING),
    item_added(1, message("msg_1")),
    part(1, "msg_1"),
    text(1, "msg_1", "Hello wor"),
)
REST = (
    opening("resp_2"),
    item_added(0, message("msg_2")),
    part(0, "msg_2"),
    text(0, "msg_2", "ld!"),
    {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "ld!"},
    part(0, "msg_2", "done", text="ld!"),
    item_done(0, message("msg_2", "completed")),
)


def events_after(*events: Json, delivered: tuple[Json, ...] = OPENED) -> list[Json]:
    seam = read_open_response(stream(*delivered)).seam(echoes=False)
    return [orjson.loads(event.data) for event in parse_events(seam.feed(stream(*events)))]


def test_the_open_message_goes_on_and_ends_with_all_of_its_text():
    delta, text_done, part_done, last_item, over = events_after(*REST, response_end("resp_2"))

    assert (delta["item_id"], delta["output_index"], delta["delta"]) == ("msg_1", 1, "ld!")
    assert text_done["text"] == part_done["part"]["text"] == "Hello world!"
    assert last_item["item"]["id"] == "msg_1"
    assert last_item["item"]["status"] == "completed"
    assert last_item["item"]["content"][0]["text"] == "Hello world!"
    assert (over["response"]["id"], over["response"]["created_at"]) == ("resp_1", 7)
    assert over["response"]["output"] == [REASONING, last_item["item"]]


def test_events_are_numbered_on_without_a_gap():
    numbers = [event["sequence_number"] for event in events_after(*REST, response_end("resp_2"))]

    assert numbers == list(range(len(OPENED), len(OPENED) + 5))


def test_an_answer_that_is_cut_by_its_limit_leaves_its_message_incomplete():
    cut = (
        *REST[:-1],
        item_done(0, message("msg_2", "incomplete")),
        response_end("resp_2", "incomplete"),
    )
    *_, last_item, over = events_after(*cut)

    assert last_item["item"]["status"] == "incomplete"
    assert over["type"] == "response.incomplete"


def test_items_that_follow_are_placed_after_the_open_message():
    events = events_after(
        *REST, item_added(1, CALL), item_done(1, CALL), response_end("resp_2", output=[CALL])
    )
    called = [event for event in events if event.get("item", {}).get("id") == "fc_1"]

    assert [event["output_index"] for event in called] == [2, 2]
    assert [item["type"] for item in events[-1]["response"]["output"]] == [
        "reasoning",
        "message",
        "function_call",
    ]


def test_the_open_message_ends_before_another_item_or_the_response():
    for events in (
        events_after(opening("resp_2"), item_added(0, CALL)),
        events_after(opening("resp_2"), response_end("resp_2")),
    ):
        assert [event["type"].removeprefix("response.") for event in events[:3]] == [
            "output_text.done",
            "content_part.done",
            "output_item.done",
        ]
        assert events[2]["item"]["status"] == "completed"


def test_a_response_that_thinks_anew_is_no_continuation():
    with pytest.raises(UpstreamError) as raised:
        events_after(opening("resp_2"), item_added(0, REASONING))

    assert raised.value.code == "continuation_unreadable"


@pytest.mark.parametrize(
    "delivered",
    [
        OPENED[:1],
        OPENED[:3],
        OPENED[:5],
        (*OPENED[:4], part(1, "msg_1", type="refusal")),
        (*OPENED, REST[4]),
        (*OPENED, item_done(1, message("msg_1", "completed"))),
        (opening("resp_1"), item_added(0, CALL)),
        (*OPENED, item_added(2, CALL)),
        (*OPENED, part(1, "msg_1")),
        (*OPENED, {"type": "error", "message": "no"}),
    ],
)
def test_a_response_that_is_more_than_open_text_is_not_continued(delivered):
    with pytest.raises(ValueError, match="cannot be gone on from"):
        read_open_response(stream(*delivered))
