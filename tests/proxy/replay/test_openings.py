"""What single calls held."""

from proxy.replay.openings import Openings
from proxy.replay.units import Piece

A, B, C = (Piece(name, tokens) for name, tokens in ((b"a", 10), (b"b", 20), (b"c", 5)))
ONE, TWO = Piece(b"1", 7), Piece(b"2", 8)


def test_before_anything_was_sent_nothing_is_shared():
    assert Openings().shared([A], [ONE]) == []


def test_no_more_is_shared_than_one_call_held():
    openings = Openings()
    openings.note([A, C], [])
    openings.note([B], [])

    assert openings.shared([A, B, C], []) == [B]


def test_a_conversation_counts_under_the_openings_it_had():
    openings = Openings()
    openings.note([A], [ONE, TWO])
    openings.note([B], [])

    assert openings.shared([A, B], [ONE, TWO]) == [A, ONE, TWO]


def test_beyond_what_can_be_compared_everything_counts():
    many, long = Openings(most=1), Openings(room=1)
    for openings in (many, long):
        openings.note([A], [ONE])
        openings.note([B], [TWO])
        openings.note([C], [])

        assert openings.shared([A, B], [ONE]) == [A, B, ONE]
