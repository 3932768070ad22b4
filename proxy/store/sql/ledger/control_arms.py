"""Savings of planning and costs of misses, from the ledger."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Engine,
    Label,
    Select,
    Subquery,
    case,
    cast,
    func,
    select,
)

from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.guard import ArmComparison, ArmTotals, compare_arms, conversations_needed
from proxy.store.errors import StoreError
from proxy.store.sql import schema
from proxy.store.sql.database import StoppableReads, write_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.rows import read_value, record_of, update_clause, upsert
from proxy.store.sql.timestamps import micros

_PROMPT: Final = tuple(bucket for bucket in schema.BUCKETS if bucket not in {"output", "reasoning"})
#: The control arm's usual share of all conversations.
_CONTROL_SHARE: Final = 0.05
_KEY: Final = ("team", "feature", "arm")
#: Days of UTC, today included, over which control arms are compared.
COMPARED_DAYS: Final = 30
#: A measurement is made again after so many times as long as it took.
_MEASUREMENT_REST: Final = 100.0
#: Seconds after which it is made again at the latest.
MAX_MEASUREMENT_AGE_S: Final = 7_200.0
#: Seconds that a statement of it may take on PostgreSQL.
_MEASUREMENT_TIMEOUT_S: Final = 600.0
_DAY_S: Final = 86_400
_REPLACE_MEASUREMENT: Final = upsert(schema.arm_measurement, update_clause("measured", "text"))


class Estimate(msgspec.Struct, frozen=True):
    """Estimated savings of planning, by what caches should hold.

    Attributes:
        nanos: Savings in 1e-9 US dollars; below 0 where they cost more.
        cost: Cost in 1e-9 US dollars.
    """

    calls: int
    nanos: int
    cost: int

    @property
    def part(self) -> float:
        """The part of what they would have cost unmodified."""
        return self.nanos / (self.cost + self.nanos) if self.cost + self.nanos > 0 else 0.0


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Both arms of a feature, on all models together, and the verdict of their comparison.

    Attributes:
        estimate: Expected savings of the treated arm; None where unknown.
    """

    team: str
    feature: str
    treated: ArmTotals
    control: ArmTotals
    verdict: ArmComparison
    estimate: Estimate | None = None

    @property
    def missing_conversations(self) -> int:
        """Number of more conversations until a measured figure is shown, then counts; 0 for none.

        Until some were drawn into the control arm, it is taken to have its usual share.
        """
        both = self.treated.conversations + self.control.conversations
        share = self.control.conversations / both if self.control.conversations else _CONTROL_SHARE
        return conversations_needed(self.treated, self.control, share)


class ArmMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """The arms of all features compared over ``COMPARED_DAYS``.

    Attributes:
        at: Time at which it was begun, in seconds since the epoch.
        took: Seconds that it took.
    """

    at: float
    took: float
    comparisons: tuple[Comparison, ...]

    @property
    def since(self) -> float:
        """The beginning of the days that it covers."""
        return compared_since(self.at)

    @property
    def stale_at(self) -> float:
        """Time from which it is made again: the longer it took, the longer it holds."""
        return self.at + min(_MEASUREMENT_REST * self.took, MAX_MEASUREMENT_AGE_S)


def compared_since(now: float, days: int = COMPARED_DAYS) -> float:
    """The beginning of the first of so many days of UTC, today included."""
    return float((int(now) // _DAY_S - days + 1) * _DAY_S)


class MissSum(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of the tokens caches should have held and did not, for one reason.

    Attributes:
        reason: One of ``proxy.prefix.explain.reasons``, or one of an older version.
        calls: Number of attempts that missed.
        tokens: Tokens that they did not read.
        nanos: Cost of that in 1e-9 US dollars; None where no price was known.
        example: The id of the latest such call.
        detail: The evidence of that call; "" where none was kept.
    """

    team: str
    feature: str
    reason: str
    calls: int
    tokens: int
    nanos: int | None
    example: str
    detail: str = ""


class Savings:
    """Measurements over one database; every method may block.

    Args:
        timeout_s: Seconds that a statement may take on PostgreSQL; 0 for the usual.
    """

    def __init__(self, engine: Engine, timeout_s: float = 0.0) -> None:
        self._reads = StoppableReads(engine, timeout_s)

    def stop(self) -> None:
        """Stop what is being read, for good."""
        self._reads.stop()

    def arm_totals(
        self, since: float, *, team: str | None = None, feature: str | None = None
    ) -> Mapping[tuple[str, str], Mapping[ExperimentArm, ArmTotals]]:
        """Sums of each arm's conversations since a moment, by team and feature, in their order.

        Only what was paid and reported by the route asked for counts: usage that was counted here,
        calls at no known price, and those that another route answered would tell more about their
        models than about the arms.

        Args:
            team: The team's id, if it is to be one team's.
            feature: The feature, if it is to be one; "" is the feature of calls that name none.
        """
        query = _sums_by_arm(_conversations(since, team, feature))
        features: dict[tuple[str, str], dict[ExperimentArm, ArmTotals]] = {}
        with self._reads.transaction() as connection:
            for row in connection.execute(query).mappings():
                place = row["team"], row["feature"]
                arms = features.setdefault(place, dict.fromkeys(ExperimentArm, ArmTotals()))
                arms[ExperimentArm(row["arm"])] = record_of(row, ArmTotals)
        return features

    def compare(
        self, since: float, *, team: str | None = None, feature: str | None = None
    ) -> Sequence[Comparison]:
        """Each feature's arms since a moment compared, as ``arm_totals`` sums them."""
        estimates = self.estimates(since, team=team, feature=feature)
        return [
            Comparison(
                team=place[0],
                feature=place[1],
                treated=arms[ExperimentArm.TREATED],
                control=arms[ExperimentArm.CONTROL],
                verdict=compare_arms(arms[ExperimentArm.TREATED], arms[ExperimentArm.CONTROL]),
                estimate=estimates.get(place),
            )
            for place, arms in self.arm_totals(since, team=team, feature=feature).items()
        ]

    def estimates(
        self, since: float, *, team: str | None = None, feature: str | None = None
    ) -> Mapping[tuple[str, str], Estimate]:
        """Estimated savings of planning since a moment, by team and feature."""
        calls = schema.calls.c
        query = (
            select(
                calls.team,
                calls.feature,
                func.count().label("calls"),
                _sum(calls.planning_nanos, "nanos"),
                _sum(calls.cost_nanos, "cost"),
            )
            .where(
                *_planned_calls(since, team, feature),
                calls.planning_nanos.is_not(None),
                calls.cost_nanos.is_not(None),
            )
            .group_by(calls.team, calls.feature)
        )
        with self._reads.transaction() as connection:
            return {
                (row.team, row.feature): Estimate(row.calls, int(row.nanos), int(row.cost))
                for row in connection.execute(query)
            }

    def misses(self, since: float, *, team: str | None = None) -> Sequence[MissSum]:
        """Cache misses since a moment, by team and feature, the dearest reason first."""
        calls = schema.calls.c
        sums = (
            select(
                calls.team,
                calls.feature,
                calls.miss.label("reason"),
                func.count().label("calls"),
                _sum(func.coalesce(calls.miss_tokens, 0), "tokens"),
                _sum(calls.miss_nanos, "nanos"),
                func.max(calls.call_id).label("example"),
            )
            .where(*_planned_calls(since, team, None), calls.miss.is_not(None))
            .group_by(calls.team, calls.feature, calls.miss)
            .subquery()
        )
        example = schema.calls.alias().c
        detail = select(func.coalesce(func.max(example.miss_detail), "")).where(
            example.call_id == sums.c.example, example.miss == sums.c.reason
        )
        order = (sums.c.team, sums.c.feature, sums.c.nanos.desc().nulls_last(), sums.c.reason)
        query = select(sums, detail.scalar_subquery().label("detail")).order_by(*order)
        with self._reads.transaction() as connection:
            return [MissSum(**row._mapping) for row in connection.execute(query)]  # noqa: SLF001


class ArmMeasurements:
    """Comparisons of all arms, of which the last is stored for all processes; methods may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._savings = Savings(engine, _MEASUREMENT_TIMEOUT_S)

    def stop(self) -> None:
        """Stop what is being measured, for good."""
        self._savings.stop()

    def latest(self, after: float = 0.0) -> ArmMeasurement | None:
        """The stored measurement; None where there is none, or none begun after a moment."""
        table = schema.arm_measurement.c
        text = read_value(self._engine, select(table.text).where(table.measured > after))
        try:
            return None if text is None else msgspec.json.decode(text, type=ArmMeasurement)
        except msgspec.DecodeError:  # of another version, which shares the database for a while
            return None

    def measure(self, now: Callable[[], float]) -> ArmMeasurement:
        """Compare the arms, and store the result; it reads receipts, which takes long."""
        begun = now()
        comparisons = tuple(self._savings.compare(compared_since(begun)))
        measurement = ArmMeasurement(at=begun, took=now() - begun, comparisons=comparisons)
        values = {"id": 1, "measured": begun, "text": msgspec.json.encode(measurement).decode()}
        with suppress(StoreError), write_transaction(self._engine) as connection:
            # It counts here all the same; it is but measured once more elsewhere.
            connection.execute(_REPLACE_MEASUREMENT, values)
        return measurement


def _planned_calls(
    since: float, team: str | None, feature: str | None
) -> list[ColumnElement[bool]]:
    """Planned calls since a moment: one team's by the index for it, all teams' by their ids."""
    calls = schema.calls.c
    conditions = [schema.PLANNED, calls.started >= micros(since)]
    conditions.append(calls.team == team if team is not None else calls.call_id >= id_floor(since))
    return conditions if feature is None else [*conditions, calls.feature == feature]


def _conversations(since: float, team: str | None, feature: str | None) -> Subquery:
    """The sums of each conversation; unmodified ones at what they cost had all been unmodified.

    Those that were released stay in the arm that was drawn for them, or the arms would differ.
    It comes first in what is grouped by: a sort seldom has to look further.
    """
    calls = schema.calls.c
    tokens = sum((calls[bucket] for bucket in _PROMPT[1:]), start=calls[_PROMPT[0]])
    groups = (calls.team, calls.feature, calls.model)
    is_control = calls.arm != ExperimentArm.TREATED.value
    credit = case((is_control, func.coalesce(calls.planning_nanos, 0)), else_=0)
    drawn = func.min(calls.arm).label("arm")  # control, also where it was released
    return (
        select(
            *groups,
            drawn,
            _sum(calls.cost_nanos + credit, "cost"),
            _sum(tokens, "tokens"),
            _sum(calls.cache_read, "reads"),
        )
        .where(
            *_planned_calls(since, team, feature),
            calls.arm.in_([arm.value for arm in ExperimentArm]),
            calls.estimated == 0,
            calls.reroute_reason.is_(None),
            calls.cost_nanos.is_not(None),
            calls.input.is_not(None),
        )
        .group_by(calls.conversation, *groups)
        .subquery("conversations")
    )


def _sums_by_arm(conversations: Subquery) -> Select[Any]:
    """The sums over conversations, and those of products, which are too large for integers."""
    columns = conversations.c
    groups = [columns[name] for name in _KEY]
    sums = [_sum(columns[name], name) for name in ("cost", "tokens", "reads")]
    products = [
        func.sum(cast(columns[first], Double) * cast(columns[second], Double)).label(
            f"{first}_{second}"
        )
        for first, second in (
            ("cost", "cost"),
            ("cost", "tokens"),
            ("tokens", "tokens"),
            ("reads", "reads"),
            ("reads", "tokens"),
        )
    ]
    return (
        select(*groups, func.count().label("conversations"), *sums, *products)
        .group_by(*groups)
        .order_by(*groups)
    )


def _sum(column: ColumnElement[Any], name: str) -> Label[int]:
    return cast(func.sum(column), BigInteger).label(name)
