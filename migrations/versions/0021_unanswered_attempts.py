"""A table of attempts that did not answer, whose usage no other model is credited with."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_KEY = ("team", "quarter", "feature", "model", "route", "upstream", "key_id")
_BUCKETS = (
    "input", "cache_read", "write_5m", "write_30m", "write_1h", "write_12h", "output", "reasoning"
)  # fmt: skip
_QUARTER = "started / 900000000 * 900"


def upgrade() -> None:
    op.create_table(
        "rollup_unanswered",
        *(sa.Column(name, BIG if name == "quarter" else TEXT, nullable=False) for name in _KEY),
        *(sa.Column(name, BIG, nullable=False) for name in ("calls", *_BUCKETS)),
        sa.Column("list_nanos", BIG, nullable=False),
        sa.Column("extra_nanos", BIG, nullable=False),
        sa.PrimaryKeyConstraint(*_KEY, name="rollup_unanswered_pk"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    names, place = ", ".join(_KEY), ", ".join(_KEY).replace("quarter", _QUARTER)
    buckets = ", ".join(f"coalesce(sum({name}), 0)" for name in _BUCKETS)
    op.execute(
        f"INSERT INTO rollup_unanswered ({names}, calls, {', '.join(_BUCKETS)},"
        " list_nanos, extra_nanos)"
        f" SELECT {place}, sum(final), {buckets}, sum(list_nanos),"
        " sum((1 - final) * list_nanos)"
        " FROM calls WHERE list_nanos IS NOT NULL AND coalesce(compaction_why, '') <> 'notes'"
        " AND outcome <> 'answered' AND (outcome <> 'hung_up' OR ttft IS NULL)"
        f" GROUP BY {place}"
    )


def downgrade() -> None:
    op.drop_table("rollup_unanswered")
