"""The tables of people who sign in, and of their changes; ``schema`` has all others."""

from sqlalchemy import (
    DDL,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    Table,
    UniqueConstraint,
    event,
)

from proxy.store.sql.schema import BIG, TEXT, metadata

users = Table(
    "users",
    metadata,
    Column("id", TEXT, primary_key=True),
    Column("name", TEXT, nullable=False),
    Column("password", TEXT, nullable=False),
    Column("subject", TEXT),
    Column("role", TEXT, nullable=False),
    Column("teams", TEXT, nullable=False),
    Column("created", BIG, nullable=False),
    Column("disabled_at", BIG),
    UniqueConstraint("name"),
    UniqueConstraint("subject"),
    sqlite_strict=True,
)
"""People.

``password`` is its Argon2 hash, "" for none; ``subject`` their name at the identity provider, null
for none; ``teams`` the ids of their teams, as a JSON list.
"""

admin_sessions = Table(
    "admin_sessions",
    metadata,
    Column("id", TEXT, primary_key=True),
    Column("hash", LargeBinary, nullable=False),
    Column("holder", TEXT, nullable=False),
    Column("method", TEXT, nullable=False),
    Column("browser", TEXT, nullable=False),
    Column("began", BIG, nullable=False),
    Column("used", BIG, nullable=False),
    UniqueConstraint("hash"),
    sqlite_strict=True,
)
"""Sessions of browsers, by a hash of their cookie; ``holder`` is a user's id, or the token's."""

Index("admin_sessions_holder", admin_sessions.c.holder, admin_sessions.c.used)

sign_in_links = Table(
    "sign_in_links",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("holder", TEXT, ForeignKey("users.id"), nullable=False),
    Column("created", BIG, nullable=False),
    Column("expires", BIG, nullable=False),
    Column("used_at", BIG),
    sqlite_strict=True,
)
"""Links that sign a user in once, by a hash of their code."""

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", TEXT, primary_key=True),
    Column("at", BIG, nullable=False),
    Column("who", TEXT, nullable=False),
    Column("action", TEXT, nullable=False),
    Column("subject", TEXT, nullable=False),
    Column("team", TEXT),
    Column("before", TEXT),
    Column("after", TEXT),
    sqlite_strict=True,
)
"""Changes that people made; ids sort by time, and the database refuses to change a row.

``before`` and ``after`` are JSON objects of what changed, null where there was or is nothing.
"""

for _change in ("UPDATE", "DELETE"):
    event.listen(
        audit_log,
        "after_create",
        DDL(  # type: ignore[no-untyped-call]
            f"CREATE TRIGGER audit_log_no_{_change.lower()} BEFORE {_change} ON audit_log"
            " BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END"
        ).execute_if(dialect="sqlite"),
    )
