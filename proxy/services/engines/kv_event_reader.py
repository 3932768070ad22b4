"""Reads the KV events of replicas, so that routing knows what their caches hold.

It fails open: while a replica's events do not come, cannot be read or fall silent beside calls,
its index is absent and the guess of its cache counts.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from proxy.calls.ports import BackgroundTaskGroup
from proxy.catalog.engine_layer import replica_upstream
from proxy.engines.profiles import EngineProfile
from proxy.engines.routing.kv_event_messages import decode_message
from proxy.engines.routing.kv_events import KvEventIndex
from proxy.services.engines.replica_monitor import ReplicaMonitor
from proxy.upstream.zmq_subscriber import Subscription

_log = logging.getLogger("thriftgate.engines")

#: Seconds without an event after which a replica that read prompts meanwhile is not believed.
SILENCE_S: Final = 20.0
#: Seconds before a subscription begins anew: twice as many each time, up to the second.
_PAUSES_S: Final = (1.0, 30.0)
#: Messages from this size on are decoded on a thread.
_MIN_THREADED_BYTES: Final = 64 * 1024
#: Blocks of a replica whose engine does not say its room, and tokens of a block for that.
_MAX_BLOCKS: Final = 1_000_000
_LEAST_BLOCK_TOKENS: Final = 16

Subscribe = Callable[[str], AbstractAsyncContextManager[Subscription]]


class KvEventReader:
    """Keeps an index for each replica whose profile names where its events are published.

    Args:
        subscribe: Opens subscriptions.
    """

    def __init__(
        self, monitor: ReplicaMonitor, tasks: BackgroundTaskGroup, subscribe: Subscribe
    ) -> None:
        self._monitor = monitor
        self._tasks = tasks
        self._subscribe = subscribe
        self._addresses: dict[str, tuple[str, str]] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._indexes: dict[str, KvEventIndex] = {}
        self._told: set[str] = set()

    def update(self, profiles: Mapping[str, EngineProfile]) -> None:
        """Read the events of these profiles' replicas from now on."""
        addresses = {
            replica_upstream(profile.name, number): (profile.served_name, address)
            for profile in profiles.values()
            for number, address in enumerate(profile.kv_events)
        }
        gone = [name for name, where in self._addresses.items() if addresses.get(name) != where]
        self._tasks.end(*(self._readers.pop(name) for name in gone))
        for name in gone:
            self._indexes.pop(name, None)
        for name in addresses.keys() - self._readers.keys():
            self._readers[name] = self._start(name, *addresses[name])
        self._addresses = addresses

    def index(self, name: str) -> KvEventIndex | None:
        """The blocks that a replica holds; None while that is not known by its events."""
        return self._indexes.get(name)

    def close(self) -> None:
        """Read no more."""
        self._tasks.end(*self._readers.values())

    def _start(self, name: str, model: str, address: str) -> asyncio.Task[None]:
        return self._tasks.keep(lambda: self._read_for_ever(name, model, address))

    async def _read_for_ever(self, name: str, model: str, address: str) -> None:
        pause, longest = _PAUSES_S
        while True:
            try:
                async with self._subscribe(address) as events:
                    await self._read(name, model, events)
                pause = _PAUSES_S[0]
            except (OSError, ValueError) as error:
                if name not in self._told:
                    self._told.add(name)
                    _log.warning("KV events of %s are not read: %s", name, error)
            self._indexes.pop(name, None)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _read(self, name: str, model: str, events: Subscription) -> None:
        """Apply events until they fall silent beside calls.

        Raises:
            ValueError: If a message cannot be read.
        """
        index: KvEventIndex | None = None
        while True:
            before = self._prompt_tokens(name)
            try:
                async with asyncio.timeout(SILENCE_S):
                    parts = await events.receive()
            except TimeoutError:
                if self._prompt_tokens(name) > before:
                    return
                continue
            if sum(map(len, parts)) < _MIN_THREADED_BYTES:
                sequence, batch = decode_message(parts)
            else:
                sequence, batch = await asyncio.to_thread(decode_message, parts)
            if index is None:
                index = KvEventIndex(model, self._room(name))
            index.apply(sequence, batch)
            self._indexes[name] = index
            self._told.discard(name)

    def _prompt_tokens(self, name: str) -> float:
        """Prompt tokens that the replica has read by its page; calls must have left events."""
        status = self._monitor.status(name)
        metrics = status.metrics if status is not None else None
        return metrics.values.get("prompt_tokens", 0.0) if metrics is not None else 0.0

    def _room(self, name: str) -> int:
        status = self._monitor.status(name)
        tokens = status.cache_tokens if status is not None else None
        return tokens // _LEAST_BLOCK_TOKENS if tokens else _MAX_BLOCKS
