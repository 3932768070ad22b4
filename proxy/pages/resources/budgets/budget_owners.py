"""The team that owns each budget, and who may see and change it."""

from collections.abc import Iterable, Mapping
from typing import Final, Self

from dashboards.access import Action, Viewer
from proxy.errors import CallerError
from proxy.pages.viewing import check_allowed
from proxy.store.sql.access.teams import Teams
from slo.budgets.budget import EVERY, Budget

_TEAM: Final = "team"
_KEY: Final = "key"
_SHARED: Final = frozenset({"organization", _TEAM, _KEY})


class BudgetOwners:
    """Teams and keys that budgets are of: teams' names by id, and the team of each key by id."""

    def __init__(self, teams: Mapping[str, str], keys: Mapping[str, str]) -> None:
        self._ids = {name: id_ for id_, name in teams.items()}
        self._keys = keys

    @classmethod
    def read(cls, teams: Teams, budgets: Iterable[Budget]) -> Self:
        """The owners of these budgets; blocks."""
        keys = {budget.of for budget in budgets if budget.scope == _KEY and budget.of != EVERY}
        names = {team.id: team.name for team in teams.all()}
        return cls(names, teams.key_teams(keys) if keys else {})

    def team(self, budget: Budget) -> str | None:
        """The id of the one team that a budget is of; None where it is of others, too."""
        if budget.scope == _TEAM:
            return self._ids.get(budget.of)
        return self._keys.get(budget.of) if budget.scope == _KEY else None

    def may_see(self, viewer: Viewer, budget: Budget) -> bool:
        """True for budgets of own teams and their keys, of every team or key, and of everybody."""
        if viewer.teams is None or (budget.scope in _SHARED and budget.of == EVERY):
            return True
        return self.team(budget) in viewer.teams

    def may_change(self, viewer: Viewer, budget: Budget) -> bool:
        """True for budgets of own teams and their keys; others are an admin's."""
        team = self.team(budget)
        sees_all = viewer.teams is None
        return viewer.may(Action.CHANGE_BUDGETS, team) and (sees_all or team is not None)

    def check_change(self, viewer: Viewer, budget: Budget) -> str | None:
        """The team that a budget is of, if the viewer may change it; else raises CallerError."""
        team = self.team(budget)
        check_allowed(viewer, Action.CHANGE_BUDGETS, team)
        if not self.may_change(viewer, budget):
            raise CallerError(
                "You may change budgets of your own teams and of their keys: the scope is team or"
                " key, and `of` the team's name or the key's id.",
                code="not_allowed",
                status=403,
            )
        return team

    def check_known(self, budget: Budget) -> None:
        """Check that there is the team or key that a budget is of.

        Raises:
            CallerError: There is none, so that it would limit nobody.
        """
        if budget.scope in {_TEAM, _KEY} and budget.of != EVERY and self.team(budget) is None:
            owner = "name of a team" if budget.scope == _TEAM else "id of a key"
            raise CallerError(
                f"There is no {budget.scope} {budget.of}; write the {owner}, which stands on the"
                " page of teams and keys.",
                code=f"unknown_{budget.scope}",
                param="of",
            )
