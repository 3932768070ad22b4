"""Rows of layouts and of the modes in force; used inside the caller's transaction."""

from enum import StrEnum
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy import text as sql

from proxy.prefix.layouts.layout import read_layout
from proxy.records.feature_mode import FeatureState, LayoutScope, PlanningMode
from proxy.store.sql import schema
from proxy.store.sql.timestamps import seconds

LAYOUT_CHANGES: Final = "layout changes"
"""The name of the fact that counts changes to what is in force, for its caches."""

UNKNOWN_MODE: Final = "the database holds a mode that this version does not know"
"""Reason for a suspension that nobody chose."""

_MODES = frozenset(PlanningMode)
_MAX_UNDECIDED = 20
_BEGUN = sql(
    "INSERT INTO features (team, feature, family, mode, version, former, active_from, "
    "measured_from, suspended, suspended_at, changed_by, changed_at) "
    "VALUES (:team, :feature, :family, '', 0, 0, 0, 0, '', 0, '', 0) ON CONFLICT DO NOTHING"
)


class ProposalState(StrEnum):
    """The state of a proposal."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    ROLLED_BACK = "rolled back"
    WITHDRAWN = "withdrawn"  #: Later calls showed that it does not pay; it may be proposed again.


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a place's layout; times are in seconds since the epoch.

    Attributes:
        digest: The same for layouts that do the same, whatever their evidence.
        moves: The layout in JSON, with its evidence.
        made: Time at which it was proposed last.
        decided_by: Person or part of the gateway that decided last; "" while nobody has.
        decided_at: Time of the decision; 0 while there is none.
        mode_before: Mode that approving it replaced, "" for that of its feature; None for no mode.
    """

    version: int
    digest: str
    moves: str
    state: ProposalState
    made: float
    decided_by: str
    decided_at: float
    mode_before: str | None = None


_UNDECIDED: Final = (ProposalState.PROPOSED.value, ProposalState.WITHDRAWN.value)


def row_of(table: Table, place: LayoutScope) -> ColumnElement[bool]:
    """True if a row is the place's."""
    columns = table.c
    return and_(
        columns.team == place.team,
        columns.feature == place.feature,
        columns.family == place.family,
    )


def place_of(row: Row[Any]) -> LayoutScope:
    """The place of a row."""
    return LayoutScope(row.team, row.feature, row.family)


def settings_from_row(row: Row[Any]) -> FeatureState:
    """The settings in a row of ``features``; with an unknown mode, prompts go unmodified."""
    is_known = not row.mode or row.mode in _MODES
    state = _feature_state(row, row.mode if is_known else PlanningMode.OFF)
    if is_known or state.suspended:
        return state
    return msgspec.structs.replace(
        state, suspended=UNKNOWN_MODE, suspended_at=state.changed_at or state.active_from
    )


def _feature_state(row: Row[Any], mode: str) -> FeatureState:
    return FeatureState(
        mode=PlanningMode(mode) if mode else None,
        version=row.version,
        former=row.former,
        active_from=seconds(row.active_from),
        measured_from=seconds(row.measured_from),
        suspended=row.suspended,
        suspended_at=seconds(row.suspended_at),
        changed_by=row.changed_by,
        changed_at=seconds(row.changed_at),
    )


def proposal_from_row(row: Row[Any]) -> Proposal:
    """The proposal in a row of ``layouts``."""
    return Proposal(
        version=row.version,
        digest=row.digest,
        moves=row.moves,
        state=ProposalState(row.state),
        made=seconds(row.made),
        decided_by=row.decided_by,
        decided_at=seconds(row.decided_at),
        mode_before=row.mode_before,
    )


def lock_settings(connection: Connection, place: LayoutScope) -> FeatureState:
    """The place's settings, which nobody else changes until the transaction ends."""
    connection.execute(_BEGUN, msgspec.structs.asdict(place))
    query = select(schema.features).where(row_of(schema.features, place)).with_for_update()
    return settings_from_row(connection.execute(query).one())


def write_settings(connection: Connection, place: LayoutScope, **values: object) -> FeatureState:
    """Writes values at the locked place, counts the change, and returns the settings.

    The count's row stays locked until the commit, so no number comes twice.
    """
    features, meta = schema.features, schema.meta
    connection.execute(update(features).where(row_of(features, place)).values(**values))
    count = update(meta).where(meta.c.name == LAYOUT_CHANGES).values(number=meta.c.number + 1)
    connection.execute(count)
    return settings_from_row(
        connection.execute(select(features).where(row_of(features, place))).one()
    )


def count_changes(connection: Connection) -> int:
    """The number of changes counted so far."""
    query = select(schema.meta.c.number).where(schema.meta.c.name == LAYOUT_CHANGES)
    return int(connection.execute(query).scalar_one())


def find_proposal(connection: Connection, place: LayoutScope, version: int) -> Proposal:
    """The version.

    Raises:
        ValueError: There is none.
    """
    layouts = schema.layouts
    query = select(layouts).where(row_of(layouts, place), layouts.c.version == version)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise ValueError(f"no layout of this feature has the version {version}")
    return proposal_from_row(row)


def ensure_proposal(
    connection: Connection, place: LayoutScope, digest: str, moves: str, micros: int
) -> Proposal:
    """The proposal with this digest at the locked place, made where there is none yet."""
    layouts = schema.layouts
    is_same = select(layouts).where(row_of(layouts, place), layouts.c.digest == digest)
    row = connection.execute(is_same).one_or_none()
    if row is None:
        newest = select(func.coalesce(func.max(layouts.c.version), 0)).where(row_of(layouts, place))
        version = connection.execute(newest).scalar_one() + 1
        _make(connection, place, version, digest=digest, moves=moves, made=micros)
        return find_proposal(connection, place, version)
    if row.state in _UNDECIDED:
        same = and_(row_of(layouts, place), layouts.c.version == row.version)
        values = {"state": ProposalState.PROPOSED.value, "moves": moves, "made": micros}
        connection.execute(update(layouts).where(same).values(decided_at=0, **values))
    return find_proposal(connection, place, row.version)


def withdraw_proposals(
    connection: Connection, place: LayoutScope, calls: int, keep: str, micros: int
) -> None:
    """Withdraw the place's undecided layouts, but one, that so many calls or fewer spoke for."""
    layouts = schema.layouts
    waits = and_(row_of(layouts, place), layouts.c.state == ProposalState.PROPOSED.value)
    for row in connection.execute(select(layouts).where(waits, layouts.c.digest != keep)).all():
        layout = read_layout(row.moves)
        moves = layout.moves if layout is not None else ()
        if all(move.calls <= calls for move in moves):
            same = and_(waits, layouts.c.version == row.version, layouts.c.moves == row.moves)
            values = {"state": ProposalState.WITHDRAWN.value, "decided_at": micros}
            connection.execute(update(layouts).where(same).values(**values))


class JudgedLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about a version of a layout.

    Attributes:
        decided_at: Time of that, in microseconds since the epoch.
        mode_before: Mode that it replaces, "" for that of the feature; None for no mode.
    """

    state: ProposalState
    decided_by: str
    decided_at: int
    mode_before: str | None = None


def record_decision(
    connection: Connection, place: LayoutScope, version: int, decision: JudgedLayout
) -> None:
    """Note what was decided about a version."""
    layouts = schema.layouts
    same = and_(row_of(layouts, place), layouts.c.version == version)
    values = msgspec.structs.asdict(decision) | {"state": decision.state.value}
    connection.execute(update(layouts).where(same).values(**values))


def forget_replaced_modes(connection: Connection, place: LayoutScope) -> None:
    """A person chose the place's mode: rolling a layout back brings none back any more."""
    layouts = schema.layouts
    connection.execute(update(layouts).where(row_of(layouts, place)).values(mode_before=None))


def last_approved(connection: Connection, place: LayoutScope) -> int:
    """The version that was approved last and still is; 0 for none."""
    layouts = schema.layouts
    query = (
        select(layouts.c.version)
        .where(row_of(layouts, place), layouts.c.state == ProposalState.APPROVED.value)
        .order_by(layouts.c.decided_at.desc(), layouts.c.version.desc())
        .limit(1)
    )
    return connection.execute(query).scalar() or 0


def _make(connection: Connection, place: LayoutScope, version: int, **values: object) -> None:
    """Insert a proposal and forget the oldest undecided ones."""
    layouts = schema.layouts
    undecided = and_(row_of(layouts, place), layouts.c.state.in_(_UNDECIDED))
    newest_first = select(layouts.c.version).where(undecided).order_by(layouts.c.version.desc())
    surplus = connection.execute(newest_first.offset(_MAX_UNDECIDED - 1)).scalars().all()
    connection.execute(delete(layouts).where(undecided, layouts.c.version.in_(surplus)))
    row = {
        **msgspec.structs.asdict(place),
        "version": version,
        "state": ProposalState.PROPOSED.value,
        "decided_by": "",
        "decided_at": 0,
        **values,
    }
    connection.execute(insert(layouts).values(**row))
