"""A thread that polls the database every few seconds for changes of cached rows.

While the database is away, or holds what this version cannot read, the last known rows stay valid
and ``trouble`` says so. A bug of ours ends the thread, and ``trouble`` says so from then on.
"""

import logging
import threading
from collections.abc import Callable

import msgspec

from proxy.store.errors import StoreError

_log = logging.getLogger(__name__)

POLL_INTERVAL_S = 2.0


class ChangePoller:
    """Looks for changes until it is closed.

    Args:
        what: Name of what is cached, in the plural.
        look: Learns what has changed; may block, and fail for want of the database or for what it
            finds there.
        every: Seconds between two looks.

    Attributes:
        trouble: Reason that changes are not noticed just now; None while they are.
    """

    def __init__(
        self, what: str, look: Callable[[], None], *, every: float = POLL_INTERVAL_S
    ) -> None:
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

    def poll(self) -> None:
        """Look now; the thread does this every so often."""
        try:
            self._look()
        except StoreError as error:
            self._miss("the database cannot be reached", error)
        except (ValueError, msgspec.DecodeError) as error:
            self._miss("a row cannot be read", error)
        else:
            self.trouble = None

    def _miss(self, why: str, error: Exception) -> None:
        """Note that changes go unnoticed; logged once for each reason."""
        trouble = f"changes to {self._what} go unnoticed: {why}"
        if trouble != self.trouble:
            _log.warning("%s, the last known hold: %s", trouble, error)
        self.trouble = trouble

    def _tend(self) -> None:
        try:
            while not self._stop.wait(self._every):
                self.poll()
        finally:
            if not self._stop.is_set():
                self.trouble = f"changes to {self._what} go unnoticed: looking for them failed"
                _log.critical("%s, the last known hold until this process ends", self.trouble)
