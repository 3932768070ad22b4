"""Tests of what single calls held."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.replay.prompt_starts import PromptStarts
from proxy.tools.replay.prompt_units import PromptPiece

A, B, C = (PromptPiece(name, tokens) for name, tokens in ((b"a", 10), (b"b", 20), (b"c", 5)))
ONE, TWO = PromptPiece(b"1", 7), PromptPiece(b"2", 8)
LINES = st.lists(st.sampled_from([A, B, C]), max_size=4)
TURNS = st.lists(st.sampled_from([ONE, TWO]), max_size=3)
CALL = st.tuples(LINES, TURNS)


def test_before_anything_was_sent_nothing_is_shared():
    assert PromptStarts().longest_shared([A], [ONE]) == []


def test_no_more_is_shared_than_one_call_held():
    openings = PromptStarts()
    openings.note([A, C], [])
    openings.note([B], [])

    assert openings.longest_shared([A, B, C], []) == [B]


def test_a_conversation_counts_under_the_openings_it_had():
    openings = PromptStarts()
    openings.note([A], [ONE, TWO])
    openings.note([B], [])

    assert openings.longest_shared([A, B], [ONE, TWO]) == [A, ONE, TWO]


def test_beyond_what_can_be_compared_everything_counts():
    many, long = PromptStarts(most=1), PromptStarts(room=1)
    for openings in (many, long):
        openings.note([A], [ONE])
        openings.note([B], [TWO])
        openings.note([C], [])

        assert openings.longest_shared([A, B], [ONE]) == [A, B, ONE]


@given(st.lists(CALL, max_size=8), CALL)
def test_the_opening_that_held_most_is_found_whatever_was_sent(
    sent: Sequence[tuple[list[PromptPiece], list[PromptPiece]]],
    asked: tuple[list[PromptPiece], list[PromptPiece]],
):
    openings = PromptStarts()
    under: dict[frozenset[PromptPiece], set[PromptPiece]] = {}
    for heads, links in sent:
        openings.note(heads, links)
        under.setdefault(frozenset(heads), set()).update(heads, links)

    held = [[piece for piece in (*asked[0], *asked[1]) if piece in each] for each in under.values()]
    most = max((sum(piece.tokens for piece in each) for each in held), default=0)

    found = openings.longest_shared(*asked)

    assert found in held or found == []
    assert sum(piece.tokens for piece in found) == most
