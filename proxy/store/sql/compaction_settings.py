"""Caches the compaction settings of all features in memory, at most some seconds old."""

from proxy.records.compaction_settings import SettingsSnapshot
from proxy.store.sql.change_poller import POLL_INTERVAL_S, ChangePoller
from proxy.store.sql.compactions import Compactions


class CompactionSettingsCache:
    """The settings of one database, cached.

    Attributes:
        chosen: What holds; replaced whole, so whoever holds one sees it unchanged.
    """

    def __init__(self, compactions: Compactions, *, every: float = POLL_INTERVAL_S) -> None:
        self._compactions = compactions
        self.chosen = SettingsSnapshot()
        self._lookout = ChangePoller("compactions", self._read_change_count, every=every)

    def start(self) -> None:
        """Learn what holds, and watch it change."""
        self.chosen = self._compactions.all_settings()
        self.watch()

    def watch(self) -> None:
        """Watch what holds change; what is known of it may be out of date."""
        self._lookout.start()

    def close(self) -> None:
        """Stop watching."""
        self._lookout.close()

    @property
    def trouble(self) -> str | None:
        """Why changes are not noticed just now; None while they are."""
        return self._lookout.trouble

    def refresh(self) -> None:
        """Learn what has changed; the thread does this every two seconds."""
        self._lookout.poll()

    def _read_change_count(self) -> None:
        if self._compactions.changes() != self.chosen.changes:
            self.chosen = self._compactions.all_settings()
