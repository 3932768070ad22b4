"""What people said of objectives: a level for each that is pinned, for a while."""

from collections.abc import Mapping
from typing import Final

import msgspec
from sqlalchemy import Engine, delete, select, text

from proxy.store import schema
from proxy.store.database import writing
from proxy.store.moments import micros, seconds

_SET: Final = text(
    "INSERT INTO pins (objective, level, until, why, made)"
    " VALUES (:objective, :level, :until, :why, :made)"
    " ON CONFLICT (objective) DO UPDATE SET"
    " level = :level, until = :until, why = :why, made = :made"
)
#: Objectives that are told of.
_MOST: Final = 1_000
#: Seconds a pin is remembered after its end, for those who look at what happened.
_KEPT: Final = 90 * 86_400.0


class PinRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pin as it is kept.

    Attributes:
        objective: The objective's name.
        level: The level that new conversations get.
        until: When it ends, in seconds since the epoch.
        why: In the words of who set it.
        made: When it was set.
    """

    objective: str
    level: int
    until: float
    why: str
    made: float


class Pins:
    """The pins in the database; an objective has one or none."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def set(self, pin: PinRow) -> None:
        """Pin an objective, in place of what was said before."""
        table = schema.pins
        with writing(self._engine) as connection:
            old = micros(max(pin.made - _KEPT, 0.0))
            connection.execute(delete(table).where(table.c.until < old))
            row = {**msgspec.structs.asdict(pin), "until": micros(pin.until)}
            connection.execute(_SET, {**row, "made": micros(pin.made)})

    def release(self, objective: str) -> bool:
        """Take the pin of an objective back; False if there was none."""
        table = schema.pins
        with writing(self._engine) as connection:
            done = connection.execute(delete(table).where(table.c.objective == objective))
            return done.rowcount > 0

    def held(self, now: float) -> Mapping[str, PinRow]:
        """The pins that have not ended, by objective."""
        table = schema.pins
        query = select(table).where(table.c.until > micros(now)).limit(_MOST)
        with self._engine.connect() as connection:
            rows = connection.execute(query).mappings().all()
        return {
            row["objective"]: PinRow(
                objective=row["objective"],
                level=row["level"],
                until=seconds(row["until"]),
                why=row["why"],
                made=seconds(row["made"]),
            )
            for row in rows
        }
