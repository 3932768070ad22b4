"""All tables of the first release.

Its number is that of the last of the migrations before it, whose tables are these.
"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = None

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_BUCKETS = (
    "input", "cache_read", "write_5m", "write_30m", "write_1h", "write_12h", "output", "reasoning"
)  # fmt: skip
_PLACE = ("feature", "model", "route", "upstream", "key_id")
_COUNTS = ("calls", "attempts", "errors", "estimated", "unpriced", *_BUCKETS)
_COSTS = ("list_nanos", "cost_nanos")
_TIMES = ("ttft_sum", "ttft_count", "duration_sum")
_SUMS_OR_NULL = (
    "queue_sum", "prefill_sum", "decode_sum", "transfer_sum", "phases_count", "draft_tokens",
    "accepted_tokens", "gpu_seconds", "read_saved_nanos", "write_extra_nanos", "planned",
    "planning_nanos", "planned_cost_nanos", "compaction_nanos", "expected_read",
    "missed", "miss_tokens", "miss_nanos",
)  # fmt: skip
_HOUR_SUMS = ("calls", "unpriced", "cost_nanos", "prompt_tokens", "cache_read")
_HISTOGRAM = tuple(f"bucket_{n}" for n in range(82))
#: Keys that are numbers; all others are texts.
_NUMBER_KEYS = frozenset({"day", "week", "hour", "quarter", "began", "made"})
#: Sorted by their key on SQLite, and found by nothing else.
_BY_KEY = {"sqlite_with_rowid": False}

Column = sa.Column[Any]


def upgrade() -> None:
    _create_access()
    _create_calls()
    _create_rollups()
    _create_planning()
    _create_alerts()
    _create("meta", *_keys("name"), sa.Column("secret", sa.LargeBinary), sa.Column("number", BIG))
    for counter in ("key changes", "layout changes", "compaction changes"):
        op.execute(f"INSERT INTO meta (name, number) VALUES ('{counter}', 0)")


def _create_access() -> None:
    _create(
        "teams", *_keys("id"), *_texts("name"), _integer("keeps_prompts"), *_numbers("created"),
        sa.UniqueConstraint("name", name="teams_name_unique"),
    )  # fmt: skip
    _create(
        "keys", *_keys("id"), _reference("team", "teams", "keys"), *_texts("name"), _hash(),
        *_texts("hint", "feature"), *_numbers("created"), *_nullable(BIG, "revoked_at", "expires"),
        *_nullable(TEXT, "models"), sa.UniqueConstraint("hash", name="keys_hash_unique"),
    )  # fmt: skip
    _create(
        "users", *_keys("id"), *_texts("name", "password"), *_nullable(TEXT, "subject"),
        *_texts("role", "teams"), *_numbers("created"), *_nullable(BIG, "disabled_at"),
        sa.UniqueConstraint("name", name="users_name_unique"),
        sa.UniqueConstraint("subject", name="users_subject_unique"),
    )  # fmt: skip
    _create(
        "admin_sessions", *_keys("id"), _hash(), *_texts("holder", "method", "browser"),
        *_numbers("began", "used"), sa.UniqueConstraint("hash", name="admin_sessions_hash_unique"),
    )  # fmt: skip
    op.create_index("admin_sessions_holder", "admin_sessions", ["holder", "used"])
    _create(
        "sign_in_links", sa.Column("hash", sa.LargeBinary, primary_key=True),
        _reference("holder", "users", "sign_in_links"), *_numbers("created", "expires"),
        *_nullable(BIG, "used_at"),
    )  # fmt: skip
    _create(
        "audit_log", *_keys("id"), *_numbers("at"), *_texts("who", "action", "subject"),
        *_nullable(TEXT, "team", "before", "after"),
    )  # fmt: skip
    _refuse_audit_changes()


def _refuse_audit_changes() -> None:
    """Have the database itself refuse whatever is no new row of the audit log."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'the audit log only grows'; END $$"
        )
        op.execute(
            "CREATE TRIGGER audit_log_grows BEFORE UPDATE OR DELETE ON audit_log"
            " FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()"
        )
        return
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_log_no_{change.lower()} BEFORE {change} ON audit_log"
            " BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END"
        )


def _create_calls() -> None:
    _create(
        "calls",
        *_keys("call_id"),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        _integer("final"),
        *_numbers("started"),
        *_texts("team", "key_id", "feature", "user_hash", "endpoint", "model", "route", "upstream"),
        _integer("streamed"),
        _integer("status"),
        *_texts("outcome", "error"),
        *_nullable(BIG, *_BUCKETS),
        _integer("estimated"),
        *_nullable(BIG, *_COSTS, "ttft"),
        *_numbers("duration", "overhead"),
        *_texts("fingerprint", "upstream_id", "notes"),
        *_nullable(TEXT, "conversation", "arm"),
        *_nullable(sa.Integer, "layout"),
        *_nullable(BIG, "expected_read"),
        *_nullable(TEXT, "miss", "miss_detail"),
        *_nullable(BIG, "miss_tokens", "miss_nanos"),
        *_nullable(TEXT, "reroute_reason", "compaction", "compaction_why"),
        *_nullable(sa.Integer, "compacted"),
        *_nullable(BIG, "tokens_before", "tokens_after"),
        *_nullable(sa.Integer, "reset"),
        *_nullable(
            BIG, "compaction_nanos", "needed", "lost", "compacted_messages", "planning_nanos"
        ),
        *_nullable(TEXT, "upstream_request_id", "unplanned_why"),
        *_nullable(BIG, "queue", "prefill", "decode", "transfer"),
        *_nullable(TEXT, "phases_from"),
        *_nullable(BIG, "draft_tokens", "accepted_tokens", "gpu_seconds"),
        *_nullable(BIG, "read_saved_nanos", "write_extra_nanos"),
        *_nullable(TEXT, "segments"),
    )
    _create_partial_index("calls_planned", "team, feature, started", "conversation IS NOT NULL")
    _create_partial_index("calls_rerouted", "call_id", "reroute_reason IS NOT NULL AND final = 1")
    _create("prompts", *_keys("call_id"), *_texts("text"))


def _create_rollups() -> None:
    day_key = ("team", "day", *_PLACE)
    quarter_key = (*day_key, "quarter")
    _create("rollups", *_keys(*quarter_key), *_sums(), **_BY_KEY)
    pending_key = (_numbers(name) if name in _NUMBER_KEYS else _texts(name) for name in quarter_key)
    _create("rollup_pending", *(column for one in pending_key for column in one), *_sums())
    _create("rollup_days", *_keys(*day_key), *_sums(), **_BY_KEY)
    _create("rollup_weeks", *_keys("team", "week", *_PLACE), *_sums(), **_BY_KEY)
    hours = (f"{name}_{hour}" for hour in range(24) for name in _HOUR_SUMS)
    _create("rollup_day_hours", *_keys(*day_key), *_nullable(BIG, *hours), **_BY_KEY)
    _create(
        "rollup_misses", *_keys(*day_key[:-1], "reason"), *_numbers("attempts", "tokens"),
        *_nullable(BIG, "nanos"), *_texts("example"), **_BY_KEY,
    )  # fmt: skip
    _create(
        "rollup_unanswered", *_keys("team", "quarter", *_PLACE),
        *_numbers("calls", *_BUCKETS, "list_nanos", "extra_nanos"), **_BY_KEY,
    )  # fmt: skip
    _create(
        "latency_pending", *_numbers("hour"), *_texts("team", "feature", "model", "route"),
        *_nullable(BIG, "ttft", "duration", "itl"),
    )  # fmt: skip
    for table, key in (
        ("latency_day_histograms", ("metric", "day", "team", "feature", "model", "route")),
        ("latency_hour_histograms", ("metric", "hour", "team")),
    ):
        _create(table, *_keys(*key), *_nullable(BIG, *_HISTOGRAM), **_BY_KEY)
    row_id = sa.Column("id", sa.Integer, primary_key=True, autoincrement=False)
    _create("arm_measurement", row_id, *_numbers("measured"), *_texts("text"))


def _create_planning() -> None:
    family_key = ("team", "feature", "family")
    version = sa.Column("version", sa.Integer, primary_key=True, autoincrement=False)
    _create(
        "layouts", *_keys(*family_key), version, *_texts("digest", "moves", "state"),
        *_numbers("made"), *_texts("decided_by"), *_numbers("decided_at"),
        *_nullable(TEXT, "mode_before"),
    )  # fmt: skip
    _create(
        "features", *_keys(*family_key), *_texts("mode"), _integer("version"), _integer("former"),
        *_numbers("active_from", "measured_from"), *_texts("suspended"),
        *_numbers("suspended_at"), *_texts("changed_by"), *_numbers("changed_at"),
    )  # fmt: skip
    _create("plans", *_keys("conversation"), *_texts("plan"), *_numbers("used"))
    op.create_index("plans_used", "plans", ["used"])
    _create(
        "mark_accounts", *_keys(*family_key),
        *_numbers("balance", "direct", "staked", "earned", "calls", "tools", "stable",
                  "semi_stable", "first_call", "later_call", "halved", "updated"),
    )  # fmt: skip
    op.create_index("mark_accounts_updated", "mark_accounts", ["updated"])
    _create("team_losses", *_keys("team", "day"), *_numbers("lent", "updated"), **_BY_KEY)
    op.create_index("team_losses_updated", "team_losses", ["updated"])
    _create(
        "compactions", *_keys("team", "feature"), *_texts("mode"),
        *_nullable(sa.Integer, "keep_turns"), *_nullable(BIG, "target_tokens"),
        *_texts("stepped", "why"), *_numbers("stepped_at", "measured_from"),
        *_texts("changed_by"), *_numbers("changed_at"),
    )  # fmt: skip


def _create_alerts() -> None:
    _create(
        "alerts", *_keys("id"), *_texts("text"), *_numbers("began"),
        *_nullable(BIG, "ended", "expires"),
    )  # fmt: skip
    op.create_index("alerts_began", "alerts", ["began"])
    _create(
        "outbox", *_keys("alert", "sink"), *_texts("phase"), *_nullable(BIG, "due"),
        _integer("tries"), *_nullable(BIG, "sent"), *_texts("why"),
    )  # fmt: skip
    op.create_index("outbox_due", "outbox", ["sink", "due"])
    _create(
        "pins", *_keys("objective", "made"), _integer("level"), *_numbers("until"),
        *_texts("why", "who"),
    )  # fmt: skip
    _create(
        "report_deliveries", *_keys("report", "ends", "recipient"), *_texts("begins"),
        *_nullable(BIG, "due"), _integer("tries"), *_nullable(BIG, "sent"), *_texts("why"),
    )  # fmt: skip
    _create(
        "stored_budgets", *_keys("name"), *_texts("text", "changed_by"), *_numbers("changed_at")
    )
    _create("replica_runs", *_keys("upstream", "began"), *_numbers("ended"))


def _create(name: str, *columns: sa.schema.SchemaItem, **options: bool) -> None:
    op.create_table(name, *columns, sqlite_strict=True, **options)


def _create_partial_index(name: str, columns: str, condition: str) -> None:
    op.execute(f"CREATE INDEX {name} ON calls ({columns}) WHERE {condition}")


def _keys(*names: str) -> Iterator[Column]:
    for name in names:
        kind = BIG if name in _NUMBER_KEYS else TEXT
        yield sa.Column(name, kind, primary_key=True, autoincrement=False)


def _texts(*names: str) -> Iterator[Column]:
    return (sa.Column(name, TEXT, nullable=False) for name in names)


def _numbers(*names: str) -> Iterator[Column]:
    return (sa.Column(name, BIG, nullable=False) for name in names)


def _nullable(kind: sa.types.TypeEngine[Any] | type[sa.Integer], *names: str) -> Iterator[Column]:
    return (sa.Column(name, kind) for name in names)


def _integer(name: str) -> Column:
    """A small number, or yes and no as 1 and 0."""
    return sa.Column(name, sa.Integer, nullable=False)


def _hash() -> Column:
    return sa.Column("hash", sa.LargeBinary, nullable=False)


def _reference(name: str, table: str, of: str) -> Column:
    foreign = sa.ForeignKey(f"{table}.id", name=f"{of}_{name}_fk")
    return sa.Column(name, TEXT, foreign, nullable=False)


def _sums() -> Iterator[Column]:
    yield from _numbers(*_COUNTS)
    yield from _nullable(BIG, *_COSTS)
    yield from _numbers(*_TIMES)
    yield from _nullable(BIG, *_SUMS_OR_NULL)
