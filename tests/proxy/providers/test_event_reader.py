import msgspec
import pytest

from proxy.errors import UpstreamError
from proxy.providers.event_reader import EventReader


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
