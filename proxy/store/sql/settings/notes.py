"""A model's notes on parts of conversations, and the notes that each compaction used.

A row's name identifies the part and its conversation, so no team meets another's notes. The first
writer of notes on a part wins. The notes that one compaction used stay the same in every process,
because a conversation's sent text must not change.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import Engine, bindparam, select, text

from proxy.store.sql import schema
from proxy.store.sql.database import delete_unused, write_transaction
from proxy.store.sql.rows import read_value, upsert

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[str, ...]).decode

_KEEP: Final = upsert(schema.notes)
# What was taken before is told; else what is there now is written down as taken: in one step, on
# both databases.
_CLAIM: Final = text(
    "INSERT INTO notes (key, lines, used) "
    "VALUES (:here, COALESCE((SELECT lines FROM notes WHERE key = :part), '[]'), :used) "
    "ON CONFLICT (key) DO UPDATE SET used = excluded.used RETURNING lines"
).bindparams(bindparam("used", type_=schema.notes.c.used.type))


class Notes:
    """The notes in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def keep(self, part: str, lines: Sequence[str], now: float) -> None:
        """Keep notes on a part, unless there are some already."""
        values = {"key": part, "lines": _encode(lines).decode(), "used": now}
        with write_transaction(self._engine) as connection:
            connection.execute(_KEEP, values)

    def has(self, part: str) -> bool:
        """True if there are notes on a part, if only to say that none were worth keeping."""
        query = select(schema.notes.c.used).where(schema.notes.c.key == part)
        return read_value(self._engine, query) is not None

    def claim(self, part: str, here: str, now: float) -> tuple[str, ...]:
        """The notes for a compaction of a part: those it took before, else the present ones.

        Retention counts from the last time this was asked.

        Args:
            here: The name of the compaction; no part has the same.
        """
        values = {"here": here, "part": part, "used": now}
        with write_transaction(self._engine) as connection:
            return _decode(connection.execute(_CLAIM, values).scalar_one())

    def retain(self, since: float, budget: float) -> int:
        """Delete notes that nobody asked for after ``since``; returns their number.

        Args:
            budget: Seconds after which no further step begins.
        """
        return delete_unused(self._engine, schema.notes, since, budget)
