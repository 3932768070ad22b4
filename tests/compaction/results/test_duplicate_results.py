from hypothesis import given
from hypothesis import strategies as st

from compaction.results.duplicate_results import LEAST, echo, stamp


@given(st.text(), st.text())
def test_equal_texts_have_one_stamp(one, other):
    assert (stamp(one) == stamp(other)) == (one == other)


def test_a_result_that_was_there_is_pointed_to():
    text = "x" * LEAST

    assert echo(text, {stamp(text): "read(a.py)"}) == "[same as the earlier result of read(a.py)]"


def test_bytes_count_and_not_letters():
    text = "é" * (LEAST // 2)

    assert echo(text, {stamp(text): "ls()"}) == "[same as the earlier result of ls()]"


def test_a_short_result_is_said_again():
    assert echo("ok", {stamp("ok"): "ls()"}) is None


def test_a_new_result_is_said():
    assert echo("x" * LEAST, {}) is None
