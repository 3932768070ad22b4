"""What holds for every feature, in memory, at most some seconds old."""

from proxy.prefix.standing import Standings
from proxy.store.layouts import Layouts
from proxy.store.lookout import EVERY, Lookout


class Noticeboard:
    """The standings of one database, cached.

    Attributes:
        standings: What holds; replaced whole, so whoever holds one sees it unchanged.
    """

    def __init__(self, layouts: Layouts, *, every: float = EVERY) -> None:
        self._layouts = layouts
        self.standings = Standings()
        self._lookout = Lookout("layouts", self._changed, every=every)

    def start(self) -> None:
        """Learn what holds, and watch it change."""
        self.standings = self._layouts.standings()
        self._lookout.start()

    def close(self) -> None:
        """Stop watching."""
        self._lookout.close()

    @property
    def trouble(self) -> str | None:
        """Why changes to layouts are not noticed just now; None while they are."""
        return self._lookout.trouble

    def refresh(self) -> None:
        """Learn what has changed; the thread does this every two seconds."""
        self._lookout.look()

    def _changed(self) -> None:
        if self._layouts.changes() != self.standings.changes:
            self.standings = self._layouts.standings()
