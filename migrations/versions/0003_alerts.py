"""Tables of alerts, and of the messages each sink has yet to be sent."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("began", BIG, nullable=False),
        sa.Column("ended", BIG),
        sa.Column("expires", BIG),
        sqlite_strict=True,
    )
    op.create_index("alerts_began", "alerts", ["began"])
    op.create_table(
        "outbox",
        sa.Column("alert", TEXT, primary_key=True),
        sa.Column("sink", TEXT, primary_key=True),
        sa.Column("phase", TEXT, nullable=False),
        sa.Column("due", BIG),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("sent", BIG),
        sa.Column("why", TEXT, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("outbox_due", "outbox", ["sink", "due"])


def downgrade() -> None:
    op.drop_table("outbox")
    op.drop_table("alerts")
