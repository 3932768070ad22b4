"""JSON values of files in every form."""

import gzip
import io
from collections.abc import Iterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import OperatorError
from proxy.tools.replay.logs.documents import LogValue, log_values, open_log

ROWS = [{"a": 1, "text": 'says "hi" {[\\'}, {"b": {"c": [1, "]"]}}, {"d": "é\n"}]
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=3)


def values(raw: bytes, longest: int = 10_000) -> list[LogValue]:
    return list(log_values(io.BytesIO(raw), longest=longest))


@pytest.mark.parametrize(
    "raw",
    [
        b"\n".join(map(orjson.dumps, ROWS)),
        b"\xef\xbb\xbf" + b"\r\n".join(map(orjson.dumps, ROWS)) + b"\r\n\r\n",
        orjson.dumps(ROWS),
        orjson.dumps(ROWS, option=orjson.OPT_INDENT_2),
        b"\n".join(orjson.dumps(row, option=orjson.OPT_INDENT_2) for row in ROWS),
        b"[\n" + b",\n".join(map(orjson.dumps, ROWS)) + b"\n]",
    ],
    ids=["lines", "windows lines", "array", "indented array", "indented objects", "array of lines"],
)
def test_lines_arrays_and_indented_documents_hold_the_same_values(raw: bytes):
    assert [row.value for row in values(raw)] == ROWS


@given(st.lists(OBJECTS, min_size=1, max_size=5), st.sampled_from([0, orjson.OPT_INDENT_2]))
def test_any_array_of_objects_is_read_element_by_element(rows: list[object], option: int):
    raw = orjson.dumps(rows, option=option)

    assert [row.value for row in values(raw)] == rows


def test_an_element_that_spans_chunks_is_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("proxy.tools.replay.logs.documents._CHUNK_BYTES", 3)

    assert [row.value for row in values(orjson.dumps(ROWS))] == ROWS


def test_values_know_the_line_on_which_they_begin():
    raw = b'[\n{"a": 1},\n\n{"b":\n 2},\n{"c": 3}]'

    assert [row.line for row in values(raw)] == [2, 4, 6]


def test_a_broken_line_is_named_and_the_next_is_read():
    rows = values(b'{"a":\n{"b": 1}\nnothing\n{"c": 2}')

    assert [value.problem for value in rows] == [
        "it is not JSON: it ends too early",
        "",
        "it is not JSON",
        "",
    ]


@pytest.mark.parametrize("raw", [b'[{"a": 1}, {"b": ', b'{"a": 1,\n"b": '])
def test_a_document_that_ends_too_early_says_so(raw: bytes):
    assert values(raw)[-1].problem == "it is not JSON: it ends too early"


def test_a_value_that_is_too_long_is_named_and_the_next_is_read():
    rows = [{"a": "x" * 500}, {"b": 1}]
    for raw in (orjson.dumps(rows), b"\n".join(map(orjson.dumps, rows))):
        values_read = values(raw, longest=100)

        assert values_read[0].problem == "it is longer than 100 bytes"
        assert values_read[1].value == {"b": 1}


def test_an_empty_file_holds_nothing():
    assert values(b"") == values(b"\n\n") == []


@pytest.fixture
def packed_log(tmp_path) -> Iterator[object]:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"\n".join(map(orjson.dumps, ROWS))))
    with open_log(path) as file:
        yield file


def test_gzip_is_unpacked_whatever_the_file_is_called(packed_log):
    assert [row.value for row in log_values(packed_log)] == ROWS


def test_a_gzip_bomb_ends_at_the_bound_and_holds_one_value_at_a_time(tmp_path):
    path = tmp_path / "bomb.json"
    path.write_bytes(gzip.compress(b'{"a": "' + b"x" * 50_000_000))

    read = 0

    def count(size: int) -> None:
        nonlocal read
        read += size

    with open_log(path) as file, pytest.raises(OperatorError, match="more than 1,000,000 bytes"):
        list(log_values(file, longest=10_000, max_bytes=1_000_000, report_progress=count))
    assert read < 1_200_000


def test_damaged_gzip_says_so(tmp_path):
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(orjson.dumps(ROWS) * 1000)[:-30])

    with open_log(path) as file, pytest.raises(OperatorError, match="gzip data is damaged"):
        list(log_values(file))
