"""Parts of a chat message as Messages content blocks."""

import base64
from typing import Any

import orjson
import pytest

from proxy.errors import CallerError
from proxy.providers.anthropic.parts import blocks, texts
from proxy.providers.chat.chat_body import ChatMessage, read
from tests.fakes.refusals import refusing


def _message(content: object, role: str = "user") -> ChatMessage:
    body = {"messages": [{"role": role, "content": content}]}
    return read(orjson.dumps(body))[0].messages[0]


def _blocks(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return blocks(_message(list(parts)), "messages[0]")


def _file(**file: str) -> dict[str, Any]:
    return {"type": "file", "file": file}


def _error_of(*parts: dict[str, Any]) -> CallerError:
    with refusing(400) as caught:
        _blocks(*parts)
    return caught.value


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("hello", [{"type": "text", "text": "hello"}]),
        ("  \n", []),
        (None, []),
        ([], []),
        ([{"type": "text", "text": " "}], []),
        ([{"type": "refusal", "refusal": "no"}], [{"type": "text", "text": "no"}]),
    ],
)
def test_words_become_text_blocks_unless_they_say_nothing(
    content: object, expected: list[dict[str, Any]]
) -> None:
    assert blocks(_message(content), "messages[0]") == expected


def test_text_parts_of_a_message_stay_separate_blocks() -> None:
    content = _blocks({"type": "text", "text": "a"}, {"type": "text", "text": "b"})

    assert [block["text"] for block in content] == ["a", "b"]


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("https://x.test/a.png", {"type": "url", "url": "https://x.test/a.png"}),
        (
            "data:image/png;base64,AAAA",
            {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        ),
        (
            "data:image/JPG;name=a.jpg;base64,AA==",
            {"type": "base64", "media_type": "image/jpeg", "data": "AA=="},
        ),
    ],
)
def test_images_of_a_chat_call_keep_their_source_at_anthropic(
    url: str, source: dict[str, str]
) -> None:
    content = _blocks({"type": "image_url", "image_url": {"url": url, "detail": "high"}})

    assert content == [{"type": "image", "source": source}]


@pytest.mark.parametrize(
    "url", ["ftp://x", "data:image/png,raw", "data:image/tiff;base64,AA", "data:;base64,AA", ""]
)
def test_images_that_cannot_be_sent_are_refused_by_name(url: str) -> None:
    error = _error_of({"type": "image_url", "image_url": {"url": url}})

    assert error.param == "messages[0].content[0].image_url.url"


def test_a_pdf_becomes_a_document_with_its_name() -> None:
    content = _blocks(_file(file_data="data:application/pdf;base64,JVBE", filename="a.pdf"))

    assert content == [
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
            "title": "a.pdf",
        }
    ]


def test_bare_base64_is_taken_for_what_its_name_says_else_for_a_pdf() -> None:
    encoded = base64.b64encode("café".encode()).decode()
    text, pdf = _blocks(_file(file_data=encoded, filename="a.TXT"), _file(file_data="JVBE"))

    assert text["source"] == {"type": "text", "media_type": "text/plain", "data": "café"}
    assert pdf["source"]["media_type"] == "application/pdf"


def test_a_document_may_be_an_https_address() -> None:
    content = _blocks(_file(file_data="https://x.test/a.pdf"))

    assert content[0]["source"] == {"type": "url", "url": "https://x.test/a.pdf"}


@pytest.mark.parametrize(
    ("file", "param"),
    [
        ({"file_id": "file-1"}, "file_id"),
        ({"file_data": "data:text/plain;base64,/w=="}, "file_data"),
        ({"file_data": "data:text/plain;base64,é"}, "file_data"),
        ({"file_data": "data:application/zip;base64,AA=="}, "file_data"),
        ({"file_data": "data:text/plain,plain"}, "file_data"),
    ],
)
def test_files_that_cannot_be_sent_are_refused_by_name(file: dict[str, str], param: str) -> None:
    assert _error_of(_file(**file)).param == f"messages[0].content[0].file.{param}"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "text"},
        {"type": "refusal"},
        {"type": "image_url"},
        {"type": "file"},
        {"type": "video"},
    ],
)
def test_parts_without_a_counterpart_are_refused(part: dict[str, Any]) -> None:
    assert (_error_of(part).param or "").startswith("messages[0].content[0]")


def test_a_parts_cache_marker_stays_with_it() -> None:
    content = _blocks(
        {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
    )

    assert content == [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]


def test_system_and_assistant_messages_take_text_alone() -> None:
    picture = _message([{"type": "image_url", "image_url": {"url": "https://x"}}], "assistant")
    with refusing(400) as caught:
        texts(picture, "messages[3]")

    assert caught.value.param == "messages[3].content[0].type"
    assert texts(_message("hi", "system"), "messages[0]") == [{"type": "text", "text": "hi"}]
    assert texts(_message([{"type": "refusal", "refusal": "no"}]), "m")[0]["text"] == "no"
