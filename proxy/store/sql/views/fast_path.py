"""Reads what the fast path did in a period, by feature, beside the rules in force about each."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from sqlalchemy import BigInteger, Connection, cast, func, select

from dashboards.fast_path_savings import FastPathPart, fast_path_savings
from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.views.fast_path import FastPathFeature, FastPathView, ProvedLoss
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.rollups.rollup_tables import rollup_fast_path
from proxy.store.sql.rollups.spend_filters import filter_conditions
from proxy.store.sql.views.readers import Readers
from slo.policies.answer_cache import AnswerCachePolicy, answer_cache_of
from slo.policies.drafts import DraftRule, drafting_model
from slo.policies.small_first import SmallFirst
from slo.policies.stream_continuation import StreamContinuation, continuations_allowed

_MAX_FEATURES: Final = 500
_SAVING_PARTS: Final[tuple[FastPathPart, ...]] = ("cache", "small", "draft", "checks")
_NOTHING: Final = (0, 0)

Place = tuple[str, str]
"""A team's id and its feature."""
PartSums = dict[str, tuple[int, int]]
"""Calls and savings in nano-dollars, by part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPathRules:
    """The rules of the policies in force."""

    answer_cache: Sequence[AnswerCachePolicy] = ()
    small_first: Sequence[SmallFirst] = ()
    drafts: Sequence[DraftRule] = ()
    stream_continuation: Sequence[StreamContinuation] = ()

    def names_of(self, team: str, feature: str) -> list[str]:
        """The names of the rules about a team's feature, after their kind."""
        rules = []
        if cache := answer_cache_of(self.answer_cache, team, feature):
            rules.append(f"answer cache {cache.name}{' (similar, too)' if cache.similar else ''}")
        first = (rule for rule in self.small_first if rule.applies_to(team, feature))
        if (small := next(first, None)) is not None:
            rules.append(f"small model first {small.name}: {small.small}")
        if model := drafting_model(self.drafts, team, feature):
            rules.append(f"drafts: {model}")
        if times := continuations_allowed(self.stream_continuation, team, feature):
            rules.append(f"streams continued, up to {times} times")
        return rules


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPathQuestion:
    """A question for the fast path.

    Attributes:
        proved: Bounds of small models, without their teams' names.
    """

    period: ReportPeriod
    only: SpendFilter
    rules: FastPathRules
    proved: Sequence[ProvedLoss]


def fast_path_view(readers: Readers, question: FastPathQuestion) -> FastPathView:
    """The fast path in a period, by feature; blocks."""
    period, names = question.period, readers.team_names()
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        calls = _calls_by_place(connection, period.bounds, question.only)
        parts = _parts_by_place(connection, period.bounds, question.only)
    features = [
        _feature_row(place, (calls.get(place, 0), parts.get(place, {})), names, question.rules)
        for place in sorted({*calls, *parts})
    ]
    shown = [row for row in features if row.rules or (row.team, row.feature) in parts]
    shown.sort(key=lambda row: (-row.saved_nanos, row.team, row.feature))
    sums = {
        part: sum(of_place.get(part, _NOTHING)[1] for of_place in parts.values())
        for part in _SAVING_PARTS
    }
    return FastPathView(
        first=period.first,
        last=period.end - timedelta(days=1),
        tz=period.zone,
        saved_nanos=sum(sums.values()),
        parts=fast_path_savings(sums),
        features=shown[:_MAX_FEATURES],
        proved=[
            replace(proof, team_name=names.get(proof.team, proof.team)) for proof in question.proved
        ],
    )


def _calls_by_place(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> dict[Place, int]:
    """All calls of each feature."""
    query = SumQuery(
        place=lambda rows: [rows.team, rows.feature],
        addends=lambda rows: {"calls": rows.calls},
        only=only,
    )
    sums = bucket_sums(connection, period, query)
    return {(team, feature): numbers["calls"] for (_, team, feature), numbers in sums.items()}


def _parts_by_place(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> dict[Place, PartSums]:
    """Calls and savings of each feature by part; empty for those without the fast path."""
    rows = rollup_fast_path.c
    places = (rows.team, rows.feature, rows.part)
    sums = (cast(func.sum(rows[name]), BigInteger) for name in ("calls", "saved_nanos"))
    conditions = (rows.quarter.between(period[0], period[1] - 1), *filter_conditions(rows, only))
    query = select(*places, *sums).where(*conditions).group_by(*places)
    found = defaultdict[Place, PartSums](dict)
    for team, feature, part, calls, nanos in connection.execute(query):
        found[team, feature][part] = (calls, nanos)
    return found


def _feature_row(
    place: Place,
    sums: tuple[int, PartSums],
    names: Mapping[str, str],
    rules: FastPathRules,
) -> FastPathFeature:
    (team, feature), (calls, parts) = place, sums
    name = names.get(team, team)

    def calls_of(part: str) -> int:
        return parts.get(part, _NOTHING)[0]

    return FastPathFeature(
        team=team,
        team_name=name,
        feature=feature,
        rules=rules.names_of(name, feature),
        calls=calls,
        cached_calls=calls_of("cache"),
        small_calls=calls_of("small"),
        weighed_calls=calls_of("large"),
        drafted_calls=calls_of("draft"),
        check_calls=calls_of("checks"),
        saved_nanos=sum(nanos for _, nanos in parts.values()),
    )
