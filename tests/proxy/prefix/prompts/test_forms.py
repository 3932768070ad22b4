"""What was converted is remembered both ways, within its room."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.prompts.forms import ConversionCache


class Press:
    """Converts by putting a sign before a piece, and counts how often."""

    def __init__(self, room: int = 2**16) -> None:
        self.there = self.back = 0
        self.forms = ConversionCache(self._there, self._back, room)

    def _there(self, came: bytes) -> bytes:
        self.there += 1
        return came if came.startswith(b"=") else b"+" + came

    def _back(self, made: bytes) -> bytes:
        self.back += 1
        return made.removeprefix(b"+")


def test_a_conversation_that_grows_converts_only_what_is_new():
    press = Press()
    for turns in range(1, 20):
        pieces = [b"piece %d" % turn for turn in range(turns)]
        made = [press.forms.convert(piece) for piece in pieces]

        assert [press.forms.restore(one) for one in made] == pieces

    assert (press.there, press.back) == (19, 0)


def test_what_was_changed_meanwhile_is_converted_back():
    press = Press()
    made = press.forms.convert(b"a")

    assert press.forms.restore(made + b", marked") == b"a, marked"
    assert press.back == 1


def test_a_piece_that_looks_like_anothers_form_is_still_a_piece():
    press = Press()
    made = press.forms.convert(b"a")

    assert press.forms.convert(made) == b"++a"


def test_a_piece_that_stays_as_it_is_comes_back_as_it_is():
    press = Press()

    assert press.forms.restore(press.forms.convert(b"=a")) == b"=a"
    assert press.back == 0


def test_a_large_piece_is_not_kept():
    press = Press()
    large = b"a" * 2**13
    for _ in range(2):
        assert press.forms.convert(large) == b"+" + large

    assert press.there == 2
    assert press.forms.size == 0


def test_what_is_used_stays_while_others_pass_through():
    press = Press()
    for number in range(1_000):
        press.forms.convert(b"used again and again")
        press.forms.convert(b"once %d" % number)

    assert press.there == 1_001


@given(st.lists(st.binary(max_size=400), max_size=200))
def test_it_never_grows_beyond_its_room(pieces: list[bytes]):
    press = Press(4_096)
    for piece in pieces:
        assert press.forms.restore(press.forms.convert(piece)) == press._back(press._there(piece))
        assert press.forms.size <= 4_096
