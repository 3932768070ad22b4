"""Chat messages as a system instruction and contents."""

from typing import Any

import orjson
import pytest

from proxy.providers.gemini.request import generate_body
from tests.fakes.gemini_answers import Json, gemini_route
from tests.fakes.refusals import refusing

PNG = "data:image/png;base64,aGk="
BLOB = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
SIGNED = {"google": {"thought_signature": "c2ln"}}


def translate(*messages: Json) -> tuple[Json, tuple[str, ...]]:
    request = generate_body(orjson.dumps({"messages": [*messages]}), gemini_route(), "gemini-x")
    return orjson.loads(request.body), request.notes


def contents(*messages: Json) -> list[Json]:
    turns: list[Json] = translate(*messages)[0]["contents"]
    return turns


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def model(*calls: Json, **fields: Any) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": [*calls], **fields}


def call(name: str, arguments: str = '{"b": 1,"a":2}', **more: Any) -> Json:
    function = {"name": "weather", "arguments": arguments}
    return {"id": name, "type": "function", "function": function, **more}


def tool(name: str, content: Any = "rain", **more: Any) -> Json:
    return {"role": "tool", "tool_call_id": name, "content": content, **more}


def test_leading_system_messages_are_the_instruction() -> None:
    body, notes = translate(
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "b"}]},
        user("Hi"),
    )

    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert notes == ()


def test_a_later_system_message_stays_in_its_place_as_labelled_text() -> None:
    body, notes = translate(user("Hi"), {"role": "system", "content": "b"})

    assert body["contents"][1]["parts"][0]["text"] == "<system_message>\nb\n</system_message>"
    assert notes == ("sent a later system message as labelled user text",)


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ({"type": "text", "text": "Hi"}, {"text": "Hi"}),
        ({"type": "image_url", "image_url": {"url": PNG}}, BLOB),
        ({"type": "file", "file": {"file_data": PNG, "filename": "a.pdf"}}, BLOB),
        ({"type": "file", "file": {"file_data": "aGk=", "filename": "a.txt"}},
         {"inlineData": {"mimeType": "text/plain", "data": "aGk="}}),
        ({"type": "file", "file": {"file_data": "aGk="}},
         {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}}),
    ],
)  # fmt: skip
def test_a_part_is_text_or_inline_data(part: Json, sent: Json) -> None:
    assert contents(user([part, {"type": "text", "text": "?"}]))[0]["parts"] == [
        sent,
        {"text": "?"},
    ]


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x.test/a"}}, ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png,x"}}, ".image_url.url"),
        ({"type": "file", "file": {"file_id": "f"}}, ".file"),
        ({"type": "file", "file": {"file_data": "https://x.test/a"}}, ".file.file_data"),
        ({"type": "input_audio"}, ""),
        ({"type": "text"}, ""),
    ],
)
def test_a_part_that_cannot_be_said_is_refused_with_its_place(part: Json, param: str) -> None:
    with refusing(400) as caught:
        contents(user([part]))

    assert caught.value.param == f"messages[0].content[0]{param}"


def test_calls_keep_ids_arguments_and_signatures_and_results_follow_together() -> None:
    calls = call("c0", extra_content=SIGNED), call("c1")
    request = generate_body(
        orjson.dumps({"messages": [user("Hi"), model(*calls), tool("c0"), tool("c1"), user("?")]}),
        gemini_route(),
        "gemini-x",
    )
    body = orjson.loads(request.body)
    args = {"b": 1, "a": 2}

    assert b'"args":{"b": 1,"a":2}' in request.body
    assert body["contents"][1:] == [
        {"role": "model", "parts": [
            {"functionCall": {"id": "c0", "name": "weather", "args": args},
             "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "c1", "name": "weather", "args": args}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "c0", "name": "weather", "response": {"output": "rain"}}},
            {"functionResponse": {"id": "c1", "name": "weather", "response": {"output": "rain"}}}]},
        {"role": "user", "parts": [{"text": "?"}]},
    ]  # fmt: skip


def test_the_first_call_of_another_model_gets_googles_placeholder() -> None:
    parts = contents(user("Hi"), model(call("c0"), call("c1")), tool("c0"), tool("c1"))[1]["parts"]

    assert parts[0]["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in parts[1]


def test_the_signature_of_words_stands_on_them() -> None:
    said_before = {"role": "assistant", "content": "Yes.", "extra_content": SIGNED}

    assert contents(user("Hi"), said_before, user("?"))[1]["parts"] == [
        {"text": "Yes.", "thoughtSignature": "c2ln"}
    ]


def test_a_failure_and_images_stand_in_the_response() -> None:
    parts = [{"type": "text", "text": "no"}, {"type": "image_url", "image_url": {"url": PNG}}]
    given = tool("c0", parts, is_error=True)
    turns = contents(user("Hi"), model(call("c0")), given)[2]["parts"][0]["functionResponse"]

    assert turns["response"] == {"error": "no"}
    assert turns["parts"] == [BLOB]


@pytest.mark.parametrize(
    ("arguments", "args"), [("", {}), ("[1]", {"arguments": "[1]"}), ("{", {"arguments": "{"})]
)
def test_arguments_that_are_no_object_are_wrapped(arguments: str, args: Json) -> None:
    turns = contents(user("Hi"), model(call("c0", arguments)), tool("c0"))

    assert turns[1]["parts"][0]["functionCall"]["args"] == args


def test_a_conversation_begins_with_the_user() -> None:
    body, notes = translate({"role": "system", "content": "a"})

    assert body["contents"] == [{"role": "user", "parts": [{"text": "(The conversation begins.)"}]}]
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (tool("c9"), "answers no call before it"),
        ({"role": "tool", "content": "x"}, "answers no call before it"),
        ({"role": "robot", "content": "x"}, "use system, developer"),
        ({"role": "system", "content": [{"type": "file"}]}, "send text there"),
        (model({"id": "c", "type": "custom"}), "knows only functions"),
    ],
)
def test_a_message_that_cannot_be_said_is_refused_with_a_fix(message: Json, words: str) -> None:
    with refusing(400, words):
        contents(user("Hi"), message)


def test_thinking_of_another_provider_is_named_as_left_out() -> None:
    before = {"role": "assistant", "content": "Yes.", "thinking_blocks": [{"type": "thinking"}]}

    assert translate(user("Hi"), before, user("?"))[1] == (
        "dropped thinking_blocks: this model takes none of another's",
    )
