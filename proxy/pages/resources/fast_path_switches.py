"""``/api/v1/fast-path/TEAM/FEATURE/PART``: turns a part of the fast path off for a feature."""

from dataclasses import dataclass

from pydantic import BaseModel

from dashboards.access import Action, Viewer
from proxy.api.request import feature_label
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.features import FeatureName
from proxy.pages.resources.policies.undo import adopt_change
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.reloading import Reloader
from proxy.store.store import Store
from slo.budgets.budget import EVERY
from slo.policies.fast_path_switches import SwitchedPart


class SwitchRequest(BaseModel):
    """A part's switch: false turns the part off, true lets it follow its rules again."""

    is_on: bool


@dataclass(eq=False)
class FastPathSwitchesResource(Resource):
    """The switches, which viewers set; all gateways follow by themselves."""

    tag = "fast path"

    _store: Store
    _reloader: Reloader
    _now: Clock

    @route("PUT", "/fast-path/{team}/{feature}/{part}", name="switch_fast_path", status_code=204)
    async def switch(
        self,
        viewer: SignedIn,
        team: str,
        feature: FeatureName,
        part: SwitchedPart,
        request: SwitchRequest,
    ) -> None:
        """Turns a part of the fast path off for a feature, or lets it follow its rules again.

        What was learned and kept stays. This gateway follows at once, others within seconds.
        """
        await self.set_switch(viewer, (team, feature), part, request)

    async def set_switch(
        self,
        viewer: Viewer,
        place: tuple[str, str],
        part: SwitchedPart,
        request: SwitchRequest,
        seen: str | None = None,
    ) -> str:
        """Sets a switch of a team's feature; the change's id, "" where it stood so already.

        Args:
            seen: Id of its last change that the viewer saw; None to set it anyhow.
        """
        team, feature = place
        check_allowed(viewer, Action.CHANGE_TEAM_SETTINGS, team)
        await self._check_place(team, feature)
        switches, now = self._store.fast_path_switches, self._now()
        change = switches.turn_on if request.is_on else switches.turn_off
        try:
            change_id = await self._store.ask(change, place, part, viewer.name, now, seen)
        except ValueError as error:
            raise CallerError(f"This cannot be kept: {error}.", code="too_many_switches") from None
        if change_id:
            await adopt_change(self._reloader)
        return change_id

    async def _check_place(self, team: str, feature: str) -> None:
        """Checks that a feature of this team can have a switch; else raises CallerError."""
        teams = await self._store.ask(self._store.teams.all)
        if all(known_team.id != team for known_team in teams):
            raise CallerError("There is no team of this id.", code="unknown_team", status=404)
        if feature == EVERY or feature_label(feature)[0] != feature:
            raise CallerError(
                f"No call has a feature of this name: {EVERY} is every feature, and names are short"
                " and printable.",
                code="unknown_feature",
            )
