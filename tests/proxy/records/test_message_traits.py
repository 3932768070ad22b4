"""Tests of the traits that messages have."""

import orjson
import pytest

from proxy.records.message_traits import MessageTraits, content_start_of, read_messages

SYSTEM = b'{"role":"system","content":"Be brief."}'
USER = b'{"role":"user","content":"Which of them?"}'
ANSWER = b'{"role":"assistant","content":"The first."}'
IMAGE = b'{"role":"user","content":[{"type":"text"},{"type":"image_url","image_url":{}}]}'


def test_messages_that_are_read_after_others_have_the_traits_of_all():
    before = read_messages([SYSTEM, IMAGE])
    assert before == MessageTraits(count=2, first_user=1, has_parts=True)

    both = read_messages([ANSWER, USER], before)
    assert both == read_messages([SYSTEM, IMAGE, ANSWER, USER])
    assert both == MessageTraits(count=4, first_user=1, is_answered=True, has_parts=True)


@pytest.mark.parametrize("unreadable", [b"7", b'"text"', b"[]", b'{"role":'])
def test_a_message_that_is_no_object_leaves_all_behind_it_unread(unreadable):
    before = read_messages([USER, unreadable])

    assert before is None
    assert read_messages([ANSWER], before) is None


@pytest.mark.parametrize(
    ("message", "has_parts"),
    [
        ({"content": [{"type": "text", "text": "image"}]}, False),
        ({"content": [{"type": "tool_result", "content": [{"type": "image"}]}]}, True),
        ({"type": "input_image"}, True),
        ({"type": "function_call_output", "output": [{"type": "input_file"}]}, True),
        ({"content": [7]}, True),
        ({"content": None}, False),
    ],
)
def test_images_and_files_are_found_in_every_form_of_message(message, has_parts):
    traits = read_messages([orjson.dumps(message)])

    assert traits is not None
    assert traits.has_parts is has_parts


def test_a_result_of_a_function_is_of_a_conversation_that_was_answered():
    assert read_messages([USER]) == MessageTraits(1, 0)
    result = read_messages([b'{"type":"function_call_output","output":"4"}'])

    assert result == MessageTraits(1, is_answered=True)


def test_the_start_of_a_content_is_its_first_4096_bytes():
    assert content_start_of(USER) == b'"Which of them?"'
    assert content_start_of(b'{"role":"user"}') == b""
    assert content_start_of(orjson.dumps({"content": "x" * 9_000})) == b'"' + b"x" * 4_095
