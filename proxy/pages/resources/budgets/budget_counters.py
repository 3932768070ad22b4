"""``/api/v1/budgets``: counters of budgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dashboards.access import Action, Viewer
from dashboards.board import AdminBoard, BudgetCounter
from proxy.pages.resources.api import Resource
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed, route
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

    @route("GET", "/budgets", name="list_budgets")
    async def budgets(self, viewer: SignedIn) -> BudgetsView:
        """Spent and held amounts of each budget."""
        check_allowed(viewer, Action.SEE_COSTS)
        counters = await self._board.counters()
        if counters is None or viewer.teams is None:
            return BudgetsView(counters=counters)
        teams = await self._ask("teams", self._store.teams.all) or ()
        listed = {row.whose for row in counters if row.scope == _KEY_SCOPE}
        keys = await self._ask("keys", lambda: self._store.teams.key_teams(listed)) or {}
        own = {
            _TEAM_SCOPE: {row.name for row in teams if row.id in viewer.teams} | viewer.teams,
            _KEY_SCOPE: {key for key, team in keys.items() if team in viewer.teams},
        }
        return BudgetsView(
            counters=[
                row
                for row in counters
                if row.scope == _SHARED_SCOPE or row.whose in own.get(row.scope, ())
            ]
        )

    async def visible_counters(self, viewer: Viewer) -> Sequence[BudgetCounter]:
        """The counters of budgets that a viewer may see; none where they are unknown now."""
        return (await self.budgets(viewer)).counters or ()
