"""``/api/v1/budgets``: counters of budgets."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from dashboards.access import Action, Viewer
from dashboards.board import AdminBoard, BudgetCounter, BudgetRefusals
from proxy.errors import Unready
from proxy.pages.resources.api import Resource
from proxy.pages.store_questions import StoreQuestions, view_itself
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.store.sql.views.live.budget_refusals import RefusalsQuestion, budget_refusals
from proxy.store.store import Store

#: Scopes of budgets whose counters are of a team, of a key, or of everybody together.
_TEAM_SCOPE: Final = "team"
_KEY_SCOPE: Final = "key"
_SHARED_SCOPE: Final = "organization"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsView:
    """Counters of budgets in their current windows; null if they are unknown now."""

    counters: Sequence[BudgetCounter] | None


@dataclass(eq=False)
class BudgetsResource(Resource):
    """Budgets as viewers see them."""

    tag = "budgets"

    _board: AdminBoard
    _store: Store
    _ask: StoreQuestions
    _now: Clock

    @route("GET", "/budgets", name="list_budgets")
    async def budgets(self, viewer: SignedIn) -> BudgetsView:
        """Spent and held amounts of each budget, and the calls that it refused."""
        counters = await self._visible(viewer)
        return BudgetsView(counters=counters and await self._with_refusals(viewer, counters))

    async def visible_counters(self, viewer: Viewer) -> Sequence[BudgetCounter]:
        """The counters of budgets that a viewer may see; none where they are unknown now."""
        return await self._visible(viewer) or ()

    async def _visible(self, viewer: Viewer) -> Sequence[BudgetCounter] | None:
        check_allowed(viewer, Action.SEE_COSTS)
        counters = await self._board.counters()
        if counters is None or viewer.teams is None:
            return counters
        teams = await self._ask("teams", self._store.teams.all) or ()
        listed = {row.whose for row in counters if row.scope == _KEY_SCOPE}
        keys = await self._ask("keys", lambda: self._store.teams.key_teams(listed)) or {}
        own = {
            _TEAM_SCOPE: {row.name for row in teams if row.id in viewer.teams} | viewer.teams,
            _KEY_SCOPE: {key for key, team in keys.items() if team in viewer.teams},
        }
        return [
            row
            for row in counters
            if row.scope == _SHARED_SCOPE or row.whose in own.get(row.scope, ())
        ]

    async def _with_refusals(
        self, viewer: Viewer, counters: Sequence[BudgetCounter]
    ) -> Sequence[BudgetCounter]:
        """Counters with the calls of the viewer's teams that they refused, where known."""
        hard = [counter for counter in counters if counter.is_hard]
        question = RefusalsQuestion(counters=hard, teams=viewer.teams, now=self._now())
        refusals: Mapping[BudgetCounter, BudgetRefusals | None] = {}
        if hard:
            with suppress(Unready):
                counts = await self._ask.view("refusals", budget_refusals, question, view_itself)
                refusals = dict(zip(hard, counts, strict=True))
        return [replace(counter, refusals=refusals.get(counter)) for counter in counters]
