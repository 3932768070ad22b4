import pytest

from proxy.api.heads import LENGTH, STATUS, chunk, form, head


def test_a_head_is_its_status_and_a_line_for_each_header():
    framed = form((b"Content-Length", b"X-100%b"))

    assert head(STATUS[200], framed, (b"2", b"%s")) == (
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-100%b: %s\r\n"
    )
    assert framed.framing == ((LENGTH, 0),)


@pytest.mark.parametrize("name", [b"x words", b"x:", b"x\r\ny"])
def test_a_name_that_is_none_is_no_header(name):
    with pytest.raises(RuntimeError, match="name is malformed"):
        form((name,))


@pytest.mark.parametrize("value", [b"a\r\nx: b", b"a\nb", b"a\0b"])
def test_a_value_cannot_end_its_line(value):
    with pytest.raises(RuntimeError, match="value is malformed"):
        head(STATUS[200], form((b"x",)), (value,))


def test_a_tab_in_a_value_is_none():
    assert head(STATUS[200], form((b"x",)), (b"a\tb",)).endswith(b"x: a\tb\r\n")


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
    assert chunk(piece, more=more) == expected
