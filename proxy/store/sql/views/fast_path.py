"""Reads what the fast path did in a period, by feature, beside the rules in force about each."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from sqlalchemy import BigInteger, Connection, cast, func, select

from dashboards.fast_path_savings import FastPathPart, fast_path_savings
from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.views.fast_path import (
    FastPathFeature,
    FastPathRule,
    FastPathView,
    ProvedLoss,
    SimilarProof,
    WrongHit,
)
from proxy.records.amounts import quantity
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.rollups.rollup_tables import rollup_fast_path
from proxy.store.sql.rollups.spend_filters import filter_conditions
from proxy.store.sql.views.readers import Readers
from slo.objectives.objective import Objective
from slo.policies.answer_cache import AnswerCachePolicy, answer_cache_of
from slo.policies.drafts import DraftRule, drafting_model
from slo.policies.fast_path_switches import SwitchedPart, split_switches
from slo.policies.file import Policies
from slo.policies.small_first import SmallFirst
from slo.policies.stream_continuation import StreamContinuation, continuations_allowed

_MAX_FEATURES: Final = 500
_SAVING_PARTS: Final[tuple[FastPathPart, ...]] = ("cache", "small", "draft", "checks")
_NOTHING: Final = (0, 0)
_TITLES: Final[Mapping[SwitchedPart, str]] = {
    SwitchedPart.ANSWER_CACHE: "Answers given before",
    SwitchedPart.SMALL_FIRST: "Small model first",
    SwitchedPart.DRAFTS: "Drafts",
    SwitchedPart.STREAM_CONTINUATION: "Unbroken streams",
}

Place = tuple[str, str]
"""A team's id and its feature."""
PartSums = dict[str, tuple[int, int]]
"""Calls and savings in nano-dollars, by part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPathRules:
    """The rules of the policies in force, and the objectives, whose ladders name models.

    Attributes:
        keyed_upstreams: Upstreams that have the key they need; None for all.
    """

    answer_cache: Sequence[AnswerCachePolicy] = ()
    small_first: Sequence[SmallFirst] = ()
    drafts: Sequence[DraftRule] = ()
    stream_continuation: Sequence[StreamContinuation] = ()
    objectives: Sequence[Objective] = ()
    keyed_upstreams: Collection[str] | None = None

    @classmethod
    def of(
        cls, policies: Policies, keyed_upstreams: Collection[str] | None = None
    ) -> "FastPathRules":
        """The rules among the policies, with the switches before them."""
        return cls(
            answer_cache=policies.answer_cache,
            small_first=policies.small_first,
            drafts=policies.drafts,
            stream_continuation=policies.stream_continuation,
            objectives=policies.objectives,
            keyed_upstreams=keyed_upstreams,
        )


class _SwitchedRules:
    """The rules, and the features for which a part of them is off."""

    def __init__(self, rules: FastPathRules, proved: Sequence[ProvedLoss]) -> None:
        self._proved = {(proof.team, proof.rule): proof.proved_loss for proof in proved}
        self._cache, cache_off = split_switches(rules.answer_cache)
        self._small, small_off = split_switches(rules.small_first)
        self._drafts, drafts_off = split_switches(rules.drafts)
        self._streams, streams_off = split_switches(rules.stream_continuation)
        self._off = {
            SwitchedPart.ANSWER_CACHE: cache_off,
            SwitchedPart.SMALL_FIRST: small_off,
            SwitchedPart.DRAFTS: drafts_off,
            SwitchedPart.STREAM_CONTINUATION: streams_off,
        }

    def switched_off(self, names: Mapping[str, str], only: SpendFilter) -> Iterator[Place]:
        """The features with a part that is off, with calls or without, among those that count.

        Args:
            names: Names of teams by id.
        """
        ids, teams = {name: team for team, name in names.items()}, only.counted_teams
        features = only.values.get("feature")
        if only.values.keys() - {"team", "feature"}:
            return
        for name, feature in frozenset[Place]().union(*self._off.values()):
            is_counted = features is None or feature in features
            if name in ids and is_counted and (teams is None or ids[name] in teams):
                yield ids[name], feature

    def rules_of(self, team: str, name: str, feature: str) -> Iterator[FastPathRule]:
        """The rule of each part about a team's feature, whether it is on or switched off.

        Args:
            team: The team's id.
            name: Its name.
        """

        def rule_of(part: SwitchedPart, text: str) -> FastPathRule:
            is_on = (name, feature) not in self._off[part]
            return FastPathRule(part=part.value, title=_TITLES[part], text=text, is_on=is_on)

        if cache := answer_cache_of(self._cache, name, feature):
            similar = ", similar questions too" if cache.similar else ""
            yield rule_of(SwitchedPart.ANSWER_CACHE, f"{cache.name}{similar}")
        small = next((rule for rule in self._small if rule.applies_to(name, feature)), None)
        if small is not None:
            yield replace(
                rule_of(SwitchedPart.SMALL_FIRST, f"{small.name}: {small.small}"),
                proved_loss=self._proved.get((team, small.name)),
                max_loss=small.max_loss,
            )
        if model := drafting_model(self._drafts, name, feature):
            yield rule_of(SwitchedPart.DRAFTS, model)
        if times := continuations_allowed(self._streams, name, feature):
            yield rule_of(SwitchedPart.STREAM_CONTINUATION, f"up to {quantity(times, 'time')}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPathQuestion:
    """A question for the fast path.

    Attributes:
        proved: Bounds of small models, without their teams' names.
        similar: Proofs of answers to similar questions, without these names.
    """

    period: ReportPeriod
    only: SpendFilter
    rules: FastPathRules
    proved: Sequence[ProvedLoss]
    similar: Sequence[SimilarProof] = ()


def fast_path_view(readers: Readers, question: FastPathQuestion) -> FastPathView:
    """The fast path in a period, by feature; blocks."""
    period, names = question.period, readers.team_names()
    rules = _SwitchedRules(question.rules, question.proved)
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        calls = _calls_by_place(connection, period.bounds, question.only)
        parts = _parts_by_place(connection, period.bounds, question.only)
    features = [
        _feature_row(place, (calls.get(place, 0), parts.get(place, {})), names, rules)
        for place in sorted({*calls, *parts, *rules.switched_off(names, question.only)})
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
        similar=[*_similar_proofs(question, names)],
    )


def _similar_proofs(question: FastPathQuestion, names: Mapping[str, str]) -> Iterator[SimilarProof]:
    """The proofs of features that a rule is about, with texts only where it still allows them."""
    for proof in question.similar:
        name = names.get(proof.team, proof.team)
        rule = answer_cache_of(question.rules.answer_cache, name, proof.feature)
        if rule is not None and rule.similar:
            wrong = [
                hit if rule.show_wrong else WrongHit(checked_at=hit.checked_at)
                for hit in proof.last_wrong
            ]
            yield replace(proof, team_name=name, last_wrong=wrong)


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
    rules: _SwitchedRules,
) -> FastPathFeature:
    (team, feature), (calls, parts) = place, sums
    name = names.get(team, team)

    def calls_of(part: str) -> int:
        return parts.get(part, _NOTHING)[0]

    return FastPathFeature(
        team=team,
        team_name=name,
        feature=feature,
        rules=[*rules.rules_of(team, name, feature)],
        calls=calls,
        cached_calls=calls_of("cache"),
        small_calls=calls_of("small"),
        weighed_calls=calls_of("large"),
        drafted_calls=calls_of("draft"),
        check_calls=calls_of("checks"),
        saved_nanos=sum(nanos for _, nanos in parts.values()),
    )
