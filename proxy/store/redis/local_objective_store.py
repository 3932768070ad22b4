"""The port to what the controller's replicas share, and its twin inside one process.

Every replica adds what it counted; one of them, which leads for as long as it keeps saying so,
evaluates and publishes how things stand; all read that. Who has led and was stopped for a while
does not know that another leads now, so each leadership has an epoch, and what was published under
an older one is refused.

``LocalCounters`` keeps it in this process, for a gateway that has no other beside it.
``RedisCounters`` (``proxy.store.redis.objective_store``) keeps it in Redis for all.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, Protocol

from proxy.store.redis.objective_state import (
    MAX_KEYS,
    MAX_LEASE_S,
    Cell,
    Count,
    accepts_slot,
    check_epoch,
    check_lease,
    check_states,
    nonzero_increments,
    retains_slot,
    slots_to_read,
)


class ObjectiveCounters(Protocol):
    """Counts of all replicas, their leadership, and what the leader publishes.

    Keys are words of the caller's, of at most ``MAX_NAME_BYTES`` bytes. What has no sense or no
    bounds is refused with a ``ValueError`` before anybody is asked.

    Attributes:
        is_shared: True if all processes share it.
    """

    @property
    def is_shared(self) -> bool:
        """True if all processes share it."""
        ...

    async def add(self, increments: Mapping[Cell, Count]) -> None:
        """Add so many good and bad to each key's count in a slot.

        Not counted, and not complained about: a slot that begins more than ``MAX_CLOCK_DRIFT_S``
        before or after the store's own time, as of a replica whose clock is wrong; and a key
        that is new to a slot which counts ``MAX_KEYS`` already. A slot is kept for
        ``RETENTION_S`` after its end.

        Adding is no reservation: who adds again after a ``StoreError`` may count twice, and
        who does not may count too little. Too little is safer, where rates are judged.

        Args:
            increments: At most ``MAX_CELLS``, each of 0 to ``MAX_INCREMENT`` good and as many bad.

        Raises:
            ValueError: If an increment is out of bounds, or they are too many.
            StoreError: If the store is out of reach; any part may have been counted.
        """
        ...

    async def read(self, keys: Collection[str], first: int, last: int) -> Mapping[Cell, Count]:
        """Reads what was counted in these slots, both ends included.

        What nobody counted, or is no longer kept, is absent. To look at a long time again and
        again, keep what was read: only the last slots change.

        Raises:
            ValueError: If keys times slots are more than ``MAX_CELLS``, or keys too many.
            StoreError: If the store is out of reach.
        """
        ...

    async def lead(self, who: str, seconds: float) -> int | None:
        """The epoch under which ``who`` leads from now on, None where somebody else leads.

        Who leads keeps the epoch by asking again before the seconds have passed. After that the
        first to ask leads, under a higher epoch than any before, even if it led before.

        Args:
            who: A name no other replica has.
            seconds: 0 to ``MAX_LEASE_S``; with 0, who leads lets go.

        Raises:
            ValueError: If the name or the seconds are out of bounds.
            StoreError: If the store is out of reach; ``who`` may lead all the same.
        """
        ...

    async def publish(self, epoch: int, standings: Mapping[str, bytes]) -> bool:
        """Publish the states; earlier ones are replaced as a whole.

        An epoch that is newer than any given out is taken, and ends whoever leads: the next lead
        is newer still.

        Args:
            epoch: Under which ``lead`` said one leads; 1 to ``MAX_EPOCH``.
            standings: At most ``MAX_KEYS``, of ``MAX_STATE_BYTES`` bytes each.

        Returns:
            False, and nothing changes, where a newer epoch has begun.

        Raises:
            ValueError: If the epoch or the standings are out of bounds.
            StoreError: If the store is out of reach; it may have been said all the same.
        """
        ...

    async def standings(self) -> tuple[int, Mapping[str, bytes]]:
        """The states published last, and their epoch; 0 and nothing before the first time.

        Raises:
            StoreError: If the store is out of reach.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections, if there are any."""
        ...


class _Lease(NamedTuple):
    who: str
    ends: float


_NOBODY: Final = _Lease("", float("-inf"))


class LocalCounters:
    """Counts and states of this process alone, lost when it ends.

    Args:
        clock: Tells the time, in seconds since 1970.
    """

    is_shared = False

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._slots: dict[int, dict[str, Count]] = {}
        self._epoch = 0
        self._lease = _NOBODY
        self._told: tuple[int, Mapping[str, bytes]] = (0, {})

    async def add(self, increments: Mapping[Cell, Count]) -> None:
        """Add so many good and bad to each key's count in a slot."""
        now = self._clock()
        for (key, number), (good, bad) in nonzero_increments(increments).items():
            if not accepts_slot(number, now):
                continue
            if number not in self._slots:
                self._slots = {
                    each: had for each, had in self._slots.items() if retains_slot(each, now)
                }
            counts = self._slots.setdefault(number, {})
            if key in counts or len(counts) < MAX_KEYS:
                before = counts.get(key, (0, 0))
                counts[key] = (before[0] + good, before[1] + bad)

    async def read(self, keys: Collection[str], first: int, last: int) -> Mapping[Cell, Count]:
        """Reads what was counted in these slots, both ends included."""
        now = self._clock()
        return {
            (key, number): count
            for number in slots_to_read(keys, first, last)
            if number in self._slots and retains_slot(number, now)
            for key in keys
            if (count := self._slots[number].get(key))
        }

    async def lead(self, who: str, seconds: float) -> int | None:
        """The epoch under which ``who`` leads from now on, None where somebody else leads."""
        check_lease(who, seconds)
        now = self._clock()
        if now < self._lease.ends <= now + MAX_LEASE_S:
            if self._lease.who != who:
                return None
        else:
            self._epoch = max(self._epoch + 1, round(now * 1000))
        self._lease = _Lease(who, now + seconds)
        return self._epoch

    async def publish(self, epoch: int, standings: Mapping[str, bytes]) -> bool:
        """Publish the states; earlier ones are replaced as a whole."""
        check_epoch(epoch)
        check_states(standings)
        if epoch < self._epoch:
            return False
        if epoch > self._epoch:
            self._epoch, self._lease = epoch, _NOBODY
        self._told = (epoch, dict(standings))
        return True

    async def standings(self) -> tuple[int, Mapping[str, bytes]]:
        """The states published last, and their epoch; 0 and nothing before the first time."""
        return self._told

    async def aclose(self) -> None:
        """Nothing; there is nothing to let go of."""
