"""A thread that asks the database every few seconds whether what we cache of it has changed.

While the database is away what was known last holds, and ``trouble`` says so.
"""

import logging
import threading
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

_log = logging.getLogger(__name__)

EVERY = 2.0


class Lookout:
    """Looks for changes until it is closed.

    Args:
        what: What is cached, in the plural.
        look: Learns what has changed; may block, and fail for want of the database.
        every: Seconds between two looks.

    Attributes:
        trouble: Why changes are not noticed just now; None while they are.
    """

    def __init__(self, what: str, look: Callable[[], None], *, every: float = EVERY) -> None:
        self._what = what
        self._look = look
        self._every = every
        self.trouble: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tend, name=f"{what} lookout", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(1)  # it may be waiting for a database that is away

    def look(self) -> None:
        """Look now; the thread does this every so often."""
        try:
            self._look()
        except SQLAlchemyError as error:
            what = self._what
            if self.trouble is None:
                _log.warning("changes to %s go unnoticed, the last known hold: %s", what, error)
            self.trouble = f"changes to {what} go unnoticed: the database is away"
        else:
            self.trouble = None

    def _tend(self) -> None:
        while not self._stop.wait(self._every):
            self.look()
