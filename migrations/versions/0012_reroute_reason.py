"""Plain names for columns of calls: the reason of a reroute, and what was compacted."""

from alembic import op

revision = "0012"
down_revision = "0011"

_NAMES = (
    ("moved", "reroute_reason"),
    ("folded", "compacted"),
    ("folded_messages", "compacted_messages"),
)


def upgrade() -> None:
    # A new name writes no row, and conditions of indexes follow it, in both databases.
    for old, new in _NAMES:
        op.execute(f"ALTER TABLE calls RENAME COLUMN {old} TO {new}")
    _rename_index("calls_moved", "calls_rerouted", "reroute_reason")


def downgrade() -> None:
    for old, new in _NAMES:
        op.execute(f"ALTER TABLE calls RENAME COLUMN {new} TO {old}")
    _rename_index("calls_rerouted", "calls_moved", "moved")


def _rename_index(old: str, new: str, column: str) -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER INDEX {old} RENAME TO {new}")
        return
    op.drop_index(old, "calls")  # SQLite names none anew
    op.execute(f"CREATE INDEX {new} ON calls (call_id) WHERE {column} IS NOT NULL AND final = 1")
