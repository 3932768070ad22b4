"""The shared state of objectives, kept within one process.

Every replica adds its counts. One replica leads, as long as it renews its lease: it judges all
counts and publishes the states, which the others read. A leader that was paused may not know that
another one leads now. So each leadership has an epoch, and states of an older epoch are refused.

``LocalCounters`` keeps it in this process, for a gateway that has no other beside it.
``RedisCounters`` (``proxy.store.redis.objective_store``) keeps it in Redis for all.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from proxy.store.ports import Cell, Count
from proxy.store.redis.objective_state import (
    MAX_KEYS,
    MAX_LEASE_S,
    accepts_slot,
    check_epoch,
    check_lease,
    check_states,
    nonzero_increments,
    retains_slot,
    slots_to_read,
)


class _Lease(NamedTuple):
    who: str
    ends: float


_NOBODY: Final = _Lease("", float("-inf"))


class LocalCounters:
    """Counts and states of this process alone, lost when it ends."""

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
                    slot: had for slot, had in self._slots.items() if retains_slot(slot, now)
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

    async def publish(self, epoch: int, snapshots: Mapping[str, bytes]) -> bool:
        """Publish the states; earlier ones are replaced as a whole."""
        check_epoch(epoch)
        check_states(snapshots)
        if epoch < self._epoch:
            return False
        if epoch > self._epoch:
            self._epoch, self._lease = epoch, _NOBODY
        self._told = (epoch, dict(snapshots))
        return True

    async def snapshots(self) -> tuple[int, Mapping[str, bytes]]:
        """The states published last, and their epoch; 0 and nothing before the first time."""
        return self._told

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""
