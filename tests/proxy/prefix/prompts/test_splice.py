"""Messages with other words in them."""

import pytest

from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.splice import part, plain, refilled, reworded, said


def test_only_the_words_of_a_part_change():
    raw = b'{"type":"text", "text":"a","cache_control":{ "type":"ephemeral"}}'

    assert reworded(raw, "\u00e9") == (
        '{"type":"text","text":"\u00e9","cache_control":{ "type":"ephemeral"}}'.encode()
    )
    assert reworded(b'"a"', "b") == b'"b"'


def test_a_part_with_a_mark_is_not_plain():
    assert plain(b'"a"')
    assert plain(part("a"))
    assert not plain(b'{"type":"text","text":"a","cache_control":null}')


def test_a_single_text_is_the_content_as_such():
    raw = b'{"role":"system","content":"a","name":"n"}'

    assert refilled(raw, [b'"b"']) == b'{"role":"system","content":"b","name":"n"}'


def test_several_parts_become_a_list():
    found = refilled(said("system", "a"), [b'"a"', part("b")])

    assert found == (
        b'{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}'
    )


def test_what_is_no_object_is_refused():
    with pytest.raises(Unplannable):
        plain(b"7")
