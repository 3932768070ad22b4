import pytest

from proxy.api.body_limits import Room
from proxy.errors import TooLarge, Unready


def test_what_one_may_hold_and_what_all_may_hold_are_two_bounds():
    room = Room(each=10, all_together=15)
    with room.claim() as one, room.claim() as other:
        one.hold(10)
        other.hold(5)
        with pytest.raises(Unready) as caught:
            other.hold(6)
        with pytest.raises(TooLarge):
            one.hold(11)
        assert room.taken == 15

    assert (caught.value.code, caught.value.retry_after) == ("too_many_bytes", 1.0)
    assert room.taken == 0


def test_a_body_grows_into_what_was_announced_and_beyond():
    room = Room(each=100, all_together=100)
    with room.claim() as claim:
        for size, taken in [(40, 40), (10, 40), (40, 40), (41, 41), (100, 100)]:
            claim.hold(size)
            assert room.taken == taken


def grown(room: Room, *sizes: int) -> None:
    with room.claim() as claim:
        for size in sizes:
            claim.hold(size)


def test_room_is_given_back_when_the_call_fails():
    room = Room(each=10, all_together=10)
    with pytest.raises(TooLarge):
        grown(room, 10, 11)

    assert room.taken == 0
