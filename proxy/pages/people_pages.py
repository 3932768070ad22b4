"""Pages of teams and keys, people and the audit log, and their forms."""

from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from dashboards.access import Action, Role, Viewer
from dashboards.pages import HOME
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
from proxy.pages.site import FormCheck, Site, redirect, validated_request
from proxy.pages.store_questions import StoreAsker
from proxy.pages.viewing import Clock, FormFields, SignedIn, form_fields, unknown_form_error
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


def router(site: Site, resources: AccessResources) -> APIRouter:
    """The routes of the pages."""
    routes = site.router()
    _add_teams(routes, site, resources.teams)
    _add_team_forms(routes, site, resources.teams)
    _add_people(routes, site, resources)
    _add_audit(routes, site, resources)
    _add_account(routes, site, resources.people)
    return routes


def _add_teams(routes: APIRouter, site: Site, teams: TeamsResource) -> None:
    async def show(
        viewer: Viewer, *, team: str = "", after: str = "", created: CreatedKey | None = None
    ) -> Response:
        sees_keys = viewer.may(Action.CHANGE_KEYS, team or None)
        return await site.html(
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

    @routes.get(f"{HOME}/teams")
    async def teams_page(
        viewer: SignedIn,
        team: Annotated[str, Query(max_length=128)] = "",
        after: Annotated[str, Query(max_length=128)] = "",
    ) -> Response:
        """Teams and their keys."""
        return await show(viewer, team=team, after=after)

    async def create_key(viewer: Viewer, fields: FormFields) -> Response:
        """Makes a key, and shows its secret once."""
        key = _new_key(fields, teams, site.now())
        return await show(viewer, created=await teams.create_key(viewer, key))

    site.add_form(routes, "/teams/create-key", create_key)


def _add_team_forms(routes: APIRouter, site: Site, teams: TeamsResource) -> None:
    async def create_team(viewer: Viewer, fields: FormFields) -> None:
        keeps = "keep" in fields
        team = validated_request(NewTeam, name=fields["name"], keeps_prompts=keeps)
        await teams.create(viewer, team)

    async def keep_prompts(viewer: Viewer, fields: FormFields) -> None:
        retention = PromptRetention(keeps_prompts=fields["keep"] == "yes")
        await teams.keep_prompts(viewer, fields["team"], retention)

    async def revoke_key(viewer: Viewer, fields: FormFields) -> None:
        await teams.revoke(viewer, fields["key"])

    async def set_key_budget(viewer: Viewer, fields: FormFields) -> None:
        """Sets the budget of a key, or removes it where no limit is given."""
        if (budget := _key_budget(fields)) is None:
            await teams.budgets.remove(viewer, fields["key"])
        else:
            await teams.budgets.set(viewer, fields["key"], budget)

    site.add_form(routes, "/teams/create", create_team, "/teams")
    site.add_form(routes, "/teams/prompts", keep_prompts, "/teams")
    site.add_form(routes, "/teams/revoke-key", revoke_key, "/teams")
    site.add_form(routes, "/teams/key-budget", set_key_budget, "/teams#keys")


def _add_people(routes: APIRouter, site: Site, resources: AccessResources) -> None:
    people = resources.people

    async def show(viewer: Viewer, request: Request, link: SignInLink | None = None) -> Response:
        return await site.html(
            "people.html",
            viewer,
            people=await people.list(viewer),
            teams=await resources.teams.list(viewer),
            roles=[role.value for role in Role],
            link=link,
            base_url=str(request.base_url).rstrip("/"),
        )

    @routes.get(f"{HOME}/people")
    async def people_page(request: Request, viewer: SignedIn) -> Response:
        """People who may sign in."""
        return await show(viewer, request)

    @routes.post(f"{HOME}/people/add")
    async def add(request: Request, viewer: SignedIn) -> Response:
        """Adds a person, and shows their link once."""
        request.state.form_fields = fields = await form_fields(request)
        new_person = validated_request(
            NewPerson, name=fields["name"], role=fields["role"], teams=_chosen_teams(fields)
        )
        return await show(viewer, request, await people.add(viewer, new_person))

    @routes.post(f"{HOME}/people/change")
    async def change(request: Request, viewer: SignedIn) -> Response:
        """Changes a person as the form's ``change`` says."""
        request.state.form_fields = fields = await form_fields(request)
        person, kind = fields["person"], fields["change"]
        if kind == "link":
            return await show(viewer, request, await people.make_link(viewer, person))
        if kind == "role":
            teams = _chosen_teams(fields)
            role = validated_request(RoleChange, role=fields["role"], teams=teams)
            await people.change_role(viewer, person, role)
        elif kind in {"disable", "enable"}:
            await people.set_state(viewer, person, SignInState(is_disabled=kind == "disable"))
        else:
            raise unknown_form_error()
        return redirect("/people")


def _add_audit(routes: APIRouter, site: Site, resources: AccessResources) -> None:
    @routes.get(f"{HOME}/audit")
    async def audit_page(viewer: SignedIn, query: Annotated[AuditQuery, Query()]) -> Response:
        """Changes that people made."""
        return await site.html(
            "audit.html",
            viewer,
            page=await resources.audit.list(viewer, query),
            query=query,
            names={team.id: team.name for team in await resources.teams.list(viewer)},
            changed_values=changed_values,
        )


def _new_key(fields: FormFields, teams: TeamsResource, now: float) -> NewKey:
    """The key that a form asks for; raises CallerError with all its faults."""
    form = FormCheck()
    expires = form.read(lambda: _end(fields["lasts"], now))
    budget = form.read(lambda: _key_budget(fields))
    if budget is not None:
        form.read(lambda: teams.budgets.check(budget))
    models = [name.strip() for name in fields["models"].split(",") if name.strip()]
    named = {name: fields[name] for name in ("team", "name", "feature")}
    key = form.read(
        lambda: validated_request(
            NewKey, **named, expires=expires, models=models or None, budget=budget
        )
    )
    form.finish()
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


def _add_account(routes: APIRouter, site: Site, people: PeopleResource) -> None:
    @routes.get(f"{HOME}/account")
    async def account_page(viewer: SignedIn) -> Response:
        """The viewer's own account."""
        return await site.html("account.html", viewer, account=await people.account(viewer))

    async def set_password(viewer: Viewer, fields: FormFields) -> None:
        if fields["password"] != fields["again"]:
            raise CallerError("The two new passwords differ.", code="invalid_form")
        new_password = validated_request(
            NewPassword, password=fields["password"], current=fields["current"]
        )
        await people.set_password(viewer, new_password)

    async def end_session(viewer: Viewer, fields: FormFields) -> None:
        await people.end_session(viewer, fields["session"])

    site.add_form(routes, "/account/password", set_password, "/account")
    site.add_form(routes, "/account/end-session", end_session, "/account")
