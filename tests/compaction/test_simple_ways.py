"""Tests of the simple ways to shorten a conversation."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message_parser import parse_message
from compaction.simple_ways import (
    MASK,
    SIMPLE_WAYS,
    KeptValues,
    compare_with_simple_ways,
    crop_all_but_users,
    crop_equally,
    head_and_tail,
    keep_last,
    mask_old_results,
    standing_tokens,
)


def count_words(text):
    return len(text.split())


def message(role, content, **fields):
    return parse_message(orjson.dumps({"role": role, "content": content, **fields}))


def chat(*contents):
    roles = ["user", "assistant"] * len(contents)
    return [message(role, text) for role, text in zip(roles, contents, strict=False)]


def looked_up(result):
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    return [
        message("user", "where is it"),
        message("assistant", None, tool_calls=[call]),
        message("tool", result, tool_call_id="c1"),
        message("user", "thank you very much"),
    ]


def test_keep_last_drops_the_oldest_messages():
    assert keep_last(chat("one two", "three four", "five six"), 12, count_words) == (
        "",
        "three four",
        "five six",
    )


def test_head_and_tail_drops_the_middle():
    texts = ["a a", "b b", "c c", "d d", "e e"]

    assert head_and_tail(chat(*texts), 18, count_words) == ("a a", "", "", "d d", "e e")


def test_mask_replaces_an_old_result_and_keeps_its_call():
    messages = looked_up("word " * 50)

    assert mask_old_results(messages, 40, count_words) == (
        "where is it",
        "find {}",
        MASK,
        "thank you very much",
    )


def test_mask_leaves_results_whole_where_all_fit():
    messages = looked_up("word " * 50)

    assert mask_old_results(messages, 100, count_words)[2] == "word " * 50


def test_result_goes_with_its_call():
    messages = looked_up("short")

    assert keep_last(messages, 15, count_words) == ("", "", "", "thank you very much")


def test_crop_cuts_every_message_to_one_length():
    standing = crop_equally(chat("abcdefgh", "ijklmn", "op"), 12 + 10, len)

    assert standing == ("abc…", "ijk…", "op")


def test_users_stay_whole_while_the_rest_is_cropped():
    assert crop_all_but_users(chat("abcdefgh", "ijklmn"), 8 + 11, len) == ("abcdefgh", "ij…")


def test_users_are_cropped_too_where_their_words_alone_do_not_fit():
    assert crop_all_but_users(chat("abcdefgh", "ij"), 4 + 5, len) == ("abcd…", "")


@pytest.mark.parametrize("name", SIMPLE_WAYS)
@given(
    texts=st.lists(st.text("ab ", min_size=1, max_size=40).filter(str.strip), max_size=8),
    max_tokens=st.integers(0, 80),
)
def test_simple_way_stays_within_its_tokens(name, texts, max_tokens):
    messages = chat(*texts)
    standing = SIMPLE_WAYS[name](messages, max_tokens, count_words)

    assert len(standing) == len(messages)
    assert standing_tokens(standing, count_words) <= max_tokens


@pytest.mark.parametrize("name", SIMPLE_WAYS)
def test_simple_way_keeps_all_that_fits(name):
    messages = chat("one two", "three", "four")

    assert SIMPLE_WAYS[name](messages, 100, count_words) == ("one two", "three", "four")


def test_comparison_counts_values_of_what_is_sent_and_of_the_best_simple_way():
    messages = chat("order AB-12 costs €40.50", "due 3 May 2026", "so what is next", "nothing")
    sent = chat("AB-12 €40.50 due 3 May 2026 and no more", "nothing")

    assert compare_with_simple_ways(messages, sent, count_words) == KeptValues(
        total=3, kept=3, way="head and tail", way_kept=2
    )


def test_the_comparison_of_simple_ways_counts_names():
    messages = chat("and where do we eat", "at the Lantern Yard with Maud Pickering", "fine")
    sent = chat("at the Lantern Yard")

    assert compare_with_simple_ways(messages, sent, count_words).kept == 1
    assert compare_with_simple_ways(messages, sent, count_words).total == 2
