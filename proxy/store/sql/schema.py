"""The tables. Only this package and the migrations know them; ``access_tables`` has some more.

Money is whole nano-dollars and time whole microseconds since the epoch (UTC): SQLite would turn
NUMERIC into floats, while integers are exact on both databases. Yes and no are 1 and 0, so that
they can be summed on both.

Partial indexes name their condition for SQLite alone. The migrations give it to PostgreSQL, too;
here it would import that dialect and its drivers into every process.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

from proxy.store.sql.receipt_columns import RECEIPT_COLUMNS, ReceiptColumn, SqlType
from slo.usage import Usage

BIG = BigInteger().with_variant(Integer, "sqlite")  # SQLite's INTEGER has 64 bits
# Ids sort by time only where text is compared byte by byte; it is the fastest order, too.
TEXT = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "uq": "%(table_name)s_%(column_0_name)s_unique",
        "fk": "%(table_name)s_%(column_0_name)s_fk",
    }
)

meta = Table(
    "meta",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("secret", LargeBinary),
    Column("number", BIG),
    sqlite_strict=True,
)
"""Facts about this installation: its secret, how often keys, layouts and compactions changed."""

teams = Table(
    "teams",
    metadata,
    Column("id", TEXT, primary_key=True),
    Column("name", TEXT, nullable=False),
    Column("keeps_prompts", Integer, nullable=False),
    Column("created", BIG, nullable=False),
    UniqueConstraint("name"),
    sqlite_strict=True,
)

keys = Table(
    "keys",
    metadata,
    Column("id", TEXT, primary_key=True),
    Column("team", TEXT, ForeignKey("teams.id"), nullable=False),
    Column("name", TEXT, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("hint", TEXT, nullable=False),
    Column("feature", TEXT, nullable=False),
    Column("created", BIG, nullable=False),
    Column("revoked_at", BIG),
    Column("expires", BIG),
    Column("models", TEXT),
    UniqueConstraint("hash"),
    sqlite_strict=True,
)
"""Callers' keys; ``models`` is a JSON list of the models that one may ask for, null for all."""

BUCKETS = Usage.__struct_fields__
"""Token buckets of a usage."""

PHASES = ("queue", "prefill", "decode", "transfer")
"""Phases of an engine's call, in microseconds, in the order in which they pass."""

SAVINGS_SUMS = (
    "read_saved_nanos",
    "write_extra_nanos",
    "planned",
    "planning_nanos",
    "planned_cost_nanos",
    "compaction_nanos",
    "notes_nanos",
    "expected_read",
    "missed",
    "miss_tokens",
    "miss_nanos",
)
"""Columns of rollups about savings and misses; null where no call said anything of them."""

_TYPES: dict[SqlType, TypeEngine[Any]] = {"text": TEXT, "integer": Integer(), "bigint": BIG}


def _receipt_column(column: ReceiptColumn) -> Column[Any]:
    """A column of ``calls``; a receipt's key is its call and attempt."""
    is_key = column.name in {"call_id", "attempt"}
    return Column(
        column.name,
        _TYPES[column.sql_type],
        primary_key=is_key,
        autoincrement=False if is_key else "auto",
        nullable=column.is_nullable,
    )


calls = Table(
    "calls",
    metadata,
    *map(_receipt_column, RECEIPT_COLUMNS),
    sqlite_strict=True,
)
"""One row per receipt, without its prompt; ``receipt_columns`` makes it of the receipt."""

PLANNED = calls.c.conversation.is_not(None)
"""The calls that ``calls_planned`` holds; a query has to say so to be answered from there."""

Index(
    "calls_planned",
    calls.c.team,
    calls.c.feature,
    calls.c.started,
    sqlite_where=PLANNED,
)

REROUTED = calls.c.reroute_reason.is_not(None) & (calls.c.final == 1)
"""The calls that another route answered in the end, which ``calls_rerouted`` holds, as above."""

Index("calls_rerouted", calls.c.call_id, sqlite_where=REROUTED)

prompts = Table(
    "prompts",
    metadata,
    Column("call_id", TEXT, primary_key=True),
    Column("text", TEXT, nullable=False),
    sqlite_strict=True,
)
"""Prompts as callers sent them, only for teams that keep prompts."""

rollups = Table(
    "rollups",
    metadata,
    # In this order a report walks one range per team and day and sorts only the sums of days.
    Column("team", TEXT, primary_key=True),
    Column("day", BIG, primary_key=True, autoincrement=False),
    Column("feature", TEXT, primary_key=True),
    Column("model", TEXT, primary_key=True),
    Column("route", TEXT, primary_key=True),
    Column("upstream", TEXT, primary_key=True),
    Column("key_id", TEXT, primary_key=True),
    Column("quarter", BIG, primary_key=True, autoincrement=False),
    Column("calls", BIG, nullable=False),
    Column("attempts", BIG, nullable=False),
    Column("errors", BIG, nullable=False),
    Column("estimated", BIG, nullable=False),
    Column("unpriced", BIG, nullable=False),
    *(Column(bucket, BIG, nullable=False) for bucket in BUCKETS),
    Column("list_nanos", BIG),
    Column("cost_nanos", BIG),
    Column("ttft_sum", BIG, nullable=False),
    Column("ttft_count", BIG, nullable=False),
    Column("duration_sum", BIG, nullable=False),
    *(Column(f"{phase}_sum", BIG) for phase in PHASES),
    Column("phases_count", BIG),
    Column("draft_tokens", BIG),
    Column("accepted_tokens", BIG),
    Column("gpu_seconds", BIG),
    *(Column(name, BIG) for name in SAVINGS_SUMS),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Sums over calls, by quarter of an hour.

Quarters, not hours: time zones are off UTC by multiples of 15 minutes, so a day in any of them is
a whole number of quarters and days add up to their month exactly. ``quarter`` is where it begins,
in seconds since the epoch; ``day`` numbers the days of UTC since then and only helps to find it.
Costs are null where no price was known; so are sums of phases, of draft tokens and of GPU time
where no call had any.
"""

plans = Table(
    "plans",
    metadata,
    Column("conversation", TEXT, primary_key=True),
    Column("plan", TEXT, nullable=False),
    Column("used", BIG, nullable=False),
    Index("plans_used", "used"),
    sqlite_strict=True,
)
"""Plan of each conversation, in JSON, and about when it was last asked for."""

layouts = Table(
    "layouts",
    metadata,
    Column("team", TEXT, primary_key=True),
    Column("feature", TEXT, primary_key=True),
    Column("family", TEXT, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("digest", TEXT, nullable=False),
    Column("moves", TEXT, nullable=False),
    Column("state", TEXT, nullable=False),
    Column("made", BIG, nullable=False),
    Column("decided_by", TEXT, nullable=False),
    Column("decided_at", BIG, nullable=False),
    Column("mode_before", TEXT),
    sqlite_strict=True,
)
"""Every layout that was proposed, and what became of it.

``mode_before`` is the mode that approving it replaced, "" for that of its feature, and null where
it replaced none.
"""

features = Table(
    "features",
    metadata,
    Column("team", TEXT, primary_key=True),
    Column("feature", TEXT, primary_key=True),
    Column("family", TEXT, primary_key=True),
    Column("mode", TEXT, nullable=False),
    Column("version", Integer, nullable=False),
    Column("former", Integer, nullable=False),
    Column("active_from", BIG, nullable=False),
    Column("measured_from", BIG, nullable=False),
    Column("suspended", TEXT, nullable=False),
    Column("suspended_at", BIG, nullable=False),
    Column("changed_by", TEXT, nullable=False),
    Column("changed_at", BIG, nullable=False),
    sqlite_strict=True,
)
"""Planning of each feature now: its mode, its layout, and its suspension."""

compactions = Table(
    "compactions",
    metadata,
    Column("team", TEXT, primary_key=True),
    Column("feature", TEXT, primary_key=True),
    Column("mode", TEXT, nullable=False),
    Column("keep_turns", Integer),
    Column("target_tokens", BIG),
    Column("stepped", TEXT, nullable=False),
    Column("why", TEXT, nullable=False),
    Column("stepped_at", BIG, nullable=False),
    Column("measured_from", BIG, nullable=False),
    Column("changed_by", TEXT, nullable=False),
    Column("changed_at", BIG, nullable=False),
    sqlite_strict=True,
)
"""The compaction mode of each feature, and whether the live quality check stepped it back."""

notes = Table(
    "notes",
    metadata,
    Column("key", TEXT, primary_key=True),
    Column("lines", TEXT, nullable=False),
    Column("used", BIG, nullable=False),
    Index("notes_used", "used"),
    sqlite_strict=True,
)
"""Notes of a model on compacted parts, and what later compactions took of them, as JSON."""

alerts = Table(
    "alerts",
    metadata,
    Column("id", TEXT, primary_key=True),
    Column("text", TEXT, nullable=False),
    Column("began", BIG, nullable=False),
    Column("ended", BIG),
    Column("expires", BIG),
    Index("alerts_began", "began"),
    sqlite_strict=True,
)
"""Alerts for people, in JSON, as they stand now; ``ended`` is null while one goes on."""

stored_budgets = Table(
    "stored_budgets",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("text", TEXT, nullable=False),
    Column("changed_by", TEXT, nullable=False),
    Column("changed_at", BIG, nullable=False),
    sqlite_strict=True,
)
"""Budgets that people set on pages, as JSON."""

replica_runs = Table(
    "replica_runs",
    metadata,
    Column("upstream", TEXT, primary_key=True),
    Column("began", BIG, primary_key=True, autoincrement=False),
    Column("ended", BIG, nullable=False),
    sqlite_strict=True,
)
"""Times that replicas ran, as gateways saw it; those of several gateways may overlap."""

report_deliveries = Table(
    "report_deliveries",
    metadata,
    Column("report", TEXT, primary_key=True),
    Column("ends", TEXT, primary_key=True),
    Column("recipient", TEXT, primary_key=True),
    Column("begins", TEXT, nullable=False),
    Column("due", BIG),
    Column("tries", Integer, nullable=False),
    Column("sent", BIG),
    Column("why", TEXT, nullable=False),
    sqlite_strict=True,
)
"""Scheduled reports by period, days as ``2026-11-30``; ``due`` and ``why`` are those of outbox."""

outbox = Table(
    "outbox",
    metadata,
    Column("alert", TEXT, primary_key=True),
    Column("sink", TEXT, primary_key=True),
    Column("phase", TEXT, nullable=False),
    Column("due", BIG),
    Column("tries", Integer, nullable=False),
    Column("sent", BIG),
    Column("why", TEXT, nullable=False),
    Index("outbox_due", "sink", "due"),
    sqlite_strict=True,
)
"""Messages to each sink about each alert.

``due`` is when the phase is to be told next, null for never again; ``sent`` is when the sink last
took something, and ``why`` the reason that it took nothing since.
"""

pins = Table(
    "pins",
    metadata,
    Column("objective", TEXT, primary_key=True),
    Column("made", BIG, primary_key=True, autoincrement=False),
    Column("level", Integer, nullable=False),
    Column("until", BIG, nullable=False),
    Column("why", TEXT, nullable=False),
    Column("who", TEXT, nullable=False),
    sqlite_strict=True,
)
"""The levels that people gave objectives, and until when: those that ended are kept, too."""
