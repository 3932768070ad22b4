"""The fast path of a period by feature, and bounds on lost answers: ``/api/v1/fast-path``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from fastapi import Query
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.views.fast_path import FastPathView, ProvedLoss, SimilarProof, WrongHit
from proxy.fast_path.similarity.evidence import SimilarityEvidence
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import CallQuery, json_response
from proxy.pages.store_questions import StoreQuestions, json_bytes
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.services.fast_path.similar_answer_cache import SimilarAnswerCache
from proxy.services.fast_path.small_first import SmallFirstRouting
from proxy.store.sql.views.fast_path import FastPathQuestion, FastPathRules, fast_path_view

T = TypeVar("T")


@dataclass(eq=False)
class FastPathResource(Resource):
    """The fast path, as pages and the API read it.

    Attributes:
        rules: Returns the rules in force.
        small_first: Returns what sends calls to small models; None where nothing does.
        similar: Returns the cache of answers to similar questions; None where there is none.
    """

    tag = "fast path"

    _ask: StoreQuestions
    _now: Clock
    rules: Callable[[], FastPathRules] = field(default=FastPathRules)
    small_first: Callable[[], SmallFirstRouting | None] = field(default=lambda: None)
    similar: Callable[[], SimilarAnswerCache | None] = field(default=lambda: None)

    @route("GET", "/fast-path", name="fast_path", response_model=FastPathView)
    async def json(self, viewer: SignedIn, query: Annotated[CallQuery, Query()]) -> Response:
        """Rules, calls by what served them and savings by feature; bounds on lost answers."""
        return json_response(await self.fast_path(viewer, query, json_bytes))

    async def fast_path(
        self, viewer: Viewer, query: CallQuery, finish: Callable[[FastPathView], T]
    ) -> T:
        """The fast path of the teams that a viewer may see, in the form asked for."""
        check_allowed(viewer, Action.SEE_COSTS)
        question = FastPathQuestion(
            period=query.period(self._now()),
            only=query.spend_filter(viewer, {}),
            rules=self.rules(),
            proved=[*self._proved_losses(viewer, query.team)],
            similar=await self._similar_proofs(viewer, query.team),
        )
        return await self._ask.view("fast path", fast_path_view, question, finish)

    async def quality_bounds(
        self, viewer: Viewer, filters: Mapping[str, str]
    ) -> tuple[float | None, float | None]:
        """The largest bounds on answers lost by small models, and on wrong similar ones.

        Each is None where this process knows none of these calls: small models have one by team
        and rule, answers to similar questions by team and feature.
        """
        team, feature = filters.get("team"), filters.get("feature")
        losses = [proof for proof in self._proved_losses(viewer, team) if proof.judged_calls]
        similar = [
            proof
            for proof in await self._similar_proofs(viewer, team)
            if proof.is_served and feature in {None, proof.feature}
        ]
        has_similar = not filters.keys() - {"team", "feature"}
        has_losses = not filters.keys() - {"team"}
        return (
            max((proof.proved_loss for proof in losses if has_losses), default=None),
            max((proof.bound for proof in similar if has_similar), default=None),
        )

    def _proved_losses(self, viewer: Viewer, team_only: str | None) -> Iterator[ProvedLoss]:
        """The bounds of the viewer's teams."""
        small_first = self.small_first()
        for (team, rule), state in [] if small_first is None else [*small_first.states.items()]:
            if _is_seen(team, viewer, team_only):
                control = state.control
                yield ProvedLoss(
                    team=team,
                    team_name="",
                    rule=rule,
                    calls=control.calls,
                    small_calls=control.small,
                    judged_calls=control.judged,
                    proved_loss=control.proved_loss(),
                    max_loss=control.promise.max_loss,
                )

    async def _similar_proofs(self, viewer: Viewer, team_only: str | None) -> list[SimilarProof]:
        """The proofs of the viewer's teams, those with most checked hits first."""
        cache = self.similar()
        evidence = {} if cache is None else await cache.copy_evidence()
        proofs = [
            _similar_proof(place, known, [] if cache is None else _wrong_hits(cache, place, viewer))
            for place, known in evidence.items()
            if _is_seen(place[0], viewer, team_only)
        ]
        return sorted(proofs, key=lambda proof: (-proof.checked_hits, proof.team, proof.feature))


def _is_seen(team: str, viewer: Viewer, team_only: str | None) -> bool:
    """True for a team that the viewer may see and did not leave out."""
    return (viewer.teams is None or team in viewer.teams) and team_only in {None, team}


def _wrong_hits(
    cache: SimilarAnswerCache, place: tuple[str, str], viewer: Viewer
) -> list[WrongHit]:
    """The last wrong hits of a feature; their texts are for those who may see its calls."""
    hits = cache.last_wrong(place)
    if viewer.may(Action.SEE_CALLS, place[0]):
        return hits
    return [WrongHit(checked_at=hit.checked_at) for hit in hits]


def _similar_proof(
    place: tuple[str, str], evidence: SimilarityEvidence, last_wrong: Sequence[WrongHit]
) -> SimilarProof:
    """The proof of a feature, of the point that is served or would be first."""
    served = evidence.served_point
    point = served or evidence.points[0]
    return SimilarProof(
        team=place[0],
        team_name="",
        feature=place[1],
        is_served=served is not None,
        checked=point.checked,
        wrong=point.wrong,
        bound=point.bound,
        max_wrong=evidence.promise,
        checked_hits=evidence.checked_hits,
        wrong_hits=evidence.wrong_hits,
        stops=evidence.stops,
        last_wrong=last_wrong,
    )
