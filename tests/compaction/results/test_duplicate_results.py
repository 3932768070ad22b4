from hypothesis import given
from hypothesis import strategies as st

from compaction.results.duplicate_results import pointer_to_earlier, text_digest

MIN_REPEATED_CHARS = 200


@given(st.text(), st.text())
def test_equal_texts_have_one_stamp(one, other):
    assert (text_digest(one) == text_digest(other)) == (one == other)


def test_a_result_that_was_there_is_pointed_to():
    text = "x" * MIN_REPEATED_CHARS

    assert (
        pointer_to_earlier(text, {text_digest(text): "read(a.py)"})
        == "[same as the earlier result of read(a.py)]"
    )


def test_bytes_count_and_not_letters():
    text = "é" * (MIN_REPEATED_CHARS // 2)

    assert (
        pointer_to_earlier(text, {text_digest(text): "ls()"})
        == "[same as the earlier result of ls()]"
    )


def test_a_short_result_is_said_again():
    assert pointer_to_earlier("ok", {text_digest("ok"): "ls()"}) is None


def test_a_new_result_is_said():
    assert pointer_to_earlier("x" * MIN_REPEATED_CHARS, {}) is None


def test_a_result_of_199_characters_is_said_again_and_one_of_200_pointed_to():
    assert pointer_to_earlier("x" * 199, {text_digest("x" * 199): "ls()"}) is None
    assert pointer_to_earlier("x" * 200, {text_digest("x" * 200): "ls()"}) is not None


def test_a_digest_of_a_text_has_16_bytes():
    assert len(text_digest("")) == len(text_digest("x" * 999)) == 16
