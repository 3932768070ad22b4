import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.upstream.head_repair import RepairedHead, may_be_paid, repair_head


def test_a_head_is_read_past_what_breaks_the_grammar():
    raw = b"HTTP/1.1 200 OK\nX : a\r\n  b\r\nwarning\r\nA B: 1\nContent-Length: 2, 2\n\nok"

    assert repair_head(raw) == RepairedHead(
        b"HTTP/1.1 200 OK\r\nx: a b\r\ncontent-length: 2\r\n\r\n", b"ok"
    )


def test_chunks_go_before_a_length():
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"

    repaired = repair_head(raw)
    assert repaired is not None
    assert b"content-length" not in repaired.head
    assert repaired.body == b"0\r\n\r\n"


def test_interim_answers_are_left_out():
    raw = b"HTTP/1.1 103 Early\r\nX: a\r\n\r\nHTTP/1.1 404 No\r\nno header\r\n\r\n"

    assert repair_head(raw) == RepairedHead(b"HTTP/1.1 404 No\r\n\r\n", b"")


@pytest.mark.parametrize(
    "raw",
    [b"HTTP/1.1 200 OK\r\nX: a\r\n", b"HTTP/1.1 103 Early\r\n\r\nHT", b"HTTP/1.1 20"],
)
def test_a_head_whose_end_has_not_come_is_waited_for(raw):
    assert repair_head(raw) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 200OK\r\n\r\n",
        b"HTTP/1.1 999 No\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        b"HTTP/1.1 103 Early\r\n\r\n" * 20,
    ],
)
def test_a_head_of_no_answer_or_with_two_lengths_is_refused(raw):
    with pytest.raises(ValueError, match=r"status line|length"):
        repair_head(raw)


@pytest.mark.parametrize(
    "line",
    [
        b"http/1.1 200 OK",
        b"HTTP/2 200 OK",
        b"HTTP/1 200 OK",
        b"HTTP/1.1\t0200\tO\x01K",
        b"\xef\xbb\xbf\r\nHTTP/1.0 200 OK",
    ],
)
def test_a_status_line_is_read_past_what_breaks_the_grammar(line):
    assert repair_head(line + b"\r\n\r\nok") == RepairedHead(b"HTTP/1.1 200 OK\r\n\r\n", b"ok")


@pytest.mark.parametrize(
    ("raw", "is_paid"),
    [
        (b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nbad", True),
        (b"HTTP/1.1 200OK\r\n", True),
        (b"ICY 200 OK\r\n", True),
        (b"Warning: notice\r\nHTTP/1.1 200 OK\r\n", True),
        (b'{"id":"chatcmpl-1"', True),
        (b"data: {", True),
        (b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 404 No\r\n", False),
        (b"HTTP/1.1 500 See HTTP 200\r\n", False),
        (b"HTTP/1.1 103 Early\r\n", False),
        (b"SSH-2.0-server 200\r\n", False),
        (b"\x15\x03\x01\x00\x02\x02P", False),
    ],
)
def test_bytes_that_are_not_http_may_be_an_answer_that_was_paid_for(raw, is_paid):
    assert may_be_paid(raw) is is_paid


@given(st.lists(st.binary(max_size=60), max_size=6), st.binary(max_size=9))
def test_a_repaired_head_is_repaired_to_itself(lines, body):
    raw = b"HTTP/1.1 200 OK\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body
    try:
        repaired = repair_head(raw)
    except ValueError:
        return

    assert repaired is not None
    assert repair_head(repaired.head + repaired.body) == repaired
