"""Caches the settings of all features' layouts and compaction, at most some seconds old."""

import logging
import shlex
from collections.abc import Iterator

import msgspec

from proxy.prefix.layouts.layout import Layout
from proxy.records.compaction_settings import SettingsSnapshot
from proxy.records.feature_mode import FeatureStates, LayoutScope
from proxy.store.sql.change_poller import POLL_INTERVAL_S, ChangePoller
from proxy.store.sql.compactions import Compactions
from proxy.store.sql.layout_rows import UNKNOWN_MODE
from proxy.store.sql.layouts import Layouts

_log = logging.getLogger("thriftgate.layouts")


class LayoutSettingsCache:
    """The standings of one database, cached.

    Attributes:
        standings: What holds; replaced whole, so whoever holds one sees it unchanged.
    """

    def __init__(self, layouts: Layouts, *, every: float = POLL_INTERVAL_S) -> None:
        self._layouts = layouts
        self.standings = FeatureStates()
        self._lookout = ChangePoller("layouts", self._read_change_count, every=every)

    def start(self) -> None:
        """Learn what holds, and watch it change."""
        self._learn()
        self.watch()

    def watch(self) -> None:
        """Watch what holds change; what is known of it may be out of date."""
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
        self._lookout.poll()

    def _read_change_count(self) -> None:
        if self._layouts.changes() != self.standings.changes:
            self._learn()

    def _learn(self) -> None:
        """Read the settings; those that cannot be read are logged.

        A place whose mode cannot be read keeps what was last known of it, if anything.
        """
        found, known = self._layouts.standings(), self.standings.places
        for flaw in _problems(found):
            _log.error("%s", flaw)
        places = {
            place: known.get(place, each) if each.suspended == UNKNOWN_MODE else each
            for place, each in found.places.items()
        }
        self.standings = msgspec.structs.replace(found, places=places)


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


def _problems(standings: FeatureStates) -> Iterator[str]:
    """Rows that no version of ours would have written, each with the command that fixes it."""
    for place, standing in standings.places.items():
        if standing.suspended == UNKNOWN_MODE:
            yield (
                f"The mode of {_place_name(place)} cannot be read: {UNKNOWN_MODE}. What was known"
                " of it before holds; where nothing was, its prompts go unmodified."
                f" To choose a mode: {_command('mode', place, 'observe')}"
            )
    for (place, version), moves in standings.moves.items():
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
