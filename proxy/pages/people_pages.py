"""Pages of teams and keys, people and the audit log, and their forms."""

from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from dashboards.access import Action, Role, Viewer
from dashboards.views.access import CreatedKey, SignInLink, changed_values
from proxy.errors import CallerError
from proxy.pages.access.sign_in import PageAccess
from proxy.pages.resources.budgets.key_budgets import KeyBudget, KeyBudgets
from proxy.pages.resources.budgets.stored_budgets import StoredBudgetsResource
from proxy.pages.resources.people import (
    AuditQuery,
    AuditResource,
    NewPassword,
    NewPerson,
    PeopleResource,
    RoleChange,
    SignInState,
)
from proxy.pages.resources.teams import NewKey, NewTeam, PromptRetention, TeamsResource
from proxy.pages.site import FormCheck, Pages, form, redirect, validated_request
from proxy.pages.store_questions import StoreAsker
from proxy.pages.viewing import (
    Clock,
    FormFields,
    SignedIn,
    form_fields,
    route,
    unknown_form_error,
)
from proxy.store.store import Store
from slo.duration import parse_duration
from slo.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessResources:
    """Resources that these pages show."""

    teams: TeamsResource
    people: PeopleResource
    audit: AuditResource

    @classmethod
    def of(
        cls,
        store: Store,
        ask: StoreAsker,
        access: PageAccess,
        budgets: StoredBudgetsResource,
        now: Clock,
    ) -> Self:
        """The resources of a gateway."""
        return cls(
            teams=TeamsResource(store, ask, KeyBudgets(budgets), now),
            people=PeopleResource(store, ask, access, now),
            audit=AuditResource(store, ask),
        )

    def routers(self) -> list[APIRouter]:
        """Their routes of the API."""
        return [self.teams.router(), self.people.router(), self.audit.router()]


@dataclass(eq=False)
class PeoplePages(Pages):
    """The pages of teams and keys, of people, of the audit log and of the viewer's account."""

    resources: AccessResources

    async def _show_teams(
        self, viewer: Viewer, *, team: str = "", after: str = "", created: CreatedKey | None = None
    ) -> Response:
        teams, sees_keys = self.resources.teams, viewer.may(Action.CHANGE_KEYS, team or None)
        return await self.site.html(
            "teams.html",
            viewer,
            teams=await teams.list(viewer),
            team=team,
            keys=await teams.keys(viewer, team=team, after=after) if sees_keys else None,
            created=created,
            may_make_teams=viewer.may(Action.CHANGE_TEAMS),
            keeps_budgets=teams.budgets.are_kept,
            windows=list(Window),
        )

    @route("GET", "/teams")
    async def teams(
        self,
        viewer: SignedIn,
        team: Annotated[str, Query(max_length=128)] = "",
        after: Annotated[str, Query(max_length=128)] = "",
    ) -> Response:
        """Teams and their keys."""
        return await self._show_teams(viewer, team=team, after=after)

    @form("/teams/create-key")
    async def create_key(self, viewer: Viewer, fields: FormFields) -> Response:
        """Makes a key, and shows its secret once."""
        teams = self.resources.teams
        key = _new_key(fields, teams, self.site.now())
        return await self._show_teams(viewer, created=await teams.create_key(viewer, key))

    @form("/teams/create", back="/teams")
    async def create_team(self, viewer: Viewer, fields: FormFields) -> None:
        """Makes a team."""
        keeps = "keep" in fields
        team = validated_request(NewTeam, name=fields["name"], keeps_prompts=keeps)
        await self.resources.teams.create(viewer, team)

    @form("/teams/prompts", back="/teams")
    async def keep_prompts(self, viewer: Viewer, fields: FormFields) -> None:
        """Has a team's prompts stored, or no more."""
        retention = PromptRetention(keeps_prompts=fields["keep"] == "yes")
        await self.resources.teams.keep_prompts(viewer, fields["team"], retention)

    @form("/teams/revoke-key", back="/teams")
    async def revoke_key(self, viewer: Viewer, fields: FormFields) -> None:
        """Closes a key for good."""
        await self.resources.teams.revoke(viewer, fields["key"])

    @form("/teams/key-budget", back="/teams#keys")
    async def set_key_budget(self, viewer: Viewer, fields: FormFields) -> None:
        """Sets the budget of a key, or removes it where no limit is given."""
        budgets, budget = self.resources.teams.budgets, _key_budget(fields)
        if budget is None:
            await budgets.remove(viewer, fields["key"])
        else:
            await budgets.set(viewer, fields["key"], budget)

    async def _show_people(
        self, viewer: Viewer, request: Request, link: SignInLink | None = None
    ) -> Response:
        return await self.site.html(
            "people.html",
            viewer,
            people=await self.resources.people.list(viewer),
            teams=await self.resources.teams.list(viewer),
            roles=[role.value for role in Role],
            link=link,
            base_url=str(request.base_url).rstrip("/"),
        )

    @route("GET", "/people")
    async def people(self, request: Request, viewer: SignedIn) -> Response:
        """People who may sign in."""
        return await self._show_people(viewer, request)

    @route("POST", "/people/add")
    async def add_person(self, request: Request, viewer: SignedIn) -> Response:
        """Adds a person, and shows their link once."""
        fields = await form_fields(request)
        new_person = validated_request(
            NewPerson, name=fields["name"], role=fields["role"], teams=_chosen_teams(fields)
        )
        link = await self.resources.people.add(viewer, new_person)
        return await self._show_people(viewer, request, link)

    @route("POST", "/people/change")
    async def change_person(self, request: Request, viewer: SignedIn) -> Response:
        """Changes a person as the form's ``change`` says."""
        fields, people = await form_fields(request), self.resources.people
        person, kind = fields["person"], fields["change"]
        if kind == "link":
            return await self._show_people(viewer, request, await people.make_link(viewer, person))
        if kind == "role":
            teams = _chosen_teams(fields)
            role = validated_request(RoleChange, role=fields["role"], teams=teams)
            await people.change_role(viewer, person, role)
        elif kind in {"disable", "enable"}:
            await people.set_state(viewer, person, SignInState(is_disabled=kind == "disable"))
        else:
            raise unknown_form_error()
        return redirect("/people")

    @route("GET", "/audit")
    async def audit(self, viewer: SignedIn, query: Annotated[AuditQuery, Query()]) -> Response:
        """Changes that people made."""
        return await self.site.html(
            "audit.html",
            viewer,
            page=await self.resources.audit.list(viewer, query),
            query=query,
            names={team.id: team.name for team in await self.resources.teams.list(viewer)},
            changed_values=changed_values,
            sees_all=viewer.may(Action.SEE_ALL_CHANGES),
        )

    @route("GET", "/account")
    async def account(self, viewer: SignedIn) -> Response:
        """The viewer's own account."""
        account = await self.resources.people.account(viewer)
        return await self.site.html("account.html", viewer, account=account)

    @form("/account/password", back="/account")
    async def set_password(self, viewer: Viewer, fields: FormFields) -> None:
        """Sets the viewer's own password."""
        password, current = fields["password"], fields["current"]
        if password != fields["again"]:
            raise CallerError("The two new passwords differ.", code="invalid_form")
        request = validated_request(NewPassword, password=password, current=current)
        await self.resources.people.set_password(viewer, request)

    @form("/account/end-session", back="/account")
    async def end_session(self, viewer: Viewer, fields: FormFields) -> None:
        """Ends one of the viewer's own sessions."""
        await self.resources.people.end_session(viewer, fields["session"])


def _new_key(fields: FormFields, teams: TeamsResource, now: float) -> NewKey:
    """The key that a form asks for; raises CallerError with all its faults."""
    check = FormCheck()
    expires = check.read(lambda: _end(fields["lasts"], now))
    budget = check.read(lambda: _key_budget(fields))
    if budget is not None:
        check.read(lambda: teams.budgets.check(budget))
    models = [name.strip() for name in fields["models"].split(",") if name.strip()]
    named = {name: fields[name] for name in ("team", "name", "feature")}
    key = check.read(
        lambda: validated_request(
            NewKey, **named, expires=expires, models=models or None, budget=budget
        )
    )
    check.finish()
    assert key is not None  # noqa: S101 - a form without faults
    return key


def _end(lasts: str, now: float) -> float | None:
    """The end of a time that begins now, such as 90d; None for no text."""
    if not lasts:
        return None
    seconds = parse_duration(lasts)
    if not seconds:
        raise CallerError(
            "Write how long as a number and a unit, such as 12h or 90d.", code="invalid_form"
        )
    return now + seconds


def _key_budget(fields: FormFields) -> KeyBudget | None:
    """The budget of a key's form, in dollars; None where no limit is given."""
    limit, window = fields["limit"], fields["window"]
    return validated_request(KeyBudget, limit=limit, window=window) if limit else None


def _chosen_teams(fields: FormFields) -> list[str]:
    """Ids of the teams that are ticked."""
    return [name.removeprefix("team:") for name in fields if name.startswith("team:")]
