"""Content blocks as parts of a chat message."""

from typing import Any

import pytest

from proxy.providers.messages.target import ChatTarget
from tests.fakes.messages_calls import (
    CLAUDE,
    Json,
    assistant,
    calls,
    chat_body_and_notes,
    result,
    text,
    user,
)
from tests.fakes.refusals import refusing

MARK = {"type": "ephemeral", "ttl": "1h"}
PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def _content(*blocks: Json, target: ChatTarget | None = None) -> Any:
    return chat_body_and_notes(user(*blocks), target=target)[0]["messages"][0]["content"]


def _document(source: Json, **more: Any) -> Json:
    return {"type": "document", "source": source, **more}


def _file(name: str, content: str) -> Json:
    return {"type": "file", "file": {"filename": name, "file_data": content}}


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        ({"type": "image", "source": PNG}, [PICTURE]),
        ({"type": "image", "source": {"type": "url", "url": "https://x.test/a"}},
         [{"type": "image_url", "image_url": {"url": "https://x.test/a"}}]),
        (_document(PDF), [_file("document.pdf", "data:application/pdf;base64,aGk=")]),
        (_document(PDF, title="a.pdf", context="Mine."),
         [text("Mine."), _file("a.pdf", "data:application/pdf;base64,aGk=")]),
        (_document({"type": "content", "content": [text("One"), {"type": "image", "source": PNG}]}),
         [text("<document>"), text("One"), PICTURE, text("</document>")]),
    ],
)  # fmt: skip
def test_a_block_becomes_the_part_that_chat_has_for_it(block: Json, parts: list[Json]) -> None:
    assert _content(text("See:"), block) == [text("See:"), *parts]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (text("Hi"), "Hi"),
        (_document({"type": "text", "media_type": "text/plain", "data": "A"}, title='"q" & b'),
         "<document title='\"q\" &amp; b'>\nA\n</document>"),
        (_document({"type": "content", "content": "A"}), "<document>\nA\n</document>"),
        ({"type": "search_result", "source": "https://x.test", "title": "T", "content": "A"},
         '<search_result title="T" source="https://x.test">\nA\n</search_result>'),
        ({"type": "tool_reference", "tool_name": "weather"}, "The tool weather is available."),
    ],
)  # fmt: skip
def test_a_block_that_chat_has_no_part_for_is_said_in_text(block: Json, words: str) -> None:
    assert _content(block) == words


def test_a_document_of_text_stays_a_file_where_claude_reads_it() -> None:
    document = _document({"type": "text", "data": "Hi"}, title="a.txt")
    linked = _document({"type": "url", "url": "https://x.test/a.pdf"})

    assert _content(document, target=CLAUDE) == [_file("a.txt", "data:text/plain;base64,SGk=")]
    assert _content(linked, target=CLAUDE) == [
        {"type": "file", "file": {"file_data": "https://x.test/a.pdf"}}
    ]


def test_wishes_for_citations_are_named_as_left_out() -> None:
    cited = _document(PDF, citations={"enabled": True})

    assert chat_body_and_notes(user(cited))[1] == (
        "dropped citations: this model cites no documents",
    )
    assert chat_body_and_notes(user(cited | {"citations": {"enabled": False}}))[1] == ()


def test_a_mark_stays_on_its_block_where_the_cache_takes_marks() -> None:
    marked = text("Hi", cache_control=MARK)

    assert _content(marked, text("you")) == [marked, text("you")]
    assert _content(_document(PDF, cache_control=MARK), text("?"))[0]["cache_control"] == MARK
    assert _content(marked, target=ChatTarget(takes_marks=False)) == "Hi"


def test_several_texts_stay_apart_unless_the_upstream_takes_only_one() -> None:
    assert _content(text("a"), text("b")) == [text("a"), text("b")]
    assert _content(text("a"), text("b"), target=ChatTarget(plain_text=True)) == "a\n\nb"


@pytest.mark.parametrize(
    ("block", "param", "words"),
    [
        ({"type": "text"}, "", "add it"),
        ({"type": "image"}, "", "has no `source`"),
        ({"type": "image", "source": {"type": "file"}}, ".source.file_id", "base64"),
        ({"type": "image", "source": {"type": "base64"}}, ".source", "`media_type` and `data`"),
        (_document({"type": "file", "file_id": "f"}), ".source.file_id", "in base64"),
        (_document({"type": "url", "url": "https://x.test"}), ".source.url", "in base64"),
        (_document({"type": "base64", "media_type": "a/zip"}), ".source.media_type", "PDF"),
        (_document({"type": "base64"}), ".source", "`data`"),
        (_document({"type": "text"}), ".source", "with `data`"),
        (_document({"type": "content", "content": [{"type": "text"}]}),
         ".source.content[0]", "add it"),
        ({"type": "container_upload"}, ".type", "in base64"),
        ({"type": "hologram"}, ".type", "send text, image, document or search_result"),
    ],
)  # fmt: skip
def test_a_block_that_cannot_be_said_is_refused_with_its_place_and_a_fix(
    block: Json, param: str, words: str
) -> None:
    with refusing(400, words) as caught:
        chat_body_and_notes(user(text("a")), user(block))

    assert caught.value.param == f"messages[1].content[0]{param}"


def test_only_text_can_stand_in_the_system_prompt() -> None:
    with refusing(400, "send text") as caught:
        chat_body_and_notes(system=[text("a"), {"type": "image", "source": PNG}])

    assert caught.value.param == "system[1].type"


def test_the_place_of_a_block_within_a_result_is_told() -> None:
    with refusing(400) as caught:
        chat_body_and_notes(
            user("Hi"), assistant(calls("t1")), user(result("t1", [{"type": "image"}]))
        )

    assert caught.value.param == "messages[2].content[0].content[0]"


@pytest.mark.parametrize(
    ("block", "what"),
    [
        ({"type": "image", "source": PNG}, "An image"),
        (_document(PDF), "A document"),
        (_document({"type": "file", "file_id": "f1"}), "A document"),
    ],
)
def test_images_and_documents_are_left_out_with_a_note_where_the_model_cannot_see(
    block: Json, what: str
) -> None:
    blind = ChatTarget(sees=False)
    body, notes = chat_body_and_notes(user(text("See:"), block, block), target=blind)

    left_out = text(f"({what} was left out: this model cannot see it.)")
    assert body["messages"][0]["content"] == [text("See:"), left_out, left_out]
    assert notes == ("left out images and files: the model cannot see them",)


def test_an_image_in_a_result_is_left_out_in_its_place_where_a_model_cannot_see() -> None:
    image = {"type": "image", "source": PNG}
    turns = (user("Hi"), assistant(calls("t1")), user(result("t1", [text("Read."), image])))
    messages = chat_body_and_notes(*turns, target=ChatTarget(sees=False))[0]["messages"]

    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert "An image was left out" in messages[2]["content"]


def test_a_document_of_text_reaches_a_model_that_cannot_see() -> None:
    document = _document({"type": "text", "media_type": "text/plain", "data": "A"})

    assert "A" in _content(document, target=ChatTarget(sees=False))
