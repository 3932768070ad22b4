"""The outbox: the messages for each sink, kept until the sink has taken them.

::

    put ── due ─┬─ sent ────── due again, while the alert is open and repeated; else done
                ├─ failed ──── due later
                └─ (nothing)   due again after the lease: its process is gone

One row for each alert and sink. Its phase is ``open`` until the alert ends; from then on it is
``resolved``, and the sink is told of the end if it took the beginning. Of an alert that ends
before that the sink is told nothing: there is nothing to close. Processes on one database share
the rows; what one has taken the others leave for its lease.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    and_,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    update,
)

from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import read_value, record_of, update_clause, upsert
from slo.alert import Alert, Severity, is_at_least, resolve_alert, single_line

OPEN: Final = "open"
RESOLVED: Final = "resolved"
#: Alerts that are kept.
MAX_ALERTS: Final = 10_000
_MAX_REASON_CHARS: Final = 200
_ROWS_PER_DELETE: Final = 500

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Alert).decode

_OPENED: Final = upsert(schema.alerts)
_ENDED: Final = upsert(
    schema.alerts, f"{update_clause('text', 'ended')} WHERE alerts.ended IS NULL"
)
_ADDRESSED: Final = upsert(schema.outbox)
_UNSENT: Final = {"phase": OPEN, "tries": 0, "sent": None, "why": ""}


class OutboxMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to one sink about an alert, sent or yet to be sent.

    Attributes:
        due: Time of the next delivery, in seconds since the epoch; None for never again.
        tries: Number of times the sink refused it.
        sent: Time at which the sink last took something of this alert; None for never.
        why: Reason that it took nothing since; "" if nothing failed.
    """

    alert: Alert
    sink: str
    due: float | None = None
    tries: int = 0
    sent: float | None = None
    why: str = ""

    @property
    def phase(self) -> str:
        """The phase of its alert."""
        return OPEN if self.alert.is_open else RESOLVED


class Outbox:
    """Alerts and what sinks know of them, in one database; every method may block.

    Args:
        most: Alerts that are kept; of more the oldest go, those that ended first.
    """

    def __init__(self, engine: Engine, most: int = MAX_ALERTS) -> None:
        self._engine = engine
        self._most = most

    def add(
        self, alerts: Sequence[Alert], sinks: Mapping[str, Severity], due: float
    ) -> list[Alert]:
        """Store alerts and a message for each sink; returns the alerts that were new.

        What was kept in the same phase before stays as it is, and one that ended stays ended. Its
        end goes to the sinks that took its beginning.

        Args:
            sinks: The least urgent that each sink is told.
            due: Time of the delivery, in seconds since the epoch.
        """
        in_turn = sorted(alerts, key=lambda alert: alert.id)  # two processes never cross
        with write_transaction(self._engine) as connection:
            news = [alert for alert in in_turn if _add_alert(connection, alert, sinks, due)]
            if news:
                _prune(connection, self._most)
        return news

    def claim_due(self, sink: str, now: float, most: int, lease: float) -> list[OutboxMessage]:
        """Claims the sink's due messages, the longest due first; nobody else gets them meanwhile.

        Those of a snoozed alert wait, but for its end.

        Args:
            lease: Seconds after which it is due again, unless it was ``sent`` or ``failed``.
        """
        outbox = schema.outbox
        is_due = and_(outbox.c.sink == sink, outbox.c.due <= now, _not_snoozed(now))
        if read_value(self._engine, select(outbox.c.alert).where(is_due).limit(1)) is None:
            return []
        some = select(outbox.c.alert).where(is_due).order_by(outbox.c.due).limit(most)
        with write_transaction(self._engine) as connection:
            locked = some.with_for_update(skip_locked=True)
            claimed = list(connection.execute(locked).scalars())
            is_mine = and_(outbox.c.sink == sink, outbox.c.alert.in_(claimed))
            connection.execute(update(outbox).where(is_mine).values(due=now + lease))
            return read_messages(connection, is_mine, most)

    def mark_sent(
        self, letters: Sequence[OutboxMessage], now: float, again: Callable[[Alert], float | None]
    ) -> None:
        """Note that a sink took letters.

        What ended since they were taken out is to be told now: the sink knows that it began.

        Args:
            letters: To one sink, as ``due`` gave them.
            again: In how many seconds an alert is told again; None for never.
        """
        by_due: dict[float | None, list[OutboxMessage]] = {}
        for letter in letters:
            later = again(letter.alert)
            due = None if later is None else now + later
            by_due.setdefault(due, []).append(letter)
        noted = {"sent": now, "tries": 0, "why": ""}
        with write_transaction(self._engine) as connection:
            _lock(connection, letters)
            for due, some in by_due.items():
                _update_messages(connection, some, {**noted, "due": due})
            _make_endings_due(connection, letters, now)

    def mark_failed(
        self,
        letters: Sequence[OutboxMessage],
        why: str,
        due: float | None,
        *,
        is_refused: bool = False,
    ) -> None:
        """Note that a sink did not take letters, and when to try again.

        Args:
            due: Time of the next try, in seconds since the epoch; None to give up.
            is_refused: True if it is for what they say: each refusal counts as a try.
        """
        noted = {
            "due": due,
            "tries": schema.outbox.c.tries + int(is_refused),
            "why": single_line(why, _MAX_REASON_CHARS),
        }
        with write_transaction(self._engine) as connection:
            _lock(connection, letters)
            _update_messages(connection, letters, noted)

    def expire(self, now: float) -> list[Alert]:
        """The open alerts that have come to their own end, as they ended then."""
        alerts = schema.alerts.c
        over = and_(alerts.ended.is_(None), alerts.expires <= now)
        query = select(alerts.text).where(over).order_by(alerts.expires).limit(_ROWS_PER_DELETE)
        expired = _read_alerts(self._engine, query)
        return [resolve_alert(alert, alert.expires or now) for alert in expired]

    def retain(self, since: float) -> int:
        """Delete alerts that ended before ``since``, in epoch seconds; returns their number."""
        alerts, gone = schema.alerts, 0
        old = select(alerts.c.id).where(alerts.c.ended < since).limit(_ROWS_PER_DELETE)
        while True:
            with write_transaction(self._engine) as connection:
                step = _delete_alerts(connection, old)
            gone += step
            if step < _ROWS_PER_DELETE:
                return gone

    def open_alerts(self, most: int) -> list[Alert]:
        """The alerts that go on, the newest first."""
        alerts = schema.alerts.c
        query = select(alerts.text).where(alerts.ended.is_(None))
        return _read_alerts(self._engine, query.order_by(alerts.began.desc()).limit(most))

    def begun_between(self, start: float, end: float, most: int) -> list[Alert]:
        """The alerts that began in a period, the newest first.

        Args:
            end: The same; what began then is not in it.
        """
        alerts = schema.alerts.c
        is_in = and_(alerts.began >= start, alerts.began < end)
        query = select(alerts.text).where(is_in).order_by(alerts.began.desc()).limit(most)
        return _read_alerts(self._engine, query)

    def ended_ids(self, ids: Iterable[str]) -> set[str]:
        """Those of these alerts that ended; what was never written down did not."""
        alerts = schema.alerts.c
        query = select(alerts.id).where(alerts.id.in_(list(ids)), alerts.ended.is_not(None))
        with read_transaction(self._engine) as connection:
            return set(connection.execute(query).scalars())

    def last_messages(self, most: int) -> list[OutboxMessage]:
        """The messages sent last, after those that could not be sent."""
        with read_transaction(self._engine) as connection:
            lost = read_messages(connection, schema.outbox.c.why != "", most)
            messages = read_messages(connection, schema.outbox.c.sent.is_not(None), most)
        return (lost + [letter for letter in messages if not letter.why])[:most]


def _not_snoozed(now: float) -> ColumnElement[bool]:
    """The condition that leaves messages of alerts that nobody snoozed, and of their ends."""
    responses, outbox = schema.alert_responses.c, schema.outbox.c
    snoozed = select(responses.alert).where(responses.until > now)
    return or_(outbox.phase == RESOLVED, outbox.alert.not_in(snoozed))


def _read_alerts(engine: Engine, query: Select[Any]) -> list[Alert]:
    with read_transaction(engine) as connection:
        return decode_alerts(connection.execute(query).scalars())


def decode_alerts(texts: Iterable[str]) -> list[Alert]:
    """The alerts of texts; what a newer version wrote that this one cannot read is left to it."""
    alerts = []
    for alert_text in texts:
        with suppress(msgspec.DecodeError):
            alerts.append(_decode(alert_text))
    return alerts


def _add_alert(
    connection: Connection, alert: Alert, sinks: Mapping[str, Severity], due: float
) -> bool:
    """True if the alert, in its phase, was news."""
    row = {
        "id": alert.id,
        "text": _encode(alert).decode(),
        "began": alert.began,
        "ended": alert.ended,
        "expires": alert.expires,
    }
    stored = connection.execute(_OPENED if alert.is_open else _ENDED, row)
    if not stored.rowcount:
        return False
    if not alert.is_open:  # also to those whom this process would not tell
        outbox = schema.outbox.c
        messages = update(schema.outbox).where(outbox.alert == alert.id)
        ends = case((outbox.sent.is_not(None), literal(due, outbox.due.type)), else_=None)
        connection.execute(messages.values(phase=RESOLVED, due=ends, tries=0, why=""))
        return True
    addressed = [
        {**_UNSENT, "alert": alert.id, "sink": sink, "due": due}
        for sink, least in sinks.items()
        if is_at_least(alert.severity, least)
    ]
    if addressed:
        connection.execute(_ADDRESSED, addressed)
    return True


def _lock(connection: Connection, letters: Sequence[OutboxMessage]) -> None:
    """Take the letters' rows in the order that ``put`` does, so that neither waits for the other.

    SQLite has one writer anyway.
    """
    outbox = schema.outbox.c
    named = [letter.alert.id for letter in letters]
    rows = select(outbox.alert).where(outbox.alert.in_(named)).order_by(outbox.alert)
    connection.execute(rows.with_for_update()).all()


def _update_messages(
    connection: Connection, letters: Sequence[OutboxMessage], noted: Mapping[str, object]
) -> None:
    """Update messages to one sink, unless their alerts have ended meanwhile."""
    outbox = schema.outbox
    for phase in (OPEN, RESOLVED):
        named = [letter.alert.id for letter in letters if letter.phase == phase]
        if named:
            is_one = and_(
                outbox.c.sink == letters[0].sink,
                outbox.c.phase == phase,
                outbox.c.alert.in_(named),
            )
            connection.execute(update(outbox).where(is_one).values(**noted))


def _make_endings_due(connection: Connection, letters: Sequence[OutboxMessage], now: float) -> None:
    """Make endings due now whose beginnings were being sent when they came."""
    outbox = schema.outbox
    named = [letter.alert.id for letter in letters if letter.phase == OPEN]
    if named:
        is_over = and_(
            outbox.c.sink == letters[0].sink,
            outbox.c.phase == RESOLVED,
            outbox.c.sent.is_(None),
            outbox.c.alert.in_(named),
        )
        connection.execute(update(outbox).where(is_over).values(sent=now, due=now))


def read_messages(
    connection: Connection, where: ColumnElement[bool], most: int
) -> list[OutboxMessage]:
    """The messages of these rows, the last sent first."""
    outbox, alerts = schema.outbox, schema.alerts
    query = (
        select(outbox, alerts.c.text)
        .join(alerts, alerts.c.id == outbox.c.alert)
        .where(where)
        .order_by(outbox.c.sent.desc(), alerts.c.began.desc())
        .limit(most)
    )
    return [
        record_of({**row, "alert": alert}, OutboxMessage)
        for row in connection.execute(query).mappings()
        for alert in decode_alerts([row["text"]])
    ]


def _prune(connection: Connection, most: int) -> None:
    """Keep no more alerts than there may be."""
    alerts = schema.alerts
    count = connection.execute(select(func.count()).select_from(alerts)).scalar_one()
    if count > most:
        oldest = select(alerts.c.id).order_by(alerts.c.ended.is_(None), alerts.c.began)
        _delete_alerts(connection, oldest.limit(count - most))


def _delete_alerts(connection: Connection, some: Select[tuple[str]]) -> int:
    """Delete these alerts with their messages; returns the number of alerts deleted."""
    alerts, outbox, responses = schema.alerts, schema.outbox, schema.alert_responses
    gone = list(connection.execute(some).scalars())
    connection.execute(delete(outbox).where(outbox.c.alert.in_(gone)))
    connection.execute(delete(responses).where(responses.c.alert.in_(gone)))
    return connection.execute(delete(alerts).where(alerts.c.id.in_(gone))).rowcount
