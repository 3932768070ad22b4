"""Messages with other words in them."""

import pytest

from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.splice import (
    is_plain_text,
    replace_parts,
    replace_text,
    text_message,
    text_part,
)


def test_only_the_words_of_a_part_change():
    raw = b'{"type":"text", "text":"a","cache_control":{ "type":"ephemeral"}}'

    assert replace_text(raw, "\u00e9") == (
        '{"type":"text","text":"\u00e9","cache_control":{ "type":"ephemeral"}}'.encode()
    )
    assert replace_text(b'"a"', "b") == b'"b"'


def test_a_part_with_a_mark_is_not_plain():
    assert is_plain_text(b'"a"')
    assert is_plain_text(text_part("a"))
    assert not is_plain_text(b'{"type":"text","text":"a","cache_control":null}')


def test_a_single_text_is_the_content_as_such():
    raw = b'{"role":"system","content":"a","name":"n"}'

    assert replace_parts(raw, [b'"b"']) == b'{"role":"system","content":"b","name":"n"}'


def test_several_parts_become_a_list():
    found = replace_parts(text_message("system", "a"), [b'"a"', text_part("b")])

    assert found == (
        b'{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}'
    )


def test_what_is_no_object_is_refused():
    with pytest.raises(Unplannable):
        is_plain_text(b"7")
