"""Reloads a changed catalog or policies file while calls run: all of it, or nothing.

::

    SIGHUP, or a file changed ─ read both ─ check ─ every part prepares ─┬─ all commit, at once
                                                                         └─ one refuses: all stays

A snapshot that cannot be applied leaves the old one in force. The log names file and line,
``/readyz`` has a note, and ``thriftgate_config_last_reload_successful`` is 0. A half-written file
counts as such: one that became empty, changed while it was read, or is a catalog without any of
the operator's own models. Running calls keep the catalog that they began with. Counters outlive
every snapshot.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.configuration import (
    POLL_S,
    FileStamps,
    Prepare,
    Snapshot,
    count_policies,
    file_stamps,
    read_snapshot,
)
from proxy.errors import OperatorError
from proxy.records.amounts import quantity
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.sql.startup import run_in_daemon_thread
from slo.policies.file import Policies
from slo.toml.problems import InvalidFile

_log = logging.getLogger("thriftgate.reload")

T = TypeVar("T")

#: Seconds after which files that are still being read have failed.
_READ_TIMEOUT_S: Final = 45.0
#: Seconds that a reload waits for a look at the files under way.
_LOOK_WAIT_S: Final = 3.0
#: Seconds after which operators are told of a reload under way.
_LONG_S: Final = 5.0
_RUNNING: Final = "A reload has been running for %.0f s; what is in force stays meanwhile"
_STUCK: Final = f"reading the files takes longer than {_READ_TIMEOUT_S:.0f} s; is their disk away?"
_RESTART: Final = "restart if that is meant"


#: Stamps of the files, and the overlay's revision.
_Stamp: TypeAlias = tuple[FileStamps, Hashable]


class SnapshotOverlay(Protocol):
    """Adds to each snapshot of the files what stands elsewhere."""

    def revision(self) -> Hashable:
        """A value that differs after each change of it; blocks."""
        ...

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot of the files with it; blocks."""
        ...


class Overlays:
    """Several overlays, one over the other; None among them adds nothing."""

    def __init__(self, overlays: Iterable[SnapshotOverlay | None]) -> None:
        self._overlays = [overlay for overlay in overlays if overlay is not None]

    def revision(self) -> Hashable:
        """A value that differs after each change of one; blocks."""
        return tuple(overlay.revision() for overlay in self._overlays)

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with all of them; blocks."""
        for overlay in self._overlays:
            snapshot = overlay.add_to(snapshot)
        return snapshot


class Reloader(Collector):
    """Keeps the snapshot in force.

    Args:
        settings: They name the files.
        snapshot: Catalog and policies at start.
        now: Seconds since the epoch.
        overlay: Adds what does not stand in the files; None for nothing.

    Attributes:
        settings: They name the files.
        snapshot: Catalog and policies in force.
    """

    def __init__(
        self,
        settings: Settings,
        snapshot: Snapshot,
        now: Callable[[], float],
        overlay: SnapshotOverlay | None = None,
    ) -> None:
        self._overlay = overlay
        self._of_files = snapshot
        self.snapshot = snapshot if overlay is None else overlay.add_to(snapshot)
        self.settings = settings
        self._now = now
        named = (settings.catalog, settings.policies, settings.engines)
        self._files = [file for file in named if file is not None]
        self._stamp: _Stamp | None = (stamp := self._read_stamp())
        self._revision = stamp[1]  # of the overlay in force
        self._sizes = _sizes(stamp[0])
        self._reading: asyncio.Future[Any] | None = None
        self._rooms: list[Prepare] = []
        self._requested = asyncio.Event()
        self._turn = asyncio.Lock()
        self._trouble = self._overlay_trouble = ""
        self._began: float | None = None  # the reload under way
        self._succeeded = now()
        self._counts = {"success": 0, "failure": 0}

    @property
    def file_policies(self) -> Policies:
        """The policies of the file alone."""
        return self._of_files.policies

    @property
    def file_budgets(self) -> frozenset[str]:
        """Names of the budgets in the policies file."""
        return frozenset(budget.name for budget in self._of_files.policies.budgets)

    def follow(self, prepare: Prepare) -> None:
        """Register a part of the gateway that adopts new snapshots; they are asked in order."""
        self._rooms.append(prepare)

    def request(self) -> None:
        """Reload soon, whether or not a file changed; on the event loop."""
        self._requested.set()

    def notes(self) -> Sequence[str]:
        """Notes for an operator: that a reload takes long, that the last one failed, and why."""
        trouble = [why for why in (self._trouble, self._overlay_trouble) if why]
        if self._began is None or (took := self._now() - self._began) <= _LONG_S:
            return trouble
        return [_RUNNING % took, *(f"Of the reload before it: {why}" for why in trouble)]

    async def run(self) -> None:
        """Reload when asked, and when a file has changed, until cancelled."""
        before = self._stamp
        while True:
            try:
                async with asyncio.timeout(POLL_S):
                    await self._requested.wait()
            except TimeoutError:
                stamp = await self._try_read_stamp()
                is_settled, before = stamp == before, stamp
                if stamp is None or not is_settled or stamp == self._stamp:
                    continue
                if self._stamp is not None and stamp[0] == self._stamp[0]:
                    await self.adopt_overlay()
                    continue
            self._requested.clear()
            await self.reload()

    async def _try_read_stamp(self) -> _Stamp | None:
        """The present stamp; None, and why is noted, where it cannot be read."""
        try:
            return await self._run_blocking(self._read_stamp)
        except Exception as error:  # noqa: BLE001 - whatever it is, later looks go on
            self._stamp = None
            if (why := _reason(error)) not in self._trouble:
                self._trouble = self._note_failure(why)
            return None

    async def reload(self) -> bool:
        """Read both files and adopt them, or log why the present snapshot stays."""
        async with self._turn:
            self._began = self._now()
            late = asyncio.get_running_loop().call_later(_LONG_S, _log.warning, _RUNNING, _LONG_S)
            try:
                return await self._reload()
            finally:
                self._began = None
                late.cancel()

    async def adopt_overlay(self) -> bool:
        """Adopt the overlay as it is now over the files in force, whatever became of the files."""
        async with self._turn:
            try:
                _, revision = await self._run_blocking(self._read_stamp)
                if self._stamp is not None:
                    self._stamp = self._stamp[0], revision
                snapshot = await self._run_blocking(partial(self._overlay_on, self._of_files))
                await self._commit(snapshot)
            except Exception as error:  # noqa: BLE001 - whatever it is, the snapshot in force stays
                self._overlay_trouble = self._note_failure(_reason(error))
                return False
            self._revision, self._overlay_trouble = revision, ""
        return True

    async def _reload(self) -> bool:
        try:
            stamp = await self._run_blocking(self._read_stamp)
            self._stamp = stamp[0], self._revision
            sizes = _sizes(stamp[0])
            of_files, snapshot = await self._run_blocking(self._read_snapshot)
            self._refuse_loss(sizes, snapshot)
            await self._commit(snapshot)
        except Exception as error:  # noqa: BLE001 - whatever it is, the snapshot in force stays
            self._trouble = self._note_failure(_reason(error))
            return False
        self._of_files, self._sizes = of_files, sizes
        self._stamp, self._revision = stamp, stamp[1]
        self._trouble = self._overlay_trouble = ""
        self._succeeded = self._now()
        self._counts["success"] += 1
        count = quantity(len(snapshot.catalog.models), "model")
        _log.info("Reloaded: %s, %s", count, count_policies(snapshot.policies))
        return True

    async def _commit(self, snapshot: Snapshot) -> None:
        """Have every part get ready for a snapshot, and then all adopt it."""
        commits = [await prepare(snapshot) for prepare in self._rooms]
        for commit in commits:
            commit()
        self.snapshot = snapshot

    async def _run_blocking(self, work: Callable[[], T]) -> T:
        """The result of work in a thread that neither a stop nor a later look waits for.

        Raises:
            OperatorError: It takes too long, or what began before it has not ended yet.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_WAIT_S):
                while self._reading is not None and not self._reading.done():
                    await asyncio.wait({self._reading})
        if self._reading is None or self._reading.done():
            self._reading = reading = run_in_daemon_thread(work)
            await asyncio.wait({reading}, timeout=_READ_TIMEOUT_S)
            if reading.done():
                return reading.result()
        self._stamp = None  # so that they are read once that works
        raise OperatorError(_STUCK)

    def _refuse_loss(self, sizes: Sequence[int], snapshot: Snapshot) -> None:
        """Refuse what a file that was emptied, or written in part, would take away.

        Raises:
            OperatorError: With the reason.
        """
        for file, size, size_in_force in zip(self._files, sizes, self._sizes, strict=True):
            if not size and size_in_force:
                raise OperatorError(f"{file} is empty; {_RESTART}")
        lost = self.snapshot.catalog.own
        if lost and not snapshot.catalog.own:
            models = quantity(len(lost), "model")
            raise OperatorError(f"they take away all your own models ({models}); {_RESTART}")

    def _read_stamp(self) -> _Stamp:
        """A value that differs after each change of the files or the overlay; blocks."""
        revision = None if self._overlay is None else self._overlay.revision()
        return file_stamps(self._files), revision

    def _read_snapshot(self) -> tuple[Snapshot, Snapshot]:
        """The snapshot of the files, and the same with the overlay; blocks."""
        before = file_stamps(self._files)
        snapshot = read_snapshot(self.settings)
        if file_stamps(self._files) != before:
            raise OperatorError("a file changed while it was read; it is read again")
        return snapshot, self._overlay_on(snapshot)

    def _overlay_on(self, snapshot: Snapshot) -> Snapshot:
        return snapshot if self._overlay is None else self._overlay.add_to(snapshot)

    def _note_failure(self, why: str) -> str:
        """Count and log a failure; returns the note on it for operators."""
        self._counts["failure"] += 1
        note = f"The catalog and policies in force stay, because the new ones fail: {why}"
        _log.error("%s", note)
        return note

    def collect(self) -> Iterator[Metric]:
        """Metrics of reloads, as Prometheus' own types."""
        yield GaugeMetricFamily(
            "thriftgate_config_last_reload_successful",
            "1 if the catalog and policies in force are those of the files when last read, else 0",
            value=0.0 if self._trouble or self._overlay_trouble else 1.0,
        )
        yield GaugeMetricFamily(
            "thriftgate_config_last_reload_success_timestamp_seconds",
            "When the catalog and policies in force were read",
            value=self._succeeded,
        )
        reloads = CounterMetricFamily(
            "thriftgate_config_reloads", "Reloads by result", labels=["result"]
        )
        for result, count in self._counts.items():
            reloads.add_metric([result], count)
        yield reloads


def _sizes(stamps: FileStamps) -> list[int]:
    """The size of each file in bytes; 0 for one that is not there."""
    return [0 if stamp is None else stamp[1] for stamp in stamps]


def _reason(error: Exception) -> str:
    """The reason of a failure, for an operator; an unexpected one is logged with its place."""
    if isinstance(error, InvalidFile | OperatorError | StoreError | OSError):
        return str(error)
    _log.error("Reloading failed unexpectedly", exc_info=error)
    return f"{type(error).__name__}: {error}"
