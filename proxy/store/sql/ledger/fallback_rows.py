"""Recent fallbacks, and what led to them: rerouted calls, the controller's moves, misses."""

import re
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Engine,
    RowMapping,
    Select,
    and_,
    case,
    cast,
    func,
    or_,
    select,
)
from sqlalchemy.types import BigInteger

from dashboards.board import MissedTime, Reroute, ReroutedCall
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.outbox import decode_alerts
from proxy.store.sql.timestamps import seconds
from slo.alert import Alert

#: Patterns that tell alerts of these kinds from others without parsing them; a quote inside of a
#: text would have a backslash before it.
_MOVES: Final = ('%"kind":"move"%',)
_MISSES: Final = ('%"kind":"burn"%', '%"kind":"floor"%')
#: The level in a title of ``objective_alerts`` of earlier versions, whose facts have none.
_TITLE: Final = re.compile(r" is [a-z]+, on (?:[a-z]+ )+\d+: (?P<level>.*)\Z")
#: Seconds between the end of one stay and the beginning of the next that went on from it.
_MAX_GAP_S: Final = 1.0


class RecentFallbacks:
    """Recent fallbacks in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def calls(self, limit: int) -> list[ReroutedCall]:
        """The calls that were rerouted last, the newest first.

        However many calls there are, so many entries of ``calls_rerouted`` are read.
        """
        with read_transaction(self._engine) as connection:
            return [_call(row) for row in connection.execute(_calls(limit)).mappings()]

    def reroutes(self, limit: int) -> list[Reroute]:
        """The controller's last moves, the newest first."""
        return _stays(self._newest_alerts(_MOVES, limit + 1))[:limit]

    def missed_times(self, limit: int) -> list[MissedTime]:
        """The last times in which objectives were missed, by their alerts, the newest first."""
        return [
            MissedTime(objective=alert.subject, began=alert.began, ended=alert.ended)
            for alert in self._newest_alerts(_MISSES, limit)
        ]

    def _newest_alerts(self, patterns: tuple[str, ...], limit: int) -> list[Alert]:
        alerts = schema.alerts.c
        is_of_kind: list[ColumnElement[bool]] = [alerts.text.like(pattern) for pattern in patterns]
        query = select(alerts.text).where(or_(*is_of_kind))
        newest = query.order_by(alerts.began.desc(), alerts.id).limit(limit)
        with read_transaction(self._engine) as connection:
            return decode_alerts(connection.execute(newest).scalars())


def _calls(most: int) -> Select[Any]:
    """The last rerouted calls, each with what all of its attempts cost."""
    table = schema.calls.c
    columns = (table.call_id, table.started, table.team, table.feature, table.model, table.route)
    last = (
        select(*columns, table.outcome, table.error, table.reroute_reason)
        .where(schema.REROUTED)
        .order_by(table.call_id.desc())
        .limit(most)
        .subquery("last")
    )
    attempts = schema.calls.alias("attempts").c
    is_unpriced = and_(
        attempts.cost_nanos.is_(None),
        attempts.input.is_not(None) | attempts.ttft.is_not(None),
    )
    costs = select(
        case(
            (func.sum(case((is_unpriced, 1), else_=0)) > 0, None),
            else_=cast(func.coalesce(func.sum(attempts.cost_nanos), 0), BigInteger),
        )
    ).where(attempts.call_id == last.c.call_id)
    teams = schema.teams.c
    return (
        select(
            last,
            func.coalesce(teams.name, last.c.team).label("name"),
            costs.scalar_subquery().label("cost"),
        )
        .outerjoin(schema.teams, teams.id == last.c.team)
        .order_by(last.c.call_id.desc())
    )


def _call(row: RowMapping) -> ReroutedCall:
    return ReroutedCall(
        call_id=row["call_id"],
        at=seconds(row["started"]),
        team=row["name"],
        feature=row["feature"],
        model=row["model"],
        route=row["route"],
        outcome=row["outcome"],
        error=row["error"],
        why=row["reroute_reason"],
        cost_nanos=row["cost"],
    )


def _stays(newest: list[Alert]) -> list[Reroute]:
    """Alerts of moves as stays, in their order: one that another went on to is where that began."""
    return [
        Reroute(
            objective=alert.subject,
            source=_source(alert, newest[place + 1 :]),
            level=_level(alert),
            state=dict(alert.facts).get("state", ""),
            why=dict(alert.facts).get("why", ""),
            began=alert.began,
            ended=alert.ended,
        )
        for place, alert in enumerate(newest)
    ]


def _source(alert: Alert, before: list[Alert]) -> str:
    """The level of the stay that ended when this began; "" where none did."""
    own = (earlier for earlier in before if earlier.subject == alert.subject)
    last = next(own, None)
    if last is None or last.ended is None or abs(last.ended - alert.began) > _MAX_GAP_S:
        return ""
    return _level(last)


def _level(alert: Alert) -> str:
    if (level := dict(alert.facts).get("level")) is not None:
        return level
    match = _TITLE.search(alert.title)
    return match["level"] if match else ""
