"""Alerts with their stages, deliveries and what people did about them, in one database."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
from sqlalchemy import Connection, Engine, and_, select, update

from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import AuditedChange, record_change
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.outbox import OutboxMessage, decode_alerts, read_messages
from proxy.store.sql.rows import read_records, record_of, update_clause, upsert
from slo.alert import Alert, problem_key

ResponseAction = Literal["acknowledge", "snooze"]

#: Alerts that are looked through for stages of one; the counters of a budget share the beginning.
_MAX_STAGES_READ: Final = 2_000
_MAX_MESSAGES: Final = 50
_MAX_RESPONSES: Final = 100
_MAX_OPEN_RESPONSES: Final = 5_000
#: Hex digits that the ids of all alerts about one budget begin with.
_BUDGET_DIGITS: Final = 8

_WRITTEN: Final = upsert(schema.alert_responses, update_clause("who", "until"))


class AlertResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person did about an alert.

    Attributes:
        alert: Id of the alert.
        at: Time at which they did it, in seconds since the epoch.
        until: End of a snooze, likewise; None for others.
    """

    alert: str
    action: ResponseAction
    at: float
    who: str
    until: float | None = None


class AlertRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An alert and all that is known of it.

    Attributes:
        stages: All alerts of the same problem, itself too, in the order in which they began.
        messages: Messages about these to sinks, sent or not.
        responses: Responses of people to these, in order.
    """

    alert: Alert
    stages: Sequence[Alert]
    messages: Sequence[OutboxMessage]
    responses: Sequence[AlertResponse]


class AlertRecords:
    """Reads alerts, and writes what people do about them; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, alert_id: str) -> AlertRecord | None:
        """The alert with this id; None if there is none."""
        with read_transaction(self._engine) as connection:
            stages = _read_stages(connection, alert_id)
            alert = next((stage for stage in stages if stage.id == alert_id), None)
            if alert is None:
                return None
            ids = [stage.id for stage in stages]
            messages = read_messages(connection, schema.outbox.c.alert.in_(ids), _MAX_MESSAGES)
            responses = schema.alert_responses
            query = (
                select(responses)
                .where(responses.c.alert.in_(ids))
                .order_by(responses.c.at.desc())
                .limit(_MAX_RESPONSES)
            )
            rows = list(connection.execute(query).mappings())
        done = [record_of(row, AlertResponse) for row in reversed(rows)]
        return AlertRecord(alert=alert, stages=stages, messages=messages, responses=done)

    def open_responses(self) -> list[AlertResponse]:
        """The responses to alerts that go on, in order."""
        responses, alerts = schema.alert_responses, schema.alerts
        query = (
            select(responses)
            .join(alerts, alerts.c.id == responses.c.alert)
            .where(alerts.c.ended.is_(None))
            .order_by(responses.c.at.desc())
            .limit(_MAX_OPEN_RESPONSES)
        )
        return read_records(self._engine, query, AlertResponse)[::-1]

    def respond(self, response: AlertResponse) -> bool:
        """Write down a response to all open stages of an alert; False where it does not go on.

        A snooze takes the place of an earlier one, and ends it where it ends at once.
        """
        with write_transaction(self._engine) as connection:
            stages = _read_stages(connection, response.alert)
            ids = [stage.id for stage in stages if stage.is_open]
            if response.alert not in ids:
                return False
            if response.action == "snooze":
                _end_snoozes(connection, ids, response.at)
            rows = [{**msgspec.structs.asdict(response), "alert": alert_id} for alert_id in ids]
            connection.execute(_WRITTEN, rows)
            alert = next(stage for stage in stages if stage.id == response.alert)
            record_change(connection, _change(alert, response), response.at)
        return True


def current_snooze(responses: Iterable[AlertResponse], now: float) -> AlertResponse | None:
    """The snooze that these leave in force; None for none."""
    snoozes = [response for response in responses if (response.until or 0.0) > now]
    return max(snoozes, key=lambda snooze: snooze.until or 0.0, default=None)


def acknowledged_by(responses: Iterable[AlertResponse]) -> str:
    """Name of the last person who acknowledged the alert of these; "" for nobody."""
    names = [response.who for response in responses if response.action == "acknowledge"]
    return names[-1] if names else ""


def _read_stages(connection: Connection, alert_id: str) -> list[Alert]:
    """All alerts of the same problem as this one, in the order in which they began."""
    alerts = schema.alerts.c
    (alert,) = decode_alerts(
        connection.execute(select(alerts.text).where(alerts.id == alert_id)).scalars()
    ) or (None,)
    if alert is None or alert.kind not in {"budget", "burn"}:
        return [] if alert is None else [alert]
    start = alert_id[:_BUDGET_DIGITS]
    # Ids of a budget's alerts begin alike; of an objective's, those that go on are one problem.
    same_budget = and_(alerts.id >= start, alerts.id < f"{start}~")
    is_related = same_budget if alert.kind == "budget" else alerts.ended.is_(None)
    if alert.kind == "burn" and not alert.is_open:
        return [alert]
    query = select(alerts.text).where(is_related).limit(_MAX_STAGES_READ)
    by_id = {stage.id: stage for stage in decode_alerts(connection.execute(query).scalars())}
    key = problem_key(alert)
    stages = [stage for stage in (by_id | {alert.id: alert}).values() if problem_key(stage) == key]
    return sorted(stages, key=lambda stage: stage.began)


def _end_snoozes(connection: Connection, ids: Sequence[str], now: float) -> None:
    responses = schema.alert_responses
    goes_on = and_(responses.c.alert.in_(ids), responses.c.until > now)
    connection.execute(update(responses).where(goes_on).values(until=now))


def _change(alert: Alert, response: AlertResponse) -> AuditedChange:
    facts: dict[str, object] = {"alert": response.alert}
    if response.until is not None:
        facts["until"] = response.until
    return AuditedChange(
        who=response.who,
        action=f"{response.action} alert",
        subject=alert.title,
        after=facts,
    )
