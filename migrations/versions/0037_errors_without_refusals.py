"""Takes calls that the gateway refused out of the sums of errors."""

from alembic import op

revision = "0037"
down_revision = "0036"

_KEY = ("team", "day", "feature", "model", "route", "upstream", "key_id", "quarter")
_TIMES = {"day": "started / 86400000000", "quarter": "started / 900000000 * 900"}
#: Sums of a batch that are never null, besides errors.
_ZEROS = (
    "calls", "attempts", "estimated", "unpriced", "input", "cache_read", "write_5m", "write_30m",
    "write_1h", "write_12h", "output", "reasoning", "ttft_sum", "ttft_count", "duration_sum",
)  # fmt: skip


def upgrade() -> None:
    place = ", ".join(_TIMES.get(name, name) for name in _KEY)
    named = ", ".join(f"{_TIMES.get(name, name)} AS {name}" for name in _KEY)
    refused = f"FROM calls WHERE final = 1 AND outcome = 'refused' GROUP BY {place}"
    is_same = " AND ".join(f"rollups.{name} = refused.{name}" for name in _KEY)
    op.execute(
        "UPDATE rollups SET errors = errors - refused.calls"
        f" FROM (SELECT {named}, count(*) AS calls {refused}) AS refused WHERE {is_same}"
    )
    # Days and weeks take it from a batch, as they take new calls.
    op.execute(
        f"INSERT INTO rollup_pending ({', '.join((*_KEY, 'errors', *_ZEROS))})"
        f" SELECT {place}, -count(*), {', '.join('0' for _ in _ZEROS)} {refused}"
    )
