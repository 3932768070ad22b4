"""A line in place of each image and file that a model cannot see."""

import json
from typing import Any

import pytest

from proxy.catalog.entries import Route
from proxy.providers.fitting.unseen_parts import can_see, unseen_line, without_unseen_parts
from tests.fakes.call_dependencies import call, route

BLIND = frozenset({"tools"})
WEB = "https://example.com/a.png"
TEXT = {"type": "text", "text": 'What is it? \u00e9 "image"'}
IMAGE = {"type": "image_url", "image_url": {"url": WEB}}
FILE = {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUFB"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"file": {"type": "string"}}}}


def blind_route(can: frozenset[str] | None = BLIND) -> Route:
    return route("up", can=can)


def seen_body(**body: Any) -> Any:
    """The body that a model without vision gets."""
    given = call(json.dumps({"model": "m", **body}).encode())
    return json.loads(without_unseen_parts(given, blind_route()).body)


def test_line_stands_in_place_of_each_image_and_file_of_a_chat_call():
    body = seen_body(messages=[{"role": "user", "content": [TEXT, IMAGE, FILE]}], top_p=0.10)

    assert body["messages"][0]["content"] == [
        TEXT,
        {"type": "text", "text": "(An image was left out: this model cannot see it.)"},
        {"type": "text", "text": "(A file was left out: this model cannot see it.)"},
    ]
    assert body["top_p"] == 0.10


def test_images_of_messages_and_of_tool_results_are_left_out_of_a_responses_call():
    image = {"type": "input_image", "image_url": WEB}
    line = {"type": "input_text", "text": unseen_line("An image")}
    body = seen_body(
        input=[
            {"role": "user", "content": [image, {"type": "input_file", "file_id": "f1"}]},
            {"type": "function_call_output", "call_id": "c", "output": [image]},
        ]
    )

    assert body["input"][0]["content"] == [line, line | {"text": unseen_line("A file")}]
    assert body["input"][1]["output"] == [line]


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"messages": [{"role": "user", "content": [TEXT]}], "tools": [TOOL]}).encode(),
        json.dumps(
            {"messages": [{"role": "user", "content": 'a "file"'}], "input": "file"}
        ).encode(),
        b'{ "messages" : [ {"role":"user","content":[{"type":"image_url" ',
        b'[{"type":"image_url"}]',
    ],
)
def test_call_without_images_or_that_cannot_be_read_is_unmodified(raw: bytes):
    given = call(raw, fields=None)
    assert without_unseen_parts(given, blind_route()) is given


@pytest.mark.parametrize("can", [None, frozenset({"tools", "vision"})])
def test_model_that_sees_or_of_which_nobody_said_gets_the_images(can: frozenset[str] | None):
    given = call(json.dumps({"messages": [{"role": "user", "content": [IMAGE]}]}).encode())
    assert can_see(blind_route(can))
    assert without_unseen_parts(given, blind_route(can)) is given
