import msgspec
import pytest

from proxy.errors import UpstreamError
from proxy.providers.readers import EventReader, HeldReader, WholeReader


class CountReader(WholeReader):
    """Counts the members of an object."""

    def _translate(self, body: bytes) -> dict[str, int]:
        return {"count": len(msgspec.json.decode(body, type=dict[str, int]))}


class LengthReader(HeldReader):
    """Says the length of what came."""

    def end(self) -> bytes:
        return b"%d" % len(self._body)


class WordReader(EventReader):
    """Reads JSON words; the word "end" is the last, and an empty one says nothing."""

    def _read(self, data: bytes) -> bytes:
        word = msgspec.json.decode(data, type=str)
        self._has_ended = word == "end"
        return word.encode()


def stream(*words: str) -> bytes:
    return b"".join(f"data: {word}\n\n".encode() for word in words)


def test_events_are_read_in_order_up_to_the_end():
    reader = WordReader()

    assert reader.feed(stream('"one "', '"two "')) == b"one two "
    assert reader.feed(stream('"end"', '"more"')) == b"end"
    assert reader.feed(stream('"more"')) == b""


def test_parts_before_an_unreadable_event_are_given_before_its_error():
    reader = WordReader()

    assert reader.feed(stream('"one"', "not JSON", '"two"')) == b"one"
    with pytest.raises(UpstreamError, match="could not be read"):
        reader.feed(stream('"three"'))


@pytest.mark.parametrize("bad", ["not JSON", "17", "[" * 100_000, '"\\ud800"'])
def test_an_unreadable_event_behind_nothing_is_an_error_at_once(bad):
    with pytest.raises(UpstreamError, match="could not be read"):
        WordReader().feed(stream('""', bad))


def test_a_whole_answer_comes_in_one_piece_or_is_malformed():
    assert CountReader().feed(b'{"a":1,"b":2}') == b'{"count":2}'
    assert CountReader().end() == b""
    with pytest.raises(UpstreamError, match="could not be read"):
        CountReader().feed(b"[")


def test_an_answer_that_is_held_comes_at_its_end():
    reader = LengthReader()

    assert reader.feed(b"ab") + reader.feed(b"c") == b""
    assert reader.end() == b"3"


def test_a_stream_that_ends_before_its_answer_is_an_error():
    with pytest.raises(UpstreamError, match="stopped in the middle"):
        WordReader().end()
