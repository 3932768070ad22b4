"""Purges of kept answers, so that every process and every later one knows of them."""

from typing import Final

from sqlalchemy import Connection, Engine, delete, func, select

from proxy.fast_path.answer_cache.answer_purges import AnswerPurge, PurgeScope
from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import AuditedChange, record_change
from proxy.store.sql.database import write_transaction
from proxy.store.sql.rows import read_records, update_clause, upsert

#: Purges that are remembered of a team; one more purges all of its answers.
MAX_TEAM_PURGES: Final = 1_000
#: Seconds for which they are: no answer may be given again for longer.
_RETENTION_S: Final = 30 * 86_400.0
#: Purges that are read at once.
_MAX_READ: Final = 20_000
_SET: Final = upsert(schema.answer_purges, update_clause("purged_at"))


class AnswerPurges:
    """The purges in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, purge: AnswerPurge, who: str) -> AnswerPurge:
        """Store a purge, and who asked for it; returns it, or the wider one in its place."""
        table = schema.answer_purges
        with write_transaction(self._engine) as connection:
            connection.execute(
                delete(table).where(table.c.purged_at < purge.purged_at - _RETENTION_S)
            )
            if _count(connection, purge.team) >= MAX_TEAM_PURGES:
                connection.execute(delete(table).where(table.c.team == purge.team))
                purge = AnswerPurge(
                    team=purge.team, scope=PurgeScope.TEAM, purged_at=purge.purged_at
                )
            row = {
                "team": purge.team,
                "scope": purge.scope.value,
                "name": purge.name,
                "purged_at": purge.purged_at,
            }
            connection.execute(_SET, row)
            subject = f"{purge.scope.value} {purge.name}".strip()
            change = AuditedChange(
                who=who, action="purge answers", subject=subject, team=purge.team
            )
            record_change(connection, change, purge.purged_at)
        return purge

    def since(self, purged_at: float) -> list[AnswerPurge]:
        """The purges from a time on, the newest first."""
        table = schema.answer_purges
        query = (
            select(table)
            .where(table.c.purged_at >= purged_at)
            .order_by(table.c.purged_at.desc())
            .limit(_MAX_READ)
        )
        return read_records(self._engine, query, AnswerPurge)


def _count(connection: Connection, team: str) -> int:
    table = schema.answer_purges
    query = select(func.count()).select_from(table).where(table.c.team == team)
    return int(connection.execute(query).scalar_one())
