from typing import Any

import msgspec
import pytest

from proxy.providers.responses.parts import AnyPart, Content, InputPart, chat_content

EXPLICIT = {"mode": "explicit", "ttl": "12h"}


def part(given: dict[str, object]) -> InputPart:
    converted: InputPart = msgspec.convert(given, AnyPart)
    return converted


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "input_text", "text": "a"}, {"type": "text", "text": "a"}),
        (
            {"type": "output_text", "text": "a", "annotations": [], "logprobs": []},
            {"type": "text", "text": "a"},
        ),
        ({"type": "refusal", "refusal": "no"}, {"type": "refusal", "refusal": "no"}),
        (
            {"type": "input_image", "image_url": "http://a/b.png", "detail": "low"},
            {"type": "image_url", "image_url": {"url": "http://a/b.png", "detail": "low"}},
        ),
        (
            {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        ),
        (
            {"type": "input_file", "file_data": "AA==", "filename": "a.pdf"},
            {"type": "file", "file": {"file_data": "AA==", "filename": "a.pdf"}},
        ),
        (
            {"type": "input_file", "file_id": "file-1"},
            {"type": "file", "file": {"file_id": "file-1"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        ),
    ],
)
def test_each_part_is_said_in_chat_and_keeps_its_cache_marker(given: Any, expected: Any) -> None:
    marked = part(given | {"prompt_cache_breakpoint": EXPLICIT})
    controlled = part(given | {"cache_control": {"type": "ephemeral"}})

    assert part(given).chat() == expected
    assert marked.chat() == expected | {"prompt_cache_breakpoint": EXPLICIT}
    assert controlled.chat() == expected | {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ({"type": "input_image", "file_id": "file-1"}, "image_url"),
        ({"type": "input_file", "file_url": "http://a/b.pdf"}, "file_data"),
    ],
)
def test_a_part_that_chat_lacks_is_refused_with_its_fix(given: Any, fix: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=fix):
        part(given)


def test_text_stays_text_and_parts_stay_parts() -> None:
    parts_given: Content = [part({"type": "input_text", "text": "a"})]  # type: ignore[list-item]  # one of the union

    assert chat_content("a") == "a"
    assert chat_content(parts_given) == [{"type": "text", "text": "a"}]


def test_an_input_part_of_no_type_has_no_chat_form() -> None:
    with pytest.raises(NotImplementedError):
        InputPart().chat()
