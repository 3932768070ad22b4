"""The fast path of a period by feature, and bounds on lost answers: ``/api/v1/fast-path``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from fastapi import Query
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.views.fast_path import FastPathView, ProvedLoss
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import CallQuery, json_response
from proxy.pages.store_questions import StoreQuestions, json_bytes
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.services.fast_path.small_first import SmallFirstRouting
from proxy.store.sql.views.fast_path import FastPathQuestion, FastPathRules, fast_path_view

T = TypeVar("T")


@dataclass(eq=False)
class FastPathResource(Resource):
    """The fast path, as pages and the API read it.

    Attributes:
        rules: Returns the rules in force.
        small_first: Returns what sends calls to small models; None where nothing does.
    """

    tag = "fast path"

    _ask: StoreQuestions
    _now: Clock
    rules: Callable[[], FastPathRules] = field(default=FastPathRules)
    small_first: Callable[[], SmallFirstRouting | None] = field(default=lambda: None)

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
        )
        return await self._ask.view("fast path", fast_path_view, question, finish)

    def _proved_losses(self, viewer: Viewer, team_only: str | None) -> Iterator[ProvedLoss]:
        """The bounds of the viewer's teams."""
        small_first = self.small_first()
        for (team, rule), state in [] if small_first is None else [*small_first.states.items()]:
            is_seen = viewer.teams is None or team in viewer.teams
            if is_seen and team_only in {None, team}:
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
