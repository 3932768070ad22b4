import pytest

from proxy.api.connections.body_limits import BodyMemoryLimit
from proxy.errors import Unready
from tests.fakes.refusals import refusing


def test_one_body_and_all_bodies_have_separate_memory_limits():
    room = BodyMemoryLimit(per_body=10, all_together=15)
    with room.reserve() as one, room.reserve() as other:
        one.grow_to(10)
        other.grow_to(5)
        with pytest.raises(Unready) as caught:
            other.grow_to(6)
        with refusing(413):
            one.grow_to(11)
        assert room.reserved_bytes == 15

    assert (caught.value.code, caught.value.retry_after) == ("too_many_bytes", 1.0)
    assert room.reserved_bytes == 0


def test_a_body_grows_into_what_was_announced_and_beyond():
    room = BodyMemoryLimit(per_body=100, all_together=100)
    with room.reserve() as claim:
        for size, reserved in [(40, 40), (10, 40), (40, 40), (41, 41), (100, 100)]:
            claim.grow_to(size)
            assert room.reserved_bytes == reserved


def reserve_and_grow(room: BodyMemoryLimit, *sizes: int) -> None:
    with room.reserve() as claim:
        for size in sizes:
            claim.grow_to(size)


def test_room_is_given_back_when_the_call_fails():
    room = BodyMemoryLimit(per_body=10, all_together=10)
    with refusing(413):
        reserve_and_grow(room, 10, 11)

    assert room.reserved_bytes == 0
