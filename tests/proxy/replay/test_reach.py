"""What can be read where whole units alone are kept."""

import pytest

from proxy.replay.bounds import Bounds
from proxy.replay.ceiling import Taken
from proxy.replay.reach import Reach
from proxy.replay.units import Piece

RULES, TIME, NOON = (Piece(name, tokens) for name, tokens in ((b"r", 500), (b"t", 9), (b"n", 9)))
TURNS = [Piece(bytes([number]), 100) for number in range(1, 9)]
LIMITS = Bounds(units=True, build=2.0)


def reach(*calls: tuple[list[Piece], int], **more: int) -> Reach:
    """One that saw these openings with so many turns, ten seconds apart."""
    found = Reach(LIMITS, **more)
    for number, (heads, turns) in enumerate(calls):
        found.note(Taken(heads, TURNS[:turns]), 10.0 * number)
    return found


def known(found: Reach, heads: list[Piece], turns: int, now: float = 100.0) -> int:
    """Tokens that may be read of a call of which all but a new time was sent before."""
    pieces = [piece for piece in (*heads, *TURNS[:turns]) if piece is not NOON]
    return found.known(Taken(heads, TURNS[:turns]), pieces, now)


def test_a_call_that_goes_on_from_an_earlier_one_reads_all_of_that():
    assert known(reach(([RULES], 3)), [RULES], 5) == 500 + 300


def test_where_something_varied_what_a_single_call_held_is_not_read():
    assert known(reach(([TIME, RULES], 3)), [NOON, RULES], 5) == 0


def test_where_something_varied_what_two_calls_held_is_read():
    other = Piece(b"o", 9)

    assert known(reach(([TIME, RULES], 3), ([other, RULES], 5)), [NOON, RULES], 7) == 500 + 300


def test_tools_in_another_order_are_the_same():
    tool = Piece(b"a", 50)

    assert known(reach(([tool, RULES], 3)), [RULES, tool], 4) == 550 + 300


@pytest.mark.parametrize(("now", "read"), [(1.9, 0), (2.0, 800)])
def test_a_unit_takes_its_time_to_be_built(now, read):
    assert known(reach(([RULES], 3)), [RULES], 3, now) == read


def test_what_two_calls_held_takes_its_time_from_the_second_on():
    found = reach(([TIME, RULES], 1), ([TIME, RULES], 3))
    early, late = (known(found, [NOON, RULES], 5, now) for now in (11.9, 12.0))

    assert (early, late) == (0, 600)


def test_a_line_that_stands_twice_in_one_call_was_sent_once():
    assert known(reach(([TIME, RULES, RULES], 3)), [NOON, RULES], 5) == 0


def test_openings_that_are_not_kept_any_more_count_as_any():
    calls = [([Piece(b"u%d" % number, 3), RULES], 3) for number in range(20)]

    assert known(reach(*calls, ([RULES], 3)), [NOON, RULES], 3, now=400.0) == 800
    assert known(reach(*calls[:3]), [NOON, RULES], 3, now=400.0) == 800
    assert known(reach(calls[0]), [NOON, RULES], 3, now=400.0) == 0


def test_ends_are_forgotten_beyond_the_room_for_them():
    one, two = ([RULES], 1), ([RULES], 2)

    assert known(reach(one, two, room=4), [RULES, NOON], 2) == 700
    assert known(reach(one, two, room=4), [RULES, NOON], 1) == 600
    assert known(reach(one, room=0), [RULES], 1) == 0
