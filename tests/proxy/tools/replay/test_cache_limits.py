"""Tests of what was sent before."""

from proxy.tools.replay.cache_limits import PieceTimes
from proxy.tools.replay.prompt_units import PromptPiece

A, B, C = (PromptPiece(name, 10) for name in (b"a", b"b", b"c"))


def test_a_piece_is_known_since_it_was_sent_last():
    seen = PieceTimes()
    seen.note([A], 1.0)
    seen.note([A], 2.0)

    assert seen.last_sent_at(A) == 2.0
    assert seen.last_sent_at(B) is None


def test_the_longest_beginning_ends_where_something_is_new():
    seen = PieceTimes()
    seen.note([A, B], 1.0)
    seen.note([A], 5.0)

    assert seen.common([A, B, C]) == (20, 1.0)
    assert seen.common([C, A]) == (0, None)


def test_a_piece_that_is_kept_keeps_its_time():
    seen = PieceTimes()
    seen.keep([A], 1.0)
    seen.keep([A], 2.0)

    assert seen.last_sent_at(A) == 1.0


def test_the_longest_unused_are_forgotten():
    seen = PieceTimes(most=2)
    seen.note([A, B], 1.0)
    seen.keep([A], 1.0)
    seen.note([C], 2.0)

    assert len(seen) == 2
    assert seen.last_sent_at(B) is None


def test_many_are_forgotten_at_once_and_never_the_latest():
    seen = PieceTimes(most=160)
    pieces = [PromptPiece(bytes([number]), 10) for number in range(161)]
    for piece in pieces:
        seen.note([piece], 1.0)

    assert len(seen) == 150
    assert [piece for piece in pieces if seen.last_sent_at(piece) is not None] == pieces[11:]
