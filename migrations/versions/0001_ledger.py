"""Teams, keys, calls, prompts and rollups."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
BUCKETS = (
    "input",
    "cache_read",
    "write_5m",
    "write_30m",
    "write_1h",
    "write_12h",
    "output",
    "reasoning",
)


def upgrade() -> None:
    op.create_table(
        "meta",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("secret", sa.LargeBinary),
        sa.Column("number", BIG),
        sqlite_strict=True,
    )
    op.execute("INSERT INTO meta (name, number) VALUES ('key changes', 0)")
    op.create_table(
        "teams",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("keeps_prompts", sa.Integer, nullable=False),
        sa.Column("created", BIG, nullable=False),
        sa.UniqueConstraint("name"),
        sqlite_strict=True,
    )
    op.create_table(
        "keys",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("team", TEXT, sa.ForeignKey("teams.id"), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("hint", TEXT, nullable=False),
        sa.Column("feature", TEXT, nullable=False),
        sa.Column("created", BIG, nullable=False),
        sa.Column("revoked_at", BIG),
        sa.UniqueConstraint("hash"),
        sqlite_strict=True,
    )
    _create_calls()
    op.create_table(
        "prompts",
        sa.Column("call_id", TEXT, primary_key=True),
        sa.Column("text", TEXT, nullable=False),
        sqlite_strict=True,
    )
    _create_rollups()


def _create_calls() -> None:
    op.create_table(
        "calls",
        sa.Column("call_id", TEXT, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("final", sa.Integer, nullable=False),
        sa.Column("started", BIG, nullable=False),
        sa.Column("team", TEXT, nullable=False),
        sa.Column("key_id", TEXT, nullable=False),
        sa.Column("feature", TEXT, nullable=False),
        sa.Column("user_hash", TEXT, nullable=False),
        sa.Column("endpoint", TEXT, nullable=False),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("route", TEXT, nullable=False),
        sa.Column("upstream", TEXT, nullable=False),
        sa.Column("streamed", sa.Integer, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("error", TEXT, nullable=False),
        *(sa.Column(bucket, BIG) for bucket in BUCKETS),
        sa.Column("estimated", sa.Integer, nullable=False),
        sa.Column("list_nanos", BIG),
        sa.Column("cost_nanos", BIG),
        sa.Column("ttft", BIG),
        sa.Column("duration", BIG, nullable=False),
        sa.Column("overhead", BIG, nullable=False),
        sa.Column("fingerprint", TEXT, nullable=False),
        sa.Column("upstream_id", TEXT, nullable=False),
        sa.Column("notes", TEXT, nullable=False),
        sqlite_strict=True,
    )


def _create_rollups() -> None:
    op.create_table(
        "rollups",
        sa.Column("team", TEXT, primary_key=True),
        sa.Column("day", BIG, primary_key=True, autoincrement=False),
        sa.Column("feature", TEXT, primary_key=True),
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("route", TEXT, primary_key=True),
        sa.Column("upstream", TEXT, primary_key=True),
        sa.Column("key_id", TEXT, primary_key=True),
        sa.Column("quarter", BIG, primary_key=True, autoincrement=False),
        sa.Column("calls", BIG, nullable=False),
        sa.Column("attempts", BIG, nullable=False),
        sa.Column("errors", BIG, nullable=False),
        sa.Column("estimated", BIG, nullable=False),
        sa.Column("unpriced", BIG, nullable=False),
        *(sa.Column(bucket, BIG, nullable=False) for bucket in BUCKETS),
        sa.Column("list_nanos", BIG),
        sa.Column("cost_nanos", BIG),
        sa.Column("ttft_sum", BIG, nullable=False),
        sa.Column("ttft_count", BIG, nullable=False),
        sa.Column("duration_sum", BIG, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    for table in ("rollups", "prompts", "calls", "keys", "teams", "meta"):
        op.drop_table(table)
