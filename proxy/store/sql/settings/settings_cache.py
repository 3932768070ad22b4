"""Caches the settings of all features in memory, at most some seconds old."""

import logging
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar

import msgspec

from proxy.prefix.layouts.layout import Layout
from proxy.records.compaction_settings import SettingsSnapshot
from proxy.records.feature_mode import FeatureStates, LayoutScope
from proxy.store.sql.change_poller import POLL_INTERVAL_S, ChangePoller
from proxy.store.sql.settings.compactions import Compactions
from proxy.store.sql.settings.layout_rows import UNKNOWN_MODE
from proxy.store.sql.settings.layouts import Layouts

_log = logging.getLogger("thriftgate.layouts")


class _Counted(Protocol):
    """Settings that know how often they had been changed when they were read."""

    @property
    def changes(self) -> int: ...


_SettingsT = TypeVar("_SettingsT", bound=_Counted)


class SettingsCache(Generic[_SettingsT]):
    """One kind of settings of one database, cached.

    Args:
        what: Name of what is cached, in the plural.
        unset: Value until the first read.
        count_changes: Returns the number of changes of the settings; may block.
        read: Reads them, given those known before; may block.

    Attributes:
        current: Current value; replaced whole, so a reader of one sees it unchanged.
    """

    def __init__(
        self,
        what: str,
        unset: _SettingsT,
        *,
        count_changes: Callable[[], int],
        read: Callable[[_SettingsT], _SettingsT],
        every: float = POLL_INTERVAL_S,
    ) -> None:
        self._count_changes = count_changes
        self._read = read
        self.current = unset
        self._lookout = ChangePoller(what, self._read_changes, every=every)
        self.watch, self.close = self._lookout.start, self._lookout.close
        self.refresh = self._lookout.poll  # which its thread does every two seconds, too

    def start(self) -> None:
        """Learn what holds, and watch it change."""
        self.current = self._read(self.current)
        self.watch()

    @property
    def trouble(self) -> str | None:
        """Reason that changes are not noticed just now; None while they are."""
        return self._lookout.trouble

    def _read_changes(self) -> None:
        if self._count_changes() != self.current.changes:
            self.current = self._read(self.current)


def layout_settings(
    layouts: Layouts, *, every: float = POLL_INTERVAL_S
) -> SettingsCache[FeatureStates]:
    """The cache of features' modes and layouts."""
    return SettingsCache(
        "layouts",
        FeatureStates(),
        count_changes=layouts.changes,
        read=partial(_read_layouts, layouts),
        every=every,
    )


def compaction_settings(
    compactions: Compactions, *, every: float = POLL_INTERVAL_S
) -> SettingsCache[SettingsSnapshot]:
    """The cache of features' compaction modes."""
    return SettingsCache(
        "compactions",
        SettingsSnapshot(),
        count_changes=compactions.changes,
        read=lambda _: compactions.all_settings(),
        every=every,
    )


def _read_layouts(layouts: Layouts, before: FeatureStates) -> FeatureStates:
    """Read the layout settings; those that cannot be read are logged.

    A place whose mode cannot be read keeps what was last known of it, if anything.
    """
    states, earlier = layouts.states(), before.places
    for flaw in _problems(states):
        _log.error("%s", flaw)
    places = {
        place: earlier.get(place, state) if state.suspended == UNKNOWN_MODE else state
        for place, state in states.places.items()
    }
    return msgspec.structs.replace(states, places=places)


def _problems(states: FeatureStates) -> Iterator[str]:
    """Rows that no version of ours would have written, each with the command that fixes it."""
    for place, state in states.places.items():
        if state.suspended == UNKNOWN_MODE:
            yield (
                f"The mode of {_place_name(place)} cannot be read: {UNKNOWN_MODE}. What was known"
                " of it before holds; where nothing was, its prompts go unmodified."
                f" To choose a mode: {_command('mode', place, 'observe')}"
            )
    for (place, version), moves in states.moves.items():
        try:
            msgspec.json.decode(moves, type=Layout)
        except msgspec.DecodeError:
            yield (
                f"Layout {version} of {_place_name(place)} moves no text: what the database holds"
                f" of it cannot be read. To be rid of it: {_command('rollback', place)}"
            )


def _place_name(place: LayoutScope) -> str:
    family = f" on {place.family}" if place.family else ""
    return f"feature {place.feature!r} of team {place.team}{family}"


def _command(verb: str, place: LayoutScope, *words: str) -> str:
    family = ("--family", place.family) if place.family else ()
    return shlex.join(("thriftgate", "layout", verb, place.team, place.feature, *words, *family))
