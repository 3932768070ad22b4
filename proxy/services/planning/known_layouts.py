"""Layouts at hand in one process: those that hold, and those that conversations began with."""

import asyncio
import logging
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from proxy.prefix.layouts.layout import Layout, read_layout
from proxy.records.feature_mode import LayoutScope
from proxy.store.store import Store

_log = logging.getLogger("thriftgate.planning")

#: Seconds the store has to say what a layout is.
_STORE_DEADLINE_S: Final = 0.25
#: Layouts remembered.
_MAX_LAYOUTS: Final = 1_024


class KnownLayouts:
    """The layouts of one process; what was read of the store once is not read again.

    Args:
        store: Store of the layouts.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._moves: dict[tuple[LayoutScope, int], str] = {}

    def __len__(self) -> int:
        return len(self._moves)

    def has(self, where: LayoutScope, version: int) -> bool:
        """True if this version is at hand; 0 always is, for it moves nothing."""
        at = (where, version)
        return not version or at in self._moves or at in self._store.board.current.moves

    async def fetch(self, where: LayoutScope, version: int) -> None:
        """Have at hand a layout that holds no more, but for conversations that began with it."""
        if self.has(where, version):
            return
        try:
            async with asyncio.timeout(_STORE_DEADLINE_S):
                every = await self._store.ask(self._store.layouts.proposals, where)
        except (TimeoutError, SQLAlchemyError) as error:
            _log.warning("A layout could not be read: %s", error)
            return
        found = next((each.moves for each in every if each.version == version), "")
        self._remember((where, version), found)

    def layout(self, where: LayoutScope, version: int) -> Layout | None:
        """The layout of this version; None where there is none any more."""
        if not version:
            return None
        at = (where, version)
        held = self._store.board.current.moves.get(at)
        if held is not None:
            self._remember(at, held)
        return read_layout(self._moves.get(at, ""))

    def _remember(self, at: tuple[LayoutScope, int], moves: str) -> None:
        if len(self._moves) > _MAX_LAYOUTS:
            self._moves.clear()
        self._moves[at] = moves
