"""The tables. Only this package and the migrations know them; ``access_tables`` has some more.

Money is whole nano-dollars and time whole microseconds since the epoch (UTC): SQLite would turn
NUMERIC into floats, while integers are exact on both databases. Yes and no are 1 and 0, so that
they can be summed on both.

Partial indexes name their condition for SQLite alone. The migrations give it to PostgreSQL, too;
here it would import that dialect and its drivers into every process.
"""

from collections.abc import Iterator
from typing import Any, Final

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
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from proxy.store.sql.receipt_columns import RECEIPT_COLUMNS, ReceiptColumn, SqlType
from proxy.store.sql.timestamps import Timestamp
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
    "expected_read",
    "missed",
    "miss_tokens",
    "miss_nanos",
)
"""Columns of rollups about savings and misses; null where no call said anything of them."""

_TYPES: dict[SqlType, TypeEngine[Any]] = {"text": TEXT, "integer": Integer(), "bigint": BIG}
_Kind = TypeEngine[Any] | type[TypeEngine[Any]]
#: Options of tables that SQLite sorts by their key, and finds by nothing else.
BY_KEY: Final = {"sqlite_with_rowid": False}


def table(name: str, *columns: SchemaItem, **options: Any) -> Table:  # noqa: ANN401 - SQLAlchemy's
    """A table of both databases."""
    return Table(name, metadata, *columns, sqlite_strict=True, **options)


def keys_of(kind: _Kind, *names: str) -> Iterator[Column[Any]]:
    """Columns of a type that are, together, the primary key or a part of it."""
    return (Column(name, kind, primary_key=True, autoincrement=False) for name in names)


def columns_of(kind: _Kind, *names: str) -> Iterator[Column[Any]]:
    """Columns of a type that are never null."""
    return (Column(name, kind, nullable=False) for name in names)


def nullable_of(kind: _Kind, *names: str) -> Iterator[Column[Any]]:
    """Columns of a type that may be null."""
    return (Column(name, kind) for name in names)


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


meta = table(
    "meta",
    *keys_of(TEXT, "name"),
    *nullable_of(LargeBinary, "secret"),
    *nullable_of(BIG, "number"),
)
"""Facts about this installation: its secret, how often keys, layouts and compactions changed."""

teams = table(
    "teams",
    *keys_of(TEXT, "id"),
    *columns_of(TEXT, "name"),
    *columns_of(Integer, "keeps_prompts"),
    *columns_of(Timestamp, "created"),
    UniqueConstraint("name"),
)

keys = table(
    "keys",
    *keys_of(TEXT, "id"),
    Column("team", TEXT, ForeignKey("teams.id"), nullable=False),
    *columns_of(TEXT, "name"),
    *columns_of(LargeBinary, "hash"),
    *columns_of(TEXT, "hint", "feature"),
    *columns_of(Timestamp, "created"),
    *nullable_of(Timestamp, "revoked_at", "expires"),
    *nullable_of(TEXT, "models"),
    UniqueConstraint("hash"),
)
"""Callers' keys; ``models`` is a JSON list of the models that one may ask for, null for all."""

calls = table("calls", *map(_receipt_column, RECEIPT_COLUMNS))
"""One row per receipt, without its prompt; ``receipt_columns`` makes it of the receipt."""

PLANNED = calls.c.conversation.is_not(None)
"""The calls that ``calls_planned`` holds; a query has to say so to be answered from there."""

Index("calls_planned", calls.c.team, calls.c.feature, calls.c.started, sqlite_where=PLANNED)

REROUTED = calls.c.reroute_reason.is_not(None) & (calls.c.final == 1)
"""The calls that another route answered in the end, which ``calls_rerouted`` holds, as above."""

Index("calls_rerouted", calls.c.call_id, sqlite_where=REROUTED)

prompts = table("prompts", *keys_of(TEXT, "call_id"), *columns_of(TEXT, "text"))
"""Prompts as callers sent them, only for teams that keep prompts."""

rollups = table(
    "rollups",
    # In this order a report walks one range per team and day and sorts only the sums of days.
    *keys_of(TEXT, "team"),
    *keys_of(BIG, "day"),
    *keys_of(TEXT, "feature", "model", "route", "upstream", "key_id"),
    *keys_of(BIG, "quarter"),
    *columns_of(BIG, "calls", "attempts", "errors", "estimated", "unpriced", *BUCKETS),
    *nullable_of(BIG, "list_nanos", "cost_nanos"),
    *columns_of(BIG, "ttft_sum", "ttft_count", "duration_sum"),
    *nullable_of(BIG, *(f"{phase}_sum" for phase in PHASES), "phases_count"),
    *nullable_of(BIG, "draft_tokens", "accepted_tokens", "gpu_seconds", *SAVINGS_SUMS),
    **BY_KEY,
)
"""Sums over calls, by quarter of an hour.

Quarters, not hours: time zones are off UTC by multiples of 15 minutes, so a day in any of them is
a whole number of quarters and days add up to their month exactly. ``quarter`` is where it begins,
in seconds since the epoch; ``day`` numbers the days of UTC since then and only helps to find it.
Costs are null where no price was known; so are sums of phases, of draft tokens and of GPU time
where no call had any.
"""

plans = table(
    "plans",
    *keys_of(TEXT, "conversation"),
    *columns_of(TEXT, "plan"),
    *columns_of(Timestamp, "used"),
    Index("plans_used", "used"),
)
"""Plan of each conversation, in JSON, and about when it was last asked for."""

layouts = table(
    "layouts",
    *keys_of(TEXT, "team", "feature", "family"),
    *keys_of(Integer, "version"),
    *columns_of(TEXT, "digest", "moves", "state"),
    *columns_of(Timestamp, "made"),
    *columns_of(TEXT, "decided_by"),
    *columns_of(Timestamp, "decided_at"),
    *nullable_of(TEXT, "mode_before"),
)
"""Every layout that was proposed, and what became of it.

``mode_before`` is the mode that approving it replaced, "" for that of its feature, and null where
it replaced none.
"""

features = table(
    "features",
    *keys_of(TEXT, "team", "feature", "family"),
    *columns_of(TEXT, "mode"),
    *columns_of(Integer, "version", "former"),
    *columns_of(Timestamp, "active_from", "measured_from"),
    *columns_of(TEXT, "suspended"),
    *columns_of(Timestamp, "suspended_at"),
    *columns_of(TEXT, "changed_by"),
    *columns_of(Timestamp, "changed_at"),
)
"""Planning of each feature now: its mode, its layout, and its suspension."""

compactions = table(
    "compactions",
    *keys_of(TEXT, "team", "feature"),
    *columns_of(TEXT, "mode"),
    *nullable_of(Integer, "keep_turns"),
    *nullable_of(BIG, "target_tokens"),
    *columns_of(TEXT, "stepped", "why"),
    *columns_of(Timestamp, "stepped_at", "measured_from"),
    *columns_of(TEXT, "changed_by"),
    *columns_of(Timestamp, "changed_at"),
)
"""The compaction mode of each feature, and whether the live quality check stepped it back."""

alerts = table(
    "alerts",
    *keys_of(TEXT, "id"),
    *columns_of(TEXT, "text"),
    *columns_of(Timestamp, "began"),
    *nullable_of(Timestamp, "ended", "expires"),
    Index("alerts_began", "began"),
)
"""Alerts for people, in JSON, as they stand now; ``ended`` is null while one goes on."""

alert_responses = table(
    "alert_responses",
    *keys_of(TEXT, "alert", "action"),
    *keys_of(Timestamp, "at"),
    *columns_of(TEXT, "who"),
    *nullable_of(Timestamp, "until"),
)
"""Responses of people to alerts; ``until`` is the end of a snooze, and null for others."""

stored_budgets = table(
    "stored_budgets",
    *keys_of(TEXT, "name"),
    *columns_of(TEXT, "text", "changed_by"),
    *columns_of(BIG, "changed_at"),
)
"""Budgets that people set on pages, as JSON; ``changed_at`` is in microseconds."""

stored_policies = table(
    "stored_policies",
    *keys_of(TEXT, "kind", "name"),
    *columns_of(TEXT, "fields", "changed_by"),
    *columns_of(BIG, "changed_at"),
)
"""Ceilings and objectives that people set on pages: their fields in the file, as JSON."""

fast_path_switches = table(
    "fast_path_switches",
    *keys_of(TEXT, "team", "feature", "part"),
    *columns_of(TEXT, "changed_by"),
    *columns_of(BIG, "changed_at"),
)
"""Parts of the fast path that people turned off; ``changed_at`` is in microseconds."""

replica_runs = table(
    "replica_runs",
    *keys_of(TEXT, "upstream"),
    *keys_of(Timestamp, "began"),
    *columns_of(Timestamp, "ended"),
)
"""Times that replicas ran, as gateways saw it; those of several gateways may overlap."""

report_deliveries = table(
    "report_deliveries",
    *keys_of(TEXT, "report", "ends", "recipient"),
    *columns_of(TEXT, "begins"),
    *nullable_of(Timestamp, "due"),
    *columns_of(Integer, "tries"),
    *nullable_of(Timestamp, "sent"),
    *columns_of(TEXT, "why"),
)
"""Scheduled reports by period, days as ``2026-11-30``; ``due`` and ``why`` are those of outbox."""

outbox = table(
    "outbox",
    *keys_of(TEXT, "alert", "sink"),
    *columns_of(TEXT, "phase"),
    *nullable_of(Timestamp, "due"),
    *columns_of(Integer, "tries"),
    *nullable_of(Timestamp, "sent"),
    *columns_of(TEXT, "why"),
    Index("outbox_due", "sink", "due"),
)
"""Messages to each sink about each alert.

``due`` is when the phase is to be told next, null for never again; ``sent`` is when the sink last
took something, and ``why`` the reason that it took nothing since.
"""

pins = table(
    "pins",
    *keys_of(TEXT, "objective"),
    *keys_of(Timestamp, "made"),
    *columns_of(Integer, "level"),
    *columns_of(Timestamp, "until"),
    *columns_of(TEXT, "why", "who"),
)
"""The levels that people gave objectives, and until when: those that ended are kept, too."""

contexts = table(
    "contexts",
    *keys_of(TEXT, "team", "name"),
    *keys_of(Integer, "version"),
    *columns_of(TEXT, "text", "digest"),
    *columns_of(BIG, "bytes", "tokens"),
    *columns_of(Timestamp, "made"),
)
"""Texts that teams keep here and name in calls; a version never changes."""

answer_purges = table(
    "answer_purges",
    *keys_of(TEXT, "team", "scope", "name"),
    *columns_of(Timestamp, "purged_at"),
)
"""Answers that may not be given again, up to a time."""

arm_measurement = table(
    "arm_measurement",
    *keys_of(Integer, "id"),
    *columns_of(Timestamp, "measured"),
    *columns_of(TEXT, "text"),
)
"""One row: the last comparison of control arms, in JSON, and when it was begun."""

mark_accounts = table(
    "mark_accounts",
    *keys_of(TEXT, "team", "feature", "family"),
    *columns_of(BIG, "balance", "direct", "staked", "earned", "calls"),
    *columns_of(BIG, "tools", "stable", "semi_stable", "first_call", "later_call"),
    *columns_of(Timestamp, "halved", "updated"),
    Index("mark_accounts_updated", "updated"),
)
"""Costs and earnings of the cache marks of each feature: in nano-dollars, but for ``calls``.

The last five sums are balances of the places that marks end, of recent calls. ``halved`` is when a
loss was last made smaller, ``updated`` when a gateway last counted calls.
"""

team_losses = table(
    "team_losses",
    *keys_of(TEXT, "team"),
    *keys_of(BIG, "day"),
    *columns_of(BIG, "lent"),
    *columns_of(Timestamp, "updated"),
    Index("team_losses_updated", "updated"),
    **BY_KEY,
)
"""Amounts that all gateways may lose of a team in a day of UTC, or lost, in nano-dollars."""
