"""Columns for what compaction made of each call, and the table of each feature's settings."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COMPACTION = (
    ("compaction", TEXT),
    ("compaction_why", TEXT),
    ("folded", sa.Integer),
    ("tokens_before", BIG),
    ("tokens_after", BIG),
    ("reset", sa.Integer),
    ("compaction_nanos", BIG),
    ("needed", BIG),
    ("lost", BIG),
)


def upgrade() -> None:
    # All of them nullable: neither database rewrites the calls that are there.
    for name, kind in COMPACTION:
        op.add_column("calls", sa.Column(name, kind))
    op.execute("INSERT INTO meta (name, number) VALUES ('compaction changes', 0)")
    op.create_table(
        "compactions",
        sa.Column("team", TEXT, primary_key=True),
        sa.Column("feature", TEXT, primary_key=True),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("keep_turns", sa.Integer),
        sa.Column("target_tokens", BIG),
        sa.Column("stepped", TEXT, nullable=False),
        sa.Column("why", TEXT, nullable=False),
        sa.Column("stepped_at", BIG, nullable=False),
        sa.Column("measured_from", BIG, nullable=False),
        sa.Column("changed_by", TEXT, nullable=False),
        sa.Column("changed_at", BIG, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "notes",
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("lines", TEXT, nullable=False),
        sa.Column("used", BIG, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("notes_used", "notes", ["used"])


def downgrade() -> None:
    op.drop_table("notes")
    op.drop_table("compactions")
    op.execute("DELETE FROM meta WHERE name = 'compaction changes'")
    for name, _ in COMPACTION:
        op.drop_column("calls", name)
