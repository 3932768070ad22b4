"""Compaction settings of each feature, as rows; every method may block.

A mode that a person chose holds as soon as every process has heard of it. Where the live proof
steps a feature back, that holds until a person resumes or chooses again.
"""

import logging
from typing import Final

from sqlalchemy import ColumnElement, Connection, Engine, RowMapping, and_, func, select, update

from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot
from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import AuditedChange, record_change
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import (
    COMPACTION_CHANGES,
    change_count,
    count_change,
    read_value,
    record_of,
    upsert,
)

_log = logging.getLogger("thriftgate.compaction")

#: Of a team, whose callers name features as they like.
_MAX_FEATURES: Final = 1_000
_MODES: Final = frozenset(CompactionMode)
#: A mode that is no more, and the one that goes on with its facts.
_REMOVED_MODES: Final = {"facts+model": CompactionMode.FACTS}
_BEGUN: Final = upsert(schema.compactions)
#: Columns of a feature that nobody has decided about.
_UNDECIDED: Final = {
    **dict.fromkeys(("mode", "stepped", "why", "changed_by"), ""),
    **dict.fromkeys(("stepped_at", "measured_from", "changed_at"), 0),
    **dict.fromkeys(("keep_turns", "target_tokens")),
}


class Compactions:
    """The settings in one database.

    Args:
        features: Most features of a team that may have one that nobody chose.
    """

    def __init__(self, engine: Engine, *, features: int = _MAX_FEATURES) -> None:
        self._engine = engine
        self._features = features

    def changes(self) -> int:
        """Number of changes to the settings so far."""
        return int(read_value(self._engine, change_count(COMPACTION_CHANGES)))

    def all_settings(self) -> SettingsSnapshot:
        """All settings now in force."""
        with read_transaction(self._engine) as connection:
            # Counted first: a change that is made meanwhile is noticed by the next look.
            changes = connection.execute(change_count(COMPACTION_CHANGES)).scalar_one()
            rows = connection.execute(select(schema.compactions)).mappings().all()
        return SettingsSnapshot(
            changes, {(row["team"], row["feature"]): _setting(row) for row in rows}
        )

    def choose(
        self,
        place: tuple[str, str],
        mode: CompactionMode,
        by: str,
        now: float,
        *,
        keep_turns: int | None = None,
        target: int | None = None,
    ) -> FeatureSettings:
        """Sets the mode a person chose and returns what holds then; a step back is over.

        Args:
            place: The team's id, and the feature; "" is the feature of calls that name none.
            keep_turns: The last turns that stay unmodified; None for the usual.
            target: Tokens to come down to; None for as far as facts go.
        """
        own = {"mode": mode.value, "keep_turns": keep_turns, "target_tokens": target}
        with write_transaction(self._engine) as connection:
            hold = _LockedFeature(connection, place)
            before = hold.setting
            hold.write(**own, **_decision_values(by, now))
            change = _audit_entry(place, "set compaction mode", (before, hold.setting))
            record_change(connection, change, now)
            return hold.setting

    def step_back(self, place: tuple[str, str], to: CompactionMode, why: str, now: float) -> bool:
        """Have a feature compacted more gently from now on; False where it is so already."""
        with write_transaction(self._engine) as connection:
            if not self._has_room(connection, place):
                return False
            hold = _LockedFeature(connection, place)
            if hold.setting.stepped is to or hold.setting.mode is to:
                return False
            hold.write(stepped=to.value, why=why, stepped_at=now, measured_from=now)
            return True

    def resume(self, place: tuple[str, str], by: str, now: float) -> bool:
        """Compact as it was chosen, and prove it afresh; False if it was not stepped back."""
        with write_transaction(self._engine) as connection:
            if not self._is_known(connection, place):
                return False
            hold = _LockedFeature(connection, place)
            if hold.setting.stepped is None:
                return False
            before = hold.setting
            hold.write(**_decision_values(by, now))
            change = _audit_entry(place, "resume compaction", (before, hold.setting))
            record_change(connection, change, now)
            return True

    def _has_room(self, connection: Connection, place: tuple[str, str]) -> bool:
        if self._is_known(connection, place):
            return True
        rows = schema.compactions
        held = select(func.count()).select_from(rows).where(rows.c.team == place[0])
        return int(connection.execute(held).scalar_one()) < self._features

    @staticmethod
    def _is_known(connection: Connection, place: tuple[str, str]) -> bool:
        """True if there is a row for the feature already."""
        query = select(func.count()).select_from(schema.compactions).where(_at(place))
        return bool(connection.execute(query).scalar_one())


class _LockedFeature:
    """A feature that nobody else decides about until the transaction ends."""

    def __init__(self, connection: Connection, place: tuple[str, str]) -> None:
        team, feature = place
        self._connection = connection
        self._at = _at(place)
        connection.execute(_BEGUN, {**_UNDECIDED, "team": team, "feature": feature})
        query = select(schema.compactions).where(self._at).with_for_update()
        self.setting = _setting(connection.execute(query).mappings().one())

    def write(self, **values: object) -> None:
        """Write values, and count the change."""
        rows = schema.compactions
        self._connection.execute(update(rows).where(self._at).values(**values))
        count_change(self._connection, COMPACTION_CHANGES)
        query = select(rows).where(self._at)
        self.setting = _setting(self._connection.execute(query).mappings().one())


def _audit_entry(
    place: tuple[str, str], action: str, settings: tuple[FeatureSettings, FeatureSettings]
) -> AuditedChange:
    """A person's decision about a feature, with its settings before and after."""
    team, feature = place
    before, after = map(_facts, settings)
    return AuditedChange(
        who=settings[1].changed_by,
        action=action,
        subject=feature or "(none)",
        team=team,
        before=before,
        after=after,
    )


def _facts(setting: FeatureSettings) -> dict[str, object]:
    """The values of a setting that its audit entry shows."""
    return {
        "mode": None if setting.mode is None else setting.mode.value,
        "keep_turns": setting.keep_turns,
        "target_tokens": setting.target,
        "stepped_back_to": None if setting.stepped is None else setting.stepped.value,
    }


def _decision_values(by: str, now: float) -> dict[str, object]:
    """Values that a person's decision writes besides: no step back is left of it."""
    no_step = {"stepped": "", "why": "", "stepped_at": 0}
    return {**no_step, "measured_from": now, "changed_by": by, "changed_at": now}


def _at(place: tuple[str, str]) -> ColumnElement[bool]:
    columns, (team, feature) = schema.compactions.c, place
    return and_(columns.team == team, columns.feature == feature)


def _setting(row: RowMapping) -> FeatureSettings:
    """The setting in a row; an unknown mode is off, as it may be a bolder one."""
    modes = {name: _mode(row[name]) for name in ("mode", "stepped")}
    return record_of({**row, **modes, "target": row["target_tokens"]}, FeatureSettings)


def _mode(text: str) -> CompactionMode | None:
    if not text:
        return None
    if text in _REMOVED_MODES:
        _log.warning("Compaction mode %s no longer exists; %s is used", text, _REMOVED_MODES[text])
        return _REMOVED_MODES[text]
    return CompactionMode(text) if text in _MODES else CompactionMode.OFF
