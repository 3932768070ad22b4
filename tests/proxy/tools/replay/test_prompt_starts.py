"""What single calls held."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.replay.prompt_starts import Openings
from proxy.tools.replay.prompt_units import Piece

A, B, C = (Piece(name, tokens) for name, tokens in ((b"a", 10), (b"b", 20), (b"c", 5)))
ONE, TWO = Piece(b"1", 7), Piece(b"2", 8)
LINES = st.lists(st.sampled_from([A, B, C]), max_size=4)
TURNS = st.lists(st.sampled_from([ONE, TWO]), max_size=3)
CALL = st.tuples(LINES, TURNS)


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


@given(st.lists(CALL, max_size=8), CALL)
def test_the_opening_that_held_most_is_found_whatever_was_sent(
    sent: Sequence[tuple[list[Piece], list[Piece]]], asked: tuple[list[Piece], list[Piece]]
):
    openings = Openings()
    under: dict[frozenset[Piece], set[Piece]] = {}
    for heads, links in sent:
        openings.note(heads, links)
        under.setdefault(frozenset(heads), set()).update(heads, links)

    held = [[piece for piece in (*asked[0], *asked[1]) if piece in each] for each in under.values()]
    most = max((sum(piece.tokens for piece in each) for each in held), default=0)

    found = openings.shared(*asked)

    assert found in held or found == []
    assert sum(piece.tokens for piece in found) == most
