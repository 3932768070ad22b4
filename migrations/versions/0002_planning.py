"""Columns for what planning for prefix caches did to each call, and the tables of its decisions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
PLANNING = (
    ("conversation", TEXT),
    ("arm", TEXT),
    ("layout", sa.Integer),
    ("expected_read", BIG),
    ("miss", TEXT),
    ("miss_detail", TEXT),
    ("miss_tokens", BIG),
    ("miss_nanos", BIG),
)


def upgrade() -> None:
    # All of them nullable: neither database rewrites the calls that are there.
    for name, kind in PLANNING:
        op.add_column("calls", sa.Column(name, kind))
    planned = sa.text("conversation IS NOT NULL")
    op.create_index(
        "calls_planned",
        "calls",
        ["team", "feature", "started"],
        sqlite_where=planned,
        postgresql_where=planned,
    )
    op.execute("INSERT INTO meta (name, number) VALUES ('layout changes', 0)")
    _create_plans()
    _create_layouts()


def _create_plans() -> None:
    op.create_table(
        "plans",
        sa.Column("conversation", TEXT, primary_key=True),
        sa.Column("plan", TEXT, nullable=False),
        sa.Column("used", BIG, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("plans_used", "plans", ["used"])


def _create_layouts() -> None:
    op.create_table(
        "layouts",
        sa.Column("team", TEXT, primary_key=True),
        sa.Column("feature", TEXT, primary_key=True),
        sa.Column("family", TEXT, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("moves", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("made", BIG, nullable=False),
        sa.Column("decided_by", TEXT, nullable=False),
        sa.Column("decided_at", BIG, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "features",
        sa.Column("team", TEXT, primary_key=True),
        sa.Column("feature", TEXT, primary_key=True),
        sa.Column("family", TEXT, primary_key=True),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("former", sa.Integer, nullable=False),
        sa.Column("active_from", BIG, nullable=False),
        sa.Column("measured_from", BIG, nullable=False),
        sa.Column("suspended", TEXT, nullable=False),
        sa.Column("suspended_at", BIG, nullable=False),
        sa.Column("changed_by", TEXT, nullable=False),
        sa.Column("changed_at", BIG, nullable=False),
        sqlite_strict=True,
    )


def downgrade() -> None:
    for table in ("features", "layouts", "plans"):
        op.drop_table(table)
    op.execute("DELETE FROM meta WHERE name = 'layout changes'")
    op.drop_index("calls_planned", "calls")
    for name, _ in PLANNING:
        op.drop_column("calls", name)
