"""Parts of the fast path that people turned off for a feature; others follow their rules."""

from contextlib import suppress
from typing import Final

from sqlalchemy import Connection, Engine, delete, func, insert, select

from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import AuditedChange, check_last_change, record_change
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.timestamps import micros
from slo.policies.fast_path_switches import FastPathSwitch, SwitchedPart

#: Parts that are off for one team, so that no team takes the room of others.
MAX_SWITCHES: Final = 200


class FastPathSwitches:
    """The switches in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> list[FastPathSwitch]:
        """All that are off; parts that this version does not know are left out."""
        rows, switches = schema.fast_path_switches.c, []
        query = (
            select(schema.teams.c.name, rows.feature, rows.part)
            .join_from(schema.fast_path_switches, schema.teams, schema.teams.c.id == rows.team)
            .order_by(schema.teams.c.name, rows.feature, rows.part)
        )
        with read_transaction(self._engine) as connection:
            for team, feature, part in connection.execute(query):
                with suppress(ValueError):
                    switches.append(FastPathSwitch(team, feature, SwitchedPart(part)))
        return switches

    def turn_off(
        self,
        place: tuple[str, str],
        part: SwitchedPart,
        who: str,
        now: float,
        seen: str | None = None,
    ) -> str:
        """Turn a part off for a feature; the change's id, "" if it is off already.

        Args:
            place: The team's id and the feature.
            seen: Id of the last change of the switch that the author saw; None to set it anyhow.

        Raises:
            CallerError: Its last change is another.
            ValueError: As many parts are off for the team as there may be.
        """
        table, row = schema.fast_path_switches, _row(place, part)
        with write_transaction(self._engine) as connection:
            _check_last_change(connection, seen, place, part)
            count = connection.execute(
                select(func.count()).select_from(table).where(table.c.team == place[0])
            ).scalar_one()
            if connection.execute(select(table.c.part).filter_by(**row)).first() is not None:
                return ""
            if count >= MAX_SWITCHES:
                raise ValueError(f"{MAX_SWITCHES} parts are off for this team; turn one on first")
            values = {**row, "changed_by": who, "changed_at": micros(now)}
            connection.execute(insert(table).values(values))
            return record_change(connection, _change("disable", place, part, who), now)

    def turn_on(
        self,
        place: tuple[str, str],
        part: SwitchedPart,
        who: str,
        now: float,
        seen: str | None = None,
    ) -> str:
        """Let a part follow its rules again, as ``turn_off``; "" if it was not off."""
        table = schema.fast_path_switches
        with write_transaction(self._engine) as connection:
            _check_last_change(connection, seen, place, part)
            if not connection.execute(delete(table).filter_by(**_row(place, part))).rowcount:
                return ""
            return record_change(connection, _change("enable", place, part, who), now)


def _check_last_change(
    connection: Connection, seen: str | None, place: tuple[str, str], part: SwitchedPart
) -> None:
    change = _change("enable", place, part, "")
    actions = [f"{verb} {part.value}" for verb in ("enable", "disable")]
    check_last_change(connection, seen, change.subject, actions, place[0])


def _row(place: tuple[str, str], part: SwitchedPart) -> dict[str, str]:
    team, feature = place
    return {"team": team, "feature": feature, "part": part.value}


def _change(verb: str, place: tuple[str, str], part: SwitchedPart, who: str) -> AuditedChange:
    team, feature = place
    was_on = verb == "disable"
    return AuditedChange(
        who=who,
        action=f"{verb} {part.value}",
        subject=feature or "(none)",
        team=team,
        before={"is_on": was_on},
        after={"is_on": not was_on},
    )
