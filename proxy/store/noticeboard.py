"""What holds for every feature, in memory, at most some seconds old.

A thread asks every two seconds whether anything has changed. While the database is away what was
known last holds, and ``trouble`` says so.
"""

import logging
import threading

from sqlalchemy.exc import SQLAlchemyError

from proxy.prefix.standing import Standings
from proxy.store.layouts import Layouts

_log = logging.getLogger(__name__)

_EVERY = 2.0


class Noticeboard:
    """The standings of one database, cached.

    Attributes:
        standings: What holds; replaced whole, so whoever holds one sees it unchanged.
    """

    def __init__(self, layouts: Layouts, *, every: float = _EVERY) -> None:
        self._layouts = layouts
        self._every = every
        self.standings = Standings()
        self._trouble: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tend, name="noticeboard", daemon=True)

    def start(self) -> None:
        """Learn what holds, and watch it change."""
        self.standings = self._layouts.standings()
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(1)  # it may be waiting for a database that is away

    @property
    def trouble(self) -> str | None:
        """Why changes to layouts are not noticed just now; None while they are."""
        return self._trouble

    def refresh(self) -> None:
        """Learn what has changed; the thread does this every two seconds."""
        try:
            if self._layouts.changes() != self.standings.changes:
                self.standings = self._layouts.standings()
        except SQLAlchemyError as error:
            if self._trouble is None:
                _log.warning("changes to layouts go unnoticed, the last known hold: %s", error)
            self._trouble = "changes to layouts go unnoticed: the database is away"
        else:
            self._trouble = None

    def _tend(self) -> None:
        while not self._stop.wait(self._every):
            self.refresh()
