"""Drops what a small model's notes left: their table, and sums of what they cost."""

from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.drop_table("notes")
    for table in ("rollups", "rollup_pending", "rollup_days", "rollup_weeks"):
        op.drop_column(table, "notes_nanos")
