import json
from collections.abc import Iterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.json_size import (
    MAX_ANSWER,
    MAX_REQUEST,
    SMALL_BYTES,
    ArrivingText,
    ExactCounter,
    JsonSize,
    ends_of,
    loose_sizes,
    may_exceed,
)
from tests.examples import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a":,[]{}\\é')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a":\\')), inner),
)


def size(value: object) -> JsonSize:
    """The size of a value, by walking it."""
    if isinstance(value, dict):
        inner = [size(inner_value) for inner_value in value.values()]
        keys, values = len(value), max(len(value) - 1, 0)
    elif isinstance(value, list):
        inner = [size(inner_value) for inner_value in value]
        keys, values = 0, 1 + max(len(value) - 1, 0)
    else:
        return JsonSize(0, 0)
    return JsonSize(keys + sum(i.keys for i in inner), values + sum(i.values for i in inner))


def last(sizes: Iterator[JsonSize]) -> JsonSize:
    return list(sizes)[-1]


@pytest.mark.slow
@given(JSON, st.integers(2, 9), st.sampled_from([None, 2]))
def test_the_exact_size_is_that_of_the_value_however_the_text_is_cut(value, piece, indent):
    text = json.dumps(value, indent=indent, ensure_ascii=False).encode()

    assert last(ExactCounter().sizes(text, piece)) == size(value)


@pytest.mark.slow
@examples(14)
@given(JSON)
def test_the_loose_size_is_never_below_the_exact_one(value):
    text = json.dumps(value).encode() + b" " * SMALL_BYTES
    loose, exact = last(loose_sizes(text)), last(ExactCounter().sizes(text))

    assert loose.keys >= exact.keys
    assert loose.values >= exact.values


@pytest.mark.parametrize("least", [b'"":0,', b"0,", b"[],", b"[" * 30])
def test_a_text_that_is_too_short_to_measure_is_within_the_limits(least):
    text = least * ((SMALL_BYTES - 1) // len(least))

    assert list(loose_sizes(text)) == []
    assert not last(ExactCounter().sizes(text)).exceeds(MAX_REQUEST)
    assert not last(ExactCounter().sizes(text)).exceeds(MAX_ANSWER)


def bytes_until_over(text: bytes, limit: JsonSize, piece: int) -> int | None:
    """After how many bytes a text that arrives is over the limit; None where it never is."""
    pieces: list[bytes] = []
    arriving = ArrivingText(limit, pieces)
    for start in range(0, len(text), piece):
        pieces.append(text[start : start + piece])
        if any(arriving.exceeds()):
            return start + piece
    return None


@examples(14)
@given(JSON, st.integers(20_000, 300_000))
def test_a_text_that_arrives_is_over_the_limit_where_its_exact_size_is(value, piece):
    text = json.dumps(value, ensure_ascii=False).encode() + b" " * SMALL_BYTES
    keys, values = size(value)

    assert bytes_until_over(text, JsonSize(keys, values), piece) is None
    assert bytes_until_over(text, JsonSize(keys - 1, values), piece)
    assert bytes_until_over(text, JsonSize(keys, values - 1), piece)


@pytest.mark.slow
@pytest.mark.parametrize("piece", [1_000, 65_536, 20_000_000])
def test_a_text_that_arrives_is_over_the_limit_long_before_its_end(piece):
    text = orjson.dumps({f"key{number:07}": 0 for number in range(1_000_000)})

    assert bytes_until_over(text, MAX_REQUEST, piece) == max(
        piece, 50_001 * 15 // piece * piece + piece
    )


def test_text_that_looks_like_json_may_arrive_in_strings():
    text = orjson.dumps({"messages": [{"role": "user", "content": '{"a": [1, 2]}, ' * 500_000}]})

    assert bytes_until_over(text, MAX_REQUEST, 65_536) is None


@pytest.mark.slow
def test_a_million_keys_exceed_both_limits_and_text_neither():
    keys = orjson.dumps({f"k{number}": 0 for number in range(1_000_000)})
    text = orjson.dumps({"messages": [{"role": "user", "content": '{"a": [1, 2]}, ' * 500_000}]})

    assert may_exceed(keys, MAX_REQUEST)
    assert may_exceed(keys, MAX_ANSWER)
    assert last(ExactCounter().sizes(keys)).exceeds(MAX_ANSWER)
    assert last(ExactCounter().sizes(text)) == (3, 2)


USAGE = b'"usage":{"prompt_tokens":7}'


@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        (b'{"id":"a","x":[],%b}' % USAGE, b'{"id":"a",%b}' % USAGE),
        (b' { "id" : "a" , %b , "t":1} ' % USAGE, b'{"id" : "a" ,%b , "t":1} ' % USAGE),
        (b'{"x":[],%b}' % USAGE, b"{%b}" % USAGE),
        (b'{"id":"a","x":{%b}}' % USAGE, b""),
        (b'{"id":"a","x":[{%b}]}' % USAGE, b""),
        (b'{"type":"t","response":{"x":[],%b}}' % USAGE, b'{"response":{%b}}' % USAGE),
        (b'{"id":"a","x":"\\"usage\\":{}"}', b""),
        (b'{"id":"a","x":"usage"}', b""),
        (b"[{%b}]" % USAGE, b""),
        (b'{"id":"a","x":[]}', b""),
        (b'{%b,"x":"%b"}' % (USAGE, b"y" * 70_000), b""),
    ],
)
def test_usage_at_the_end_of_an_answer_is_found_at_its_place_alone(answer, ends):
    assert ends_of(answer) == ends
