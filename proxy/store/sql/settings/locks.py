"""Database locks: on a feature while it is changed, and on a database for one process alone.

Changes of one feature take turns. A decision applies to conversations that begin
``APPROVAL_DELAY_S`` seconds later, when every process has read it. A suspension applies as soon as
a process has read it.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, or_, select, text
from sqlalchemy.exc import SQLAlchemyError

from proxy.prefix.layouts.layout import read_layout
from proxy.prefix.lessons import is_worth_replacing
from proxy.records.feature_mode import FeatureState, FeatureStates, LayoutScope, PlanningMode
from proxy.store.errors import translated_errors
from proxy.store.sql import schema
from proxy.store.sql.settings import layout_rows as rows
from proxy.store.sql.settings.layout_rows import ProposalState

APPROVAL_DELAY_S: Final = 5.0
"""Seconds until what was decided holds; processes look every two."""

GUARD: Final = "guard"
"""Name of the harm guard where it decides."""

_MEASURED_FOR_S = 86_400.0  # seconds a layout is measured before another takes its place by itself
#: Names the lock among the database's advisory locks, with the schema; any number of 32 bits.
_LOCK_NUMBER: Final = 743_301_924
_TAKE: Final = text("SELECT pg_try_advisory_lock(:lock, hashtext(current_schema()))")
_LEAVE: Final = text("SELECT pg_advisory_unlock(:lock, hashtext(current_schema()))")


class LockedSettings:
    """A place that nobody else decides about until the transaction ends.

    Attributes:
        own: Decision about this very scope when it was locked.
        state: The same with what held for all of its feature; its mode is never None.
    """

    def __init__(self, connection: Connection, place: LayoutScope, mode: PlanningMode) -> None:
        self._connection = connection
        self._place = place
        self._mode = mode
        self.own = rows.lock_settings(connection, place)
        self.state = self._feature_state()

    def is_open(self, moves: str, now: float) -> bool:
        """True if a proposal for the place needs nobody to approve it."""
        if self.state.mode is not PlanningMode.AUTO or self.state.suspended:
            return False
        if now - self.own.active_from >= _MEASURED_FOR_S:
            return True
        if self.own.changed_by == GUARD:
            return False
        if not self.own.version:
            return not self.own.former  # one that a person rolled back held a moment ago
        newer = read_layout(moves)
        return newer is not None and is_worth_replacing(newer)

    def approve(self, version: int, by: str, now: float) -> FeatureState:
        """Approves the version and returns what holds; a place that only observed now applies.

        Raises:
            ValueError: There is no such version.
        """
        approved = rows.find_proposal(self._connection, self._place, version)
        observes = self.state.mode is PlanningMode.OBSERVE
        replaced = (self.own.mode or "") if observes else None
        if version == self.own.version and replaced is None:
            replaced = approved.mode_before
        self._judge(version, ProposalState.APPROVED, by, now, replaced)
        mode = {"mode": PlanningMode.APPLY.value} if observes else {}
        return self.decide(by, now, version=version, **mode)

    def rollback(self, by: str, now: float) -> FeatureState:
        """Rolls the layout back to the one approved before it, or none; returns what holds.

        The mode that approving it replaced comes back, unless somebody chose another since.

        Raises:
            ValueError: There is no layout to roll back.
        """
        if not self.own.version:
            raise ValueError("no layout is approved there, so there is none to roll back")
        replaced = rows.find_proposal(self._connection, self._place, self.own.version).mode_before
        self._judge(self.own.version, ProposalState.ROLLED_BACK, by, now)
        before = rows.last_approved(self._connection, self._place)
        is_restored = replaced is not None and self.own.mode is PlanningMode.APPLY
        mode = {"mode": replaced} if is_restored else {}
        return self.decide(by, now, version=before, **mode)

    def choose_mode(self, mode: PlanningMode, by: str, now: float) -> FeatureState:
        """Sets the mode that a person chose, and returns what holds."""
        rows.forget_replaced_modes(self._connection, self._place)
        return self.decide(by, now, mode=mode.value)

    def decide(self, by: str, now: float, **values: object) -> FeatureState:
        """Writes the decided values and returns what holds; measuring begins anew with it.

        What the guard decides holds at once: what harms must not go on.
        """
        soon = now if by == GUARD else now + APPROVAL_DELAY_S
        self._write(
            former=self.state.layout_version(now),
            active_from=soon,
            measured_from=soon,
            changed_by=by,
            changed_at=now,
            **values,
        )
        return self.state

    def suspend(self, reason: str, now: float) -> None:
        """Have the place's prompts sent unmodified."""
        self._write(suspended=reason or "suspended", suspended_at=now)

    def _judge(
        self,
        version: int,
        state: ProposalState,
        by: str,
        now: float,
        mode_before: str | None = None,
    ) -> None:
        at = (self._connection, self._place, version)
        rows.record_decision(*at, state, decided_by=by, decided_at=now, mode_before=mode_before)

    def _write(self, **values: object) -> None:
        self.own = rows.write_settings(self._connection, self._place, **values)
        self.state = self._feature_state()

    def _feature_state(self) -> FeatureState:
        features, place = schema.features, self._place
        query = select(features).where(
            or_(*(rows.row_of(features, scope) for scope in {place, place.all_families}))
        )
        result = self._connection.execute(query).mappings()
        places = {rows.place_of(row): rows.settings_from_row(row) for row in result}
        return FeatureStates(places=places, mode=self._mode).of(place)


@contextmanager
def singleton_lock(engine: Engine) -> Iterator[bool]:
    """True if no other process is in such a block on this database.

    On SQLite it is a lock on a file beside the database; on PostgreSQL an advisory lock of a
    session, which is lost with its connection.

    Raises:
        StoreError: The database is away.
        OSError: The file beside it cannot be written.
    """
    if engine.dialect.name == "sqlite":
        with Path(f"{engine.url.database}.alone").open("ab") as file:
            yield _lock_file(file.fileno())
        return
    options = {"isolation_level": "AUTOCOMMIT"}
    with translated_errors(), engine.connect().execution_options(**options) as connection:
        lock = {"lock": _LOCK_NUMBER}
        is_alone = connection.execute(_TAKE, lock).scalar()
        try:
            yield bool(is_alone)
        finally:
            if is_alone:
                _release(connection, lock)


def _release(connection: Connection, lock: dict[str, int]) -> None:
    """Release the lock; where the database is away, by giving up the connection that holds it."""
    try:
        connection.execute(_LEAVE, lock)
    except SQLAlchemyError:
        connection.invalidate()


def _lock_file(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
