"""Columns for what a self-hosted engine reports: phases, draft tokens; and its GPU time."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_PHASES = ("queue", "prefill", "decode", "transfer")
_COUNTS = ("draft_tokens", "accepted_tokens", "gpu_seconds")


def upgrade() -> None:
    # Nullable: neither database rewrites the calls that are there, of which nobody knows it.
    for phase in _PHASES:
        op.add_column("calls", sa.Column(phase, BIG))
    op.add_column("calls", sa.Column("phases_from", TEXT))
    for count in _COUNTS:
        op.add_column("calls", sa.Column(count, BIG))
    for total in (*(f"{phase}_sum" for phase in _PHASES), "phases_count", *_COUNTS):
        op.add_column("rollups", sa.Column(total, BIG))


def downgrade() -> None:
    for total in (*_COUNTS, "phases_count", *(f"{phase}_sum" for phase in _PHASES)):
        op.drop_column("rollups", total)
    for name in (*_COUNTS, "phases_from", *_PHASES):
        op.drop_column("calls", name)
