"""Finds the last change of a subject by an index of the audit log."""

from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    op.create_index(
        "audit_log_subject", "audit_log", ["action", "subject", "id"], if_not_exists=True
    )
