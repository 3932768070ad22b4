"""Adds to calls the part of the fast path that served them, and what it saved."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column("calls", sa.Column("served_by", sa.Text))
    op.add_column(
        "calls", sa.Column("fast_path_nanos", sa.BigInteger().with_variant(sa.Integer, "sqlite"))
    )
