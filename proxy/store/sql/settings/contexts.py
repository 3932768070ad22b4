"""Texts that teams keep here and name in calls."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec
from sqlalchemy import Connection, Engine, delete, func, select, tuple_

from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import read_records, record_of, upsert

#: Versions of all texts of a team.
MAX_VERSIONS: Final = 1_000
#: Bytes of all of them.
MAX_TEAM_BYTES: Final = 64 * 1024 * 1024


class ContextVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a text, without it.

    Attributes:
        digest: SHA-256 of its bytes in hex.
        tokens: About how many tokens it has.
        made: Seconds since the epoch.
    """

    name: str
    version: int
    digest: str
    bytes: int
    tokens: int
    made: float


_FACTS: Final = [schema.contexts.c[name] for name in ContextVersion.__struct_fields__]
_INSERT: Final = upsert(schema.contexts)


class Contexts:
    """The texts in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def put(self, team: str, name: str, text: str, tokens: int, now: float) -> ContextVersion:
        """Store a text as the next version of its name; the same text again is the same version.

        Raises:
            ValueError: The team has as many versions or bytes as it may have.
        """
        table, encoded = schema.contexts, text.encode()
        digest = sha256(encoded).hexdigest()
        with write_transaction(self._engine) as connection:
            newest = (
                select(*_FACTS)
                .where(table.c.team == team, table.c.name == name)
                .order_by(table.c.version.desc())
                .limit(1)
            )
            last = connection.execute(newest).mappings().one_or_none()
            before = None if last is None else record_of(last, ContextVersion)
            if before is not None and before.digest == digest:
                return before
            _check_room(connection, team, len(encoded))
            stored = ContextVersion(
                name=name,
                version=1 if before is None else before.version + 1,
                digest=digest,
                bytes=len(encoded),
                tokens=tokens,
                made=now,
            )
            row = {"team": team, "text": text, **msgspec.structs.asdict(stored)}
            connection.execute(_INSERT, row)
        return stored

    def texts(self, team: str, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """The texts of these names and versions; what the team does not have is left out."""
        table = schema.contexts
        is_named = tuple_(table.c.name, table.c.version).in_(list(names))
        query = select(table.c.name, table.c.version, table.c.text)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.where(table.c.team == team, is_named)).all()
        return {(row.name, row.version): row.text for row in rows}

    def versions(self, team: str) -> list[ContextVersion]:
        """Every version of the team's texts, by name, the newest first."""
        table = schema.contexts
        query = (
            select(*_FACTS)
            .where(table.c.team == team)
            .order_by(table.c.name, table.c.version.desc())
            .limit(MAX_VERSIONS)
        )
        return read_records(self._engine, query, ContextVersion)

    def remove(self, team: str, name: str, version: int | None = None) -> int:
        """Remove one version of a text, or all; returns how many there were."""
        table = schema.contexts
        query = delete(table).where(table.c.team == team, table.c.name == name)
        if version is not None:
            query = query.where(table.c.version == version)
        with write_transaction(self._engine) as connection:
            return connection.execute(query).rowcount


def _check_room(connection: Connection, team: str, size: int) -> None:
    table = schema.contexts
    query = select(func.count(), func.coalesce(func.sum(table.c.bytes), 0))
    count, total = connection.execute(query.where(table.c.team == team)).one()
    if count >= MAX_VERSIONS or total + size > MAX_TEAM_BYTES:
        raise ValueError(
            f"The team keeps {count:,} versions of {total:,} bytes; it may keep"
            f" {MAX_VERSIONS:,} of {MAX_TEAM_BYTES:,} bytes together. Delete some first."
        )
