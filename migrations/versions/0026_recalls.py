"""Adds to calls how often their model recalled what compaction took out, and its tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    for name in ("recalls", "recalled_tokens"):
        op.add_column("calls", sa.Column(name, _BIG))
