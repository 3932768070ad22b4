import pytest

from proxy.api.heads import LENGTH, STATUS, head_format, render_chunk, render_head


def test_a_head_is_its_status_and_a_line_for_each_header():
    framed = head_format((b"Content-Length", b"X-100%b"))

    assert render_head(STATUS[200], framed, (b"2", b"%s")) == (
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-100%b: %s\r\n"
    )
    assert framed.framing == ((LENGTH, 0),)


@pytest.mark.parametrize("name", [b"x words", b"x:", b"x\r\ny"])
def test_a_name_that_is_none_is_no_header(name):
    with pytest.raises(RuntimeError, match="name is malformed"):
        head_format((name,))


@pytest.mark.parametrize("value", [b"a\r\nx: b", b"a\nb", b"a\0b"])
def test_a_value_cannot_end_its_line(value):
    with pytest.raises(RuntimeError, match="value is malformed"):
        render_head(STATUS[200], head_format((b"x",)), (value,))


def test_a_tab_in_a_value_is_none():
    assert render_head(STATUS[200], head_format((b"x",)), (b"a\tb",)).endswith(b"x: a\tb\r\n")


@pytest.mark.parametrize(
    ("piece", "more", "expected"),
    [
        (b"ab", True, b"2\r\nab\r\n"),
        (b"", True, b""),
        (b"ab", False, b"2\r\nab\r\n0\r\n\r\n"),
        (b"", False, b"0\r\n\r\n"),
    ],
)
def test_a_piece_is_a_chunk_and_the_last_one_the_end(piece, more, expected):
    assert render_chunk(piece, more=more) == expected
