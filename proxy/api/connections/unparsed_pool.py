"""A limit, shared by all connections, on the bytes of requests that are not parsed yet.

::

    a connection asks ─▶ room: its bytes are counted
                      └▶ no room: of the address with the most bytes, the connection that has
                         kept its bytes longest is closed, until there is room

So clients that send half requests displace each other, and complete requests pass.
"""

from collections import Counter
from typing import Final, Protocol

from proxy.api.connections.connection_limit import address_block

#: Bytes of all connections' large unfinished heads, and of requests sent before their turn.
_MAX_UNPARSED_BYTES: Final = 8 * 1024 * 1024


class UnparsedHolder(Protocol):
    """A connection that keeps bytes."""

    def give_up_unparsed(self) -> None:
        """Drop what it keeps, which is counted no more, and end."""
        ...


class UnparsedPool:
    """Counts the bytes that connections keep, by address."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[UnparsedHolder, int]] = {}
        self._by_address: Counter[str] = Counter()
        self.bytes = 0

    def acquire(self, holder: UnparsedHolder, address: str, size: int) -> bool:
        """Count bytes of a connection; False if it is the one that has to end for them.

        Args:
            address: Where it comes from; "" for one whose callers stand behind a proxy.
        """
        while self.bytes + size > _MAX_UNPARSED_BYTES:
            block = max(self._by_address, key=self._by_address.__getitem__, default=None)
            if block is None or (oldest := next(iter(self._sizes[block]))) is holder:
                return False
            self._forget(oldest, block, self._sizes[block][oldest])
            oldest.give_up_unparsed()
        block = address_block(address)
        sizes = self._sizes.setdefault(block, {})
        sizes[holder] = sizes.get(holder, 0) + size
        self._by_address[block] += size
        self.bytes += size
        return True

    def release(self, holder: UnparsedHolder, address: str, size: int) -> None:
        """Forget bytes that were counted."""
        if size:
            self._forget(holder, address_block(address), size)

    def _forget(self, holder: UnparsedHolder, block: str, size: int) -> None:
        self.bytes -= size
        self._by_address[block] -= size
        sizes = self._sizes[block]
        sizes[holder] -= size
        if not sizes[holder]:
            del sizes[holder]
        if not sizes:
            del self._sizes[block], self._by_address[block]
