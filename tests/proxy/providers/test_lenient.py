"""Answers that are nearly JSON."""

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.lenient import decode_leniently, decode_or, to_strict_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"score": NaN}', {"score": None}),
        (b'{"score": [-Infinity, Infinity, 1e999]}', {"score": [None, None, None]}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ('{"a": "é"}'.encode("utf-16"), {"a": "é"}),
        ('{"a": "é"}'.encode("utf-16-be"), {"a": "é"}),
        ('{"a": "é"}'.encode("utf-32"), {"a": "é"}),
        (b'{"a": "\\ud83d"}', {"a": "?"}),
        (b'{"a": "\xff"}', {"a": "�"}),
        (b'{"a": "line\nbreak\ttab\x00"}', {"a": "line\nbreak\ttab\x00"}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a": "\\ud83d", "b": [1e999]}', {"a": "?", "b": [None]}),
        (b'{"a": %b, "b": [-%b]}' % (b"9" * 309, b"9" * 5_000), {"a": None, "b": [None]}),
    ],
)
def test_nearly_json_is_read(raw: bytes, expected: object):
    strict = to_strict_json(raw)

    assert strict is not None
    assert orjson.loads(strict) == expected


def test_long_integers_stay_what_they_are():
    assert to_strict_json(b"[NaN, 123456789012345678901]") == b"[null,123456789012345678901]"


@pytest.mark.parametrize("raw", [b"", b"<html>", b'{"a": ', b"[" * 100_000, b" " * 5_000_000])
def test_text_that_is_no_json_even_so_stays_unread(raw: bytes):
    assert to_strict_json(raw) is None


@pytest.mark.slow
@given(JSON)
def test_valid_json_has_the_same_value_after_repair(value: object):
    strict = to_strict_json(orjson.dumps(value))

    assert strict is not None
    assert orjson.loads(strict) == value


def test_an_object_with_very_many_keys_is_not_read_again():
    few, many = ([b'{"a":NaN}'] * count for count in (20_000, 60_000))

    assert to_strict_json(b"[%b]" % b",".join(few)) is not None
    assert to_strict_json(b"[%b]" % b",".join(many)) is None


@pytest.mark.parametrize(("odd", "most"), [(b"Infinity", 90_000), (b'"\\ud83d"', 9_000)])
def test_numbers_are_read_again_up_to_what_their_writer_makes_in_some_milliseconds(
    odd: bytes, most: int
):
    number = b"0.12345678901234567890123456789"
    few, many = (b"[%b]" % b",".join([odd, *[number] * count]) for count in (most, most + 20_000))

    assert to_strict_json(few) is not None
    assert to_strict_json(many) is None


def test_nearly_json_is_decoded_and_other_texts_are_not():
    decoder = msgspec.json.Decoder(dict[str, float | None])

    assert decode_leniently(decoder, b'{"a":NaN}') == {"a": None}
    with pytest.raises(msgspec.DecodeError):
        decode_leniently(decoder, b"no")


def test_a_default_stands_for_what_cannot_be_decoded() -> None:
    decode = msgspec.json.Decoder(int).decode

    assert [decode_or(decode, text, None) for text in (b"1", b'"a"', b"{")] == [1, None, None]
