import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.store.journal.lines import decode, encode, frame, unframe
from tests.fakes.receipts import a_receipt


def test_a_receipt_comes_back_as_it_was() -> None:
    receipt = a_receipt(3, prompt='{"model": "m"}', notes=("a\nb", "c"))

    assert decode(encode(receipt)) == receipt


def test_tags_come_back_whole_and_lines_from_before_them_have_none() -> None:
    tagged = a_receipt(3, tags=(("customer", "ß" * 64), ("job", "\U0001f600" * 64)))
    before = encode(a_receipt(3))

    assert decode(encode(tagged)) == tagged
    assert b"tags" not in before
    assert decode(before).tags == ()


def test_a_line_holds_no_newline_but_the_one_that_leads() -> None:
    framed = frame(encode(a_receipt(notes=("a\nb\r\nc",))))

    assert framed.startswith(b"\n")
    assert framed.count(b"\n") == 1


def test_nul_characters_are_dropped_because_postgresql_has_none() -> None:
    receipt = decode(encode(a_receipt(feature="a\0b", notes=("\0",), prompt='{"a": "\0"}')))

    assert (receipt.feature, receipt.notes, receipt.prompt) == ("ab", ("",), '{"a": ""}')


def test_a_backslash_before_u0000_is_no_nul() -> None:
    receipt = a_receipt(feature=r"\u0000")

    assert decode(encode(receipt)) == receipt


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert decode(encode(a_receipt(feature="a\ud800b"))).feature == "a?b"


def test_texts_notes_and_prompts_are_cut_between_characters() -> None:
    receipt = decode(
        encode(a_receipt(model="é" * 5000, notes=("ß" * 900,) * 99, prompt="x" * 5_000_000))
    )

    assert receipt.model == "é" * 200
    assert receipt.notes == ("ß" * 200,) * 32
    assert receipt.prompt == "x" * 4 * 2**20


@given(st.binary(), st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_any_one_byte_that_changes_is_noticed(line: bytes, place: int, change: int) -> None:
    piece = bytearray(frame(line)[1:])
    assert unframe(bytes(piece)) == line

    piece[place % len(piece)] ^= change

    # the space between is not checked, and carries nothing
    assert unframe(bytes(piece)) is None or place % len(piece) == 8


@given(st.binary(min_size=1), st.integers(min_value=1))
def test_a_line_that_is_cut_short_is_torn(line: bytes, cut: int) -> None:
    piece = frame(line)[1:]

    assert unframe(piece[: len(piece) - 1 - cut % len(piece)]) is None


def test_a_line_from_before_calls_were_planned_is_still_a_receipt() -> None:
    line = (
        b'{"call_id":"call_1","started":1.5,"team":"t","key_id":"k","endpoint":"chat/completions",'
        b'"status":200,"outcome":"answered","duration":0.5}'
    )

    assert (decode(line).conversation, decode(line).arm, decode(line).miss_nanos) == ("", "", None)


def test_a_line_that_is_no_receipt_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(b'{"call_id": 5}')
