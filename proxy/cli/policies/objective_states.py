"""The states of objectives, as gateways publish them through Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from proxy.cli.columns import TableColumn
from slo.alert import format_time

if TYPE_CHECKING:
    from proxy.cli.terminal import Terminal
    from proxy.services.objectives.objective_state import PublishedState
    from proxy.settings import Settings
    from proxy.store.store import Store
    from slo.objectives.objective import Objective

#: Seconds after which what was said last is old: gateways say it every second.
_STALE_AFTER_S: Final = 30.0


class ObjectiveStates(NamedTuple):
    """The published states of objectives."""

    published: Mapping[str, PublishedState] = MappingProxyType({})
    notes: tuple[str, ...] = ()

    def columns(self) -> tuple[TableColumn[Objective], ...]:
        """Columns of an objective's state, level, since when, why, and late stage; ? if unknown."""
        return (
            TableColumn("status", of=lambda objective: self._document(objective.name)),
            *(
                TableColumn("", title, of=partial(self._text, field=field, unknown=unknown))
                for title, field, unknown in (
                    ("state", "state", "?"),
                    ("level", "level", "?"),
                    ("since", "since", "?"),
                    ("reason", "reason", ""),
                    ("late stage", "stage", ""),
                )
                if self.published
            ),
        )

    def _text(self, objective: Objective, field: str, unknown: str) -> str:
        document = self._document(objective.name)
        if document is None:
            return unknown
        value = document[field]
        if field == "since":
            return "" if value is None else format_time(value)
        return str(value)

    def _document(self, objective: str) -> dict[str, Any] | None:
        """A state, times in seconds since the epoch; None where it is not known."""
        from proxy.services.objectives.objective_state import shown_state

        published = self.published.get(objective)
        if published is None:
            return None
        shown = shown_state(published.snapshot, published.miss)
        return {
            "state": shown.name,
            "level": shown.level,
            "since": shown.since,
            "reason": shown.reason,
            "stage": published.stage,
            "at": published.at,
        }


def load_objective_states(
    terminal: Terminal, settings: Settings, objectives: Iterable[str]
) -> ObjectiveStates:
    """Read the states that gateways published last; none where they do not share Redis."""
    if not settings.redis_url:
        note = (
            "Where each stands is known to the gateway alone: its /metrics has"
            " thriftgate_objective_state and _level. With THRIFTGATE_REDIS_URL it is shown here."
        )
        return ObjectiveStates(notes=(note,))
    with terminal.store() as store:
        from proxy.store.errors import StoreError

        try:
            documents = asyncio.run(_published_states(settings, store, terminal.now()))
        except StoreError as error:
            return ObjectiveStates(notes=(f"Where each stands is not known: {error}",))
    states = {
        name: state
        for name in objectives
        if (state := _decode_state(documents.get(name))) is not None
    }
    last = max((state.at for state in states.values()), default=None)
    if last is None:
        return ObjectiveStates(notes=("No gateway has reported their state yet.",))
    if terminal.now() - last > _STALE_AFTER_S:
        return ObjectiveStates(states, (f"No gateway has reported since {format_time(last)}.",))
    return ObjectiveStates(states)


async def _published_states(settings: Settings, opened: Store, now: float) -> Mapping[str, bytes]:
    from proxy.services.objectives.setup import open_objective_counters

    shared = open_objective_counters(settings, opened, lambda: now)
    try:
        return (await shared.snapshots())[1]
    finally:
        await shared.aclose()


def _decode_state(document: bytes | None) -> PublishedState | None:
    """Decode a published state; None for nothing, or for that of another version."""
    from proxy.services.objectives.objective_state import PublishedState

    try:
        return None if document is None else msgspec.json.decode(document, type=PublishedState)
    except msgspec.DecodeError:
        return None
