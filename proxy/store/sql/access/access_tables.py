"""The tables of people who sign in, and of their changes; ``schema`` has all others."""

from sqlalchemy import DDL, Column, ForeignKey, Index, LargeBinary, UniqueConstraint, event

from proxy.store.sql.schema import TEXT, columns_of, keys_of, nullable_of, table
from proxy.store.sql.timestamps import Timestamp

users = table(
    "users",
    *keys_of(TEXT, "id"),
    *columns_of(TEXT, "name", "password"),
    *nullable_of(TEXT, "subject"),
    *columns_of(TEXT, "role", "teams"),
    *columns_of(Timestamp, "created"),
    *nullable_of(Timestamp, "disabled_at"),
    UniqueConstraint("name"),
    UniqueConstraint("subject"),
)
"""People.

``password`` is its Argon2 hash, "" for none; ``subject`` their name at the identity provider, null
for none; ``teams`` the ids of their teams, as a JSON list.
"""

admin_sessions = table(
    "admin_sessions",
    *keys_of(TEXT, "id"),
    *columns_of(LargeBinary, "hash"),
    *columns_of(TEXT, "holder", "method", "browser"),
    *columns_of(Timestamp, "began", "used"),
    UniqueConstraint("hash"),
)
"""Sessions of browsers, by a hash of their cookie; ``holder`` is a user's id, or the token's."""

Index("admin_sessions_holder", admin_sessions.c.holder, admin_sessions.c.used)

sign_in_links = table(
    "sign_in_links",
    *keys_of(LargeBinary, "hash"),
    Column("holder", TEXT, ForeignKey("users.id"), nullable=False),
    *columns_of(Timestamp, "created", "expires"),
    *nullable_of(Timestamp, "used_at"),
)
"""Links that sign a user in once, by a hash of their code."""

audit_log = table(
    "audit_log",
    *keys_of(TEXT, "id"),
    *columns_of(Timestamp, "at"),
    *columns_of(TEXT, "who", "action", "subject"),
    *nullable_of(TEXT, "team", "before", "after"),
)
"""Changes that people made; ids sort by time, and the database refuses to change a row.

``before`` and ``after`` are JSON objects of what changed, null where there was or is nothing.
"""

Index("audit_log_subject", audit_log.c.action, audit_log.c.subject, audit_log.c.id)

for _change in ("UPDATE", "DELETE"):
    event.listen(
        audit_log,
        "after_create",
        DDL(  # type: ignore[no-untyped-call]
            f"CREATE TRIGGER audit_log_no_{_change.lower()} BEFORE {_change} ON audit_log"
            " BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END"
        ).execute_if(dialect="sqlite"),
    )
