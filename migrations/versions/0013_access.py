"""People who sign in to the pages, their sessions and links, the audit log, and limits of keys."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    _create_users()
    _create_sessions()
    _create_audit_log()
    op.add_column("keys", sa.Column("expires", BIG))
    op.add_column("keys", sa.Column("models", TEXT))


def downgrade() -> None:
    op.drop_column("keys", "models")
    op.drop_column("keys", "expires")
    op.drop_table("audit_log")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_audit_change")
    op.drop_table("sign_in_links")
    op.drop_table("admin_sessions")
    op.drop_table("users")


def _create_users() -> None:
    op.create_table(
        "users",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("password", TEXT, nullable=False),
        sa.Column("subject", TEXT),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("teams", TEXT, nullable=False),
        sa.Column("created", BIG, nullable=False),
        sa.Column("disabled_at", BIG),
        sa.PrimaryKeyConstraint("id", name="users_pk"),
        sa.UniqueConstraint("name", name="users_name_unique"),
        sa.UniqueConstraint("subject", name="users_subject_unique"),
        sqlite_strict=True,
    )


def _create_sessions() -> None:
    op.create_table(
        "admin_sessions",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("holder", TEXT, nullable=False),
        sa.Column("method", TEXT, nullable=False),
        sa.Column("browser", TEXT, nullable=False),
        sa.Column("began", BIG, nullable=False),
        sa.Column("used", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="admin_sessions_pk"),
        sa.UniqueConstraint("hash", name="admin_sessions_hash_unique"),
        sqlite_strict=True,
    )
    op.create_index("admin_sessions_holder", "admin_sessions", ["holder", "used"])
    op.create_table(
        "sign_in_links",
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("holder", TEXT, nullable=False),
        sa.Column("created", BIG, nullable=False),
        sa.Column("expires", BIG, nullable=False),
        sa.Column("used_at", BIG),
        sa.PrimaryKeyConstraint("hash", name="sign_in_links_pk"),
        sa.ForeignKeyConstraint(["holder"], ["users.id"], name="sign_in_links_holder_fk"),
        sqlite_strict=True,
    )


def _create_audit_log() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("at", BIG, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("team", TEXT),
        sa.Column("before", TEXT),
        sa.Column("after", TEXT),
        sa.PrimaryKeyConstraint("id", name="audit_log_pk"),
        sqlite_strict=True,
    )
    _refuse_changes()


def _refuse_changes() -> None:
    """Have the database itself refuse whatever is no new row of the audit log."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'the audit log only grows'; END $$"
        )
        op.execute(
            "CREATE TRIGGER audit_log_grows BEFORE UPDATE OR DELETE ON audit_log"
            " FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()"
        )
        return
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_log_no_{change.lower()} BEFORE {change} ON audit_log"
            " BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END"
        )
