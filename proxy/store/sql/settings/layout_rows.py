"""Rows of layouts and of the modes in force; used inside the caller's transaction."""

from enum import StrEnum
from typing import Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Table,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)

from proxy.prefix.layouts.layout import read_layout
from proxy.records.feature_mode import FeatureState, LayoutScope, PlanningMode
from proxy.store.sql import schema
from proxy.store.sql.rows import LAYOUT_CHANGES, change_count, count_change, record_of, upsert

UNKNOWN_MODE: Final = "the database holds a mode that this version does not know"
"""Reason for a suspension that nobody chose."""

_MODES = frozenset(PlanningMode)
_MAX_UNDECIDED = 20
_BEGUN = upsert(schema.features)


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


def place_of(row: RowMapping) -> LayoutScope:
    """The place of a row."""
    return LayoutScope(row["team"], row["feature"], row["family"])


def settings_from_row(row: RowMapping) -> FeatureState:
    """The settings in a row of ``features``; with an unknown mode, prompts go unmodified."""
    mode = row["mode"]
    is_known = not mode or mode in _MODES
    state = record_of(
        {**row, "mode": (mode or None) if is_known else PlanningMode.OFF}, FeatureState
    )
    if is_known or state.suspended:
        return state
    return msgspec.structs.replace(
        state, suspended=UNKNOWN_MODE, suspended_at=state.changed_at or state.active_from
    )


def lock_settings(connection: Connection, place: LayoutScope) -> FeatureState:
    """The place's settings, which nobody else changes until the transaction ends."""
    state = {**msgspec.structs.asdict(FeatureState()), "mode": ""}
    connection.execute(_BEGUN, {**state, **msgspec.structs.asdict(place)})
    query = select(schema.features).where(row_of(schema.features, place)).with_for_update()
    return settings_from_row(connection.execute(query).mappings().one())


def write_settings(connection: Connection, place: LayoutScope, **values: object) -> FeatureState:
    """Writes values at the locked place, counts the change, and returns the settings."""
    features = schema.features
    connection.execute(update(features).where(row_of(features, place)).values(**values))
    count_change(connection, LAYOUT_CHANGES)
    query = select(features).where(row_of(features, place))
    return settings_from_row(connection.execute(query).mappings().one())


def count_changes(connection: Connection) -> int:
    """The number of changes counted so far."""
    return int(connection.execute(change_count(LAYOUT_CHANGES)).scalar_one())


def find_proposal(connection: Connection, place: LayoutScope, version: int) -> Proposal:
    """The version.

    Raises:
        ValueError: There is none.
    """
    layouts = schema.layouts
    query = select(layouts).where(row_of(layouts, place), layouts.c.version == version)
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise ValueError(f"no layout of this feature has the version {version}")
    return record_of(row, Proposal)


def ensure_proposal(
    connection: Connection, place: LayoutScope, digest: str, moves: str, now: float
) -> Proposal:
    """The proposal with this digest at the locked place, made where there is none yet."""
    layouts = schema.layouts
    is_same = select(layouts).where(row_of(layouts, place), layouts.c.digest == digest)
    row = connection.execute(is_same).one_or_none()
    if row is None:
        newest = select(func.coalesce(func.max(layouts.c.version), 0)).where(row_of(layouts, place))
        version = connection.execute(newest).scalar_one() + 1
        _make(connection, place, version, digest=digest, moves=moves, made=now)
        return find_proposal(connection, place, version)
    if row.state in _UNDECIDED:
        same = and_(row_of(layouts, place), layouts.c.version == row.version)
        values = {"state": ProposalState.PROPOSED.value, "moves": moves, "made": now}
        connection.execute(update(layouts).where(same).values(decided_at=0, **values))
    return find_proposal(connection, place, row.version)


def withdraw_proposals(
    connection: Connection, place: LayoutScope, calls: int, keep: str, now: float
) -> None:
    """Withdraw the place's undecided layouts, but one, that so many calls or fewer spoke for."""
    layouts = schema.layouts
    waits = and_(row_of(layouts, place), layouts.c.state == ProposalState.PROPOSED.value)
    for row in connection.execute(select(layouts).where(waits, layouts.c.digest != keep)).all():
        layout = read_layout(row.moves)
        moves = layout.moves if layout is not None else ()
        if all(move.calls <= calls for move in moves):
            same = and_(waits, layouts.c.version == row.version, layouts.c.moves == row.moves)
            values = {"state": ProposalState.WITHDRAWN.value, "decided_at": now}
            connection.execute(update(layouts).where(same).values(**values))


def record_decision(
    connection: Connection,
    place: LayoutScope,
    version: int,
    state: ProposalState,
    **decision: str | float | None,
) -> None:
    """Note the state of a version, who decided on it, when, and which mode that replaced."""
    layouts = schema.layouts
    same = and_(row_of(layouts, place), layouts.c.version == version)
    connection.execute(update(layouts).where(same).values(state=state.value, **decision))


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
