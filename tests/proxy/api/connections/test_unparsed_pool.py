from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from proxy.api.connections.unparsed_pool import UnparsedPool

_MAX_BYTES = 8 * 1024 * 1024
_KEPT_BYTES = 64 * 1024


@dataclass(eq=False)
class _Connection:
    """A connection that keeps bytes."""

    address: str
    sizes: list[int] = field(default_factory=list)
    is_ended: bool = False

    def give_up_unparsed(self) -> None:
        self.sizes.clear()
        self.is_ended = True

    def keep(self, pool: UnparsedPool, size: int = _KEPT_BYTES) -> bool:
        if pool.acquire(self, self.address, size):
            self.sizes.append(size)
            return True
        return False


def _connections(address: str, count: int) -> list[_Connection]:
    return [_Connection(address) for _ in range(count)]


def test_connection_that_kept_bytes_longest_ends_for_a_newer_one_of_its_address():
    pool = UnparsedPool()
    opened = _connections("192.0.2.1", 130)

    assert all(connection.keep(pool) for connection in opened)
    assert [connection.is_ended for connection in opened] == [True] * 2 + [False] * 128
    assert pool.bytes == _MAX_BYTES


def test_address_with_the_most_bytes_gives_way_to_others():
    pool = UnparsedPool()
    good, attack = _Connection("198.51.100.7"), _connections("2001:db8::1", 400)
    good.keep(pool)
    for connection in attack:
        connection.keep(pool)

    assert not good.is_ended
    assert sum(connection.is_ended for connection in attack) == 400 - 127


def test_connection_that_needs_its_own_bytes_is_refused_and_keeps_its_count():
    pool = UnparsedPool()
    only = _Connection("192.0.2.1")

    assert only.keep(pool, _MAX_BYTES)
    assert not only.keep(pool, 1)
    assert not only.is_ended
    assert pool.bytes == _MAX_BYTES
    assert not _Connection("192.0.2.2").keep(UnparsedPool(), _MAX_BYTES + 1)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from([1, 70_000, 900_000, 4_000_000])), max_size=60
    )
)
def test_pool_counts_what_is_kept_and_remembers_no_address_without_bytes(steps):
    pool = UnparsedPool()
    opened = [_Connection(f"192.0.2.{number % 3}") for number in range(10)]
    for number, size in steps:
        connection = opened[number]
        if not connection.is_ended and not connection.keep(pool, size):
            connection.is_ended = True
        assert pool.bytes == sum(sum(connection.sizes) for connection in opened) <= _MAX_BYTES

    for connection in opened:
        for size in connection.sizes:
            pool.release(connection, connection.address, size)
    pool.release(opened[0], opened[0].address, 0)
    assert pool.bytes == 0
    assert not pool._sizes
    assert not pool._by_address
