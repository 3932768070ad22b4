"""``/api/v1/teams`` and ``/api/v1/keys``: teams, and the keys by which they call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import BaseModel, Field

from dashboards.access import Action, Viewer
from dashboards.views.access import CreatedKey, KeyPage, KeyView, TeamView
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.budgets.key_budgets import KeyBudget, KeyBudgets
from proxy.pages.store_questions import StoreAsker
from proxy.pages.viewing import (
    NOT_IN_FORCE,
    Clock,
    Label,
    Name,
    SignedIn,
    check_allowed,
    route,
    view_of,
)
from proxy.store.sql.access.teams import KeyLimits, KeyRecord, Team
from proxy.store.store import Store

#: Models that a key's list may hold.
_MAX_MODELS: Final = 100
#: Seconds since the epoch that a time may be at most: the year 2999.
_MAX_TIME: Final = 32_472_144_000.0


ItemId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_]{1,64}$")]
"""An id in a path."""
PageLimit = Annotated[int, Query(ge=1, le=200, description="The most that are wanted.")]


class NewTeam(BaseModel):
    """A team to make."""

    name: Name
    keeps_prompts: bool = False


class PromptRetention(BaseModel):
    """True to store the text of a team's prompts from now on; False to store no more."""

    keeps_prompts: bool


class NewKey(BaseModel):
    """A key to make.

    Attributes:
        expires: Time from which it opens nothing, in seconds since the epoch; null for never.
        models: The models that its calls may ask for; null for all.
    """

    team: Name
    name: Label = ""
    feature: Label = ""
    expires: Annotated[float, Field(gt=0, le=_MAX_TIME)] | None = None
    models: Annotated[list[Name], Field(min_length=1, max_length=_MAX_MODELS)] | None = None
    budget: KeyBudget | None = None


@dataclass(eq=False)
class TeamsResource(Resource):
    """Teams and keys as viewers see and change them."""

    tag = "teams"

    _store: Store
    _ask: StoreAsker
    budgets: KeyBudgets
    _now: Clock

    @route("GET", "/teams", name="list_teams")
    async def list(self, viewer: SignedIn) -> Sequence[TeamView]:
        """Teams that the viewer may see."""
        teams = await self._ask.answer("teams", self._store.teams.all)
        return [
            _team_view(team, viewer)
            for team in teams
            if viewer.teams is None or team.id in viewer.teams
        ]

    @route("POST", "/teams", name="create_team", status_code=201)
    async def create(self, viewer: SignedIn, request: NewTeam) -> TeamView:
        """Makes a team."""
        check_allowed(viewer, Action.CHANGE_TEAMS)
        now = self._now()

        def create() -> Team:
            return self._store.teams.create(
                request.name, now=now, keeps_prompts=request.keeps_prompts, who=viewer.name
            )

        try:
            return _team_view(await self._ask.answer("teams", create), viewer)
        except ValueError as error:
            raise CallerError(str(error), code="name_taken", param="name", status=409) from None

    @route("PUT", "/teams/{team}/prompts", status_code=204)
    async def keep_prompts(self, viewer: SignedIn, team: ItemId, request: PromptRetention) -> None:
        """Has the text of a team's prompts stored, or no more."""
        check_allowed(viewer, Action.CHANGE_TEAMS)
        now, keeps = self._now(), request.keeps_prompts
        was = await self._ask.answer(
            "teams",
            lambda: self._store.teams.keep_prompts(team, keeps=keeps, now=now, who=viewer.name),
        )
        if not was:
            raise _unknown_team()

    @route("GET", "/keys", name="list_keys")
    async def keys(
        self,
        viewer: SignedIn,
        *,
        team: Annotated[str, Query(max_length=128)] = "",
        after: Annotated[str, Query(max_length=128)] = "",
        limit: PageLimit = 50,
    ) -> KeyPage:
        """Keys, the newest first, without their secrets."""
        check_allowed(viewer, Action.CHANGE_KEYS, team or None)
        teams = frozenset({team}) if team else viewer.teams
        start = _position(after) if after else None
        page = await self._ask.answer(
            "keys", lambda: self._store.teams.keys_page(teams, limit + 1, before=start)
        )
        names = await self._team_names()
        shown = page[:limit]
        last = shown[-1] if len(page) > limit else None
        return KeyPage(
            keys=[self._key_view(key, names) for key in shown],
            next=None if last is None else f"{last.created:.6f}_{last.id}",
        )

    @route("POST", "/keys", status_code=201)
    async def create_key(self, viewer: SignedIn, request: NewKey) -> CreatedKey:
        """Makes a key; its secret is in this answer alone."""
        check_allowed(viewer, Action.CHANGE_KEYS, request.team)
        now = self._now()
        if request.expires is not None and request.expires <= now:
            raise CallerError(
                "The key would have expired already; write a later time.",
                code="already_expired",
                param="expires",
            )
        if request.budget is not None:
            self.budgets.check(request.budget)
        limits = KeyLimits(
            expires=request.expires,
            models=None if request.models is None else frozenset(request.models),
        )

        def create() -> tuple[KeyRecord, str]:
            return self._store.teams.create_key(
                request.team,
                request.name,
                now=now,
                feature=request.feature,
                limits=limits,
                who=viewer.name,
            )

        try:
            key, secret = await self._ask.answer("keys", create)
        except ValueError:
            raise _unknown_team() from None
        if request.budget is not None:
            await self._limit(viewer, key.id, request.budget)
        return CreatedKey(key=self._key_view(key, await self._team_names()), secret=secret)

    async def _limit(self, viewer: Viewer, key: str, budget: KeyBudget) -> None:
        """Sets the budget of a new key, whose secret nobody has yet; without it there is no key."""
        try:
            await self.budgets.set(viewer, key, budget)
        except BaseException as error:
            await self.revoke(viewer, key)
            if isinstance(error, CallerError) and error.code == NOT_IN_FORCE:
                raise CallerError(
                    "No key was made, for its budget would not yet be in force:"
                    f" {error.details['why']}",
                    code="budget_not_in_force",
                    status=409,
                ) from None
            raise

    @route("DELETE", "/keys/{key}", name="revoke_key", status_code=204)
    async def revoke(self, viewer: SignedIn, key: ItemId) -> None:
        """Closes a key for good."""
        check_allowed(viewer, Action.CHANGE_KEYS)
        record = await self._ask.answer("keys", lambda: self._store.teams.key(key))
        is_theirs = record is not None and viewer.may(Action.CHANGE_KEYS, record.team)
        now = self._now()
        if not is_theirs or not await self._ask.answer(
            "keys", lambda: self._store.teams.revoke(key, now=now, who=viewer.name)
        ):
            raise CallerError(
                "There is no open key with this id; see GET /api/v1/keys.",
                code="unknown_key",
                status=404,
            )
        await self.budgets.forget(viewer, key)

    async def _team_names(self) -> Mapping[str, str]:
        """The teams' names by id."""
        teams = await self._ask.answer("teams", self._store.teams.all)
        return {team.id: team.name for team in teams}

    def _key_view(self, key: KeyRecord, names: Mapping[str, str]) -> KeyView:
        expires, models = key.limits.expires, key.limits.models
        is_over = expires is not None and self._now() >= expires
        state = "revoked" if key.revoked_at is not None else "expired" if is_over else "open"
        return view_of(
            KeyView,
            key,
            team_name=names.get(key.team, key.team),
            ends_in=key.hint,
            state=state,
            expires=expires,
            models=None if models is None else sorted(models),
            budgets=self.budgets.of(key.id),
        )


def _unknown_team() -> CallerError:
    return CallerError(
        "There is no team with this id; see GET /api/v1/teams.",
        code="unknown_team",
        param="team",
        status=404,
    )


def _position(after: str) -> tuple[float, str]:
    """Creation and id of the last key of a page."""
    created, _, key = after.partition("_")
    try:
        time = float(created)
    except ValueError:
        time = -1.0
    if not 0 <= time <= _MAX_TIME or not key.isalnum() | ("_" in key):
        raise CallerError(
            "`after` takes the `next` of the page before.", code="invalid_cursor", param="after"
        )
    return time, key


def _team_view(team: Team, viewer: Viewer) -> TeamView:
    return view_of(TeamView, team, may_change_keys=viewer.may(Action.CHANGE_KEYS, team.id))
