"""Pages of teams and keys, people and the audit log, and their forms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from dashboards.access import Action, Role, Viewer
from dashboards.pages import HOME
from dashboards.views.access import CreatedKey, SignInLink, changed_values
from proxy.errors import CallerError
from proxy.pages.access.sign_in import PageAccess
from proxy.pages.resources.audit import AuditQuery, AuditResource
from proxy.pages.resources.budgets.key_budgets import KeyBudget, KeyBudgets
from proxy.pages.resources.budgets.stored_budgets import StoredBudgetsResource
from proxy.pages.resources.people import (
    NewPassword,
    NewPerson,
    PeopleResource,
    RoleChange,
    SignInState,
)
from proxy.pages.resources.teams import NewKey, NewTeam, PromptRetention, TeamsResource
from proxy.pages.site import FormCheck, Site, page_router, redirect, validated_request
from proxy.pages.store_questions import StoreAsker
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
        now: Callable[[], float],
    ) -> Self:
        """The resources of a gateway.

        Args:
            ask: Asks the store, few questions at once.
            budgets: Budgets that people set, those of keys among them.
            now: Seconds since the epoch.
        """
        return cls(
            teams=TeamsResource(store, ask, KeyBudgets(budgets), now),
            people=PeopleResource(store, ask, access, now),
            audit=AuditResource(store, ask),
        )

    def routers(self) -> list[APIRouter]:
        """Their routes of the API."""
        return [self.teams.router(), self.people.router(), self.audit.router()]


def router(site: Site, shown: AccessResources, now: Callable[[], float]) -> APIRouter:
    """The routes of the pages.

    Args:
        site: Parts that all pages share.
        shown: Resources that the pages show.
        now: Seconds since the epoch.
    """
    routes = page_router()
    _add_teams(routes, site, shown.teams, now)
    _add_team_forms(routes, site, shown.teams)
    _add_people(routes, site, shown)
    _add_audit(routes, site, shown)
    _add_account(routes, site, shown.people)
    return routes


def _add_teams(
    routes: APIRouter, site: Site, teams: TeamsResource, now: Callable[[], float]
) -> None:
    async def show(
        viewer: Viewer, *, team: str = "", after: str = "", created: CreatedKey | None = None
    ) -> Response:
        listed = await teams.list(viewer)
        sees_keys = viewer.may(Action.CHANGE_KEYS, team or None)
        keys = await teams.keys(viewer, team=team, after=after) if sees_keys else None
        return await site.html(
            "teams.html",
            viewer,
            section="teams",
            teams=listed,
            team=team,
            keys=keys,
            created=created,
            may_make_teams=viewer.may(Action.CHANGE_TEAMS),
            keeps_budgets=teams.budgets.are_kept,
            windows=list(Window),
        )

    @routes.get(f"{HOME}/teams")
    async def teams_page(
        request: Request,
        team: Annotated[str, Query(max_length=128)] = "",
        after: Annotated[str, Query(max_length=128)] = "",
    ) -> Response:
        """Teams and their keys."""
        return await show(await site.viewer(request), team=team, after=after)

    @routes.post(f"{HOME}/teams/create-key")
    async def create_key(request: Request) -> Response:
        """Makes a key, and shows its secret once."""
        viewer, fields = await site.check_form(request)
        key = _new_key(fields, teams, now())
        return await show(viewer, created=await teams.create_key(viewer, key))


def _add_team_forms(routes: APIRouter, site: Site, teams: TeamsResource) -> None:
    @routes.post(f"{HOME}/teams/create")
    async def create_team(request: Request) -> Response:
        """Makes a team."""
        viewer, fields = await site.check_form(request)
        new_team = validated_request(
            NewTeam, name=fields.get("name", ""), keeps_prompts="keep" in fields
        )
        await teams.create(viewer, new_team)
        return redirect("/teams")

    @routes.post(f"{HOME}/teams/prompts")
    async def keep_prompts(request: Request) -> Response:
        """Has a team's prompts stored, or no more."""
        viewer, fields = await site.check_form(request)
        retention = PromptRetention(keeps_prompts=fields.get("keep") == "yes")
        await teams.keep_prompts(viewer, fields.get("team", ""), retention)
        return redirect("/teams")

    @routes.post(f"{HOME}/teams/revoke-key")
    async def revoke_key(request: Request) -> Response:
        """Closes a key for good."""
        viewer, fields = await site.check_form(request)
        await teams.revoke(viewer, fields.get("key", ""))
        return redirect("/teams")

    @routes.post(f"{HOME}/teams/key-budget")
    async def set_key_budget(request: Request) -> Response:
        """Sets the budget of a key, or removes it where no limit is given."""
        viewer, fields = await site.check_form(request)
        key, key_budget = fields.get("key", ""), _key_budget(fields)
        if key_budget is None:
            await teams.budgets.remove(viewer, key)
        else:
            await teams.budgets.set(viewer, key, key_budget)
        return redirect("/teams#keys")


def _add_people(routes: APIRouter, site: Site, shown: AccessResources) -> None:
    people = shown.people

    async def show(viewer: Viewer, request: Request, link: SignInLink | None = None) -> Response:
        return await site.html(
            "people.html",
            viewer,
            section="people",
            people=await people.list(viewer),
            teams=await shown.teams.list(viewer),
            roles=[role.value for role in Role],
            link=link,
            base_url=str(request.base_url).rstrip("/"),
        )

    @routes.get(f"{HOME}/people")
    async def people_page(request: Request) -> Response:
        """People who may sign in."""
        return await show(await site.viewer(request, Action.CHANGE_USERS), request)

    @routes.post(f"{HOME}/people/add")
    async def add(request: Request) -> Response:
        """Adds a person, and shows their link once."""
        viewer, fields = await site.check_form(request)
        role, teams = fields.get("role", ""), _chosen_teams(fields)
        new_person = validated_request(
            NewPerson, name=fields.get("name", ""), role=role, teams=teams
        )
        return await show(viewer, request, await people.add(viewer, new_person))

    @routes.post(f"{HOME}/people/change")
    async def change(request: Request) -> Response:
        """Changes a person as the form's ``change`` says."""
        viewer, fields = await site.check_form(request)
        person, kind = fields.get("person", ""), fields.get("change", "")
        if kind == "link":
            return await show(viewer, request, await people.make_link(viewer, person))
        if kind == "role":
            teams = _chosen_teams(fields)
            role = validated_request(RoleChange, role=fields.get("role", ""), teams=teams)
            await people.change_role(viewer, person, role)
        elif kind in {"disable", "enable"}:
            await people.set_state(viewer, person, SignInState(is_disabled=kind == "disable"))
        else:
            raise CallerError("This is no form of these pages.", code="invalid_form")
        return redirect("/people")


def _add_audit(routes: APIRouter, site: Site, shown: AccessResources) -> None:
    @routes.get(f"{HOME}/audit")
    async def audit_page(request: Request, query: Annotated[AuditQuery, Query()]) -> Response:
        """Changes that people made."""
        viewer = await site.viewer(request, Action.SEE_AUDIT_LOG)
        return await site.html(
            "audit.html",
            viewer,
            section="audit",
            page=await shown.audit.list(viewer, query),
            query=query,
            names={team.id: team.name for team in await shown.teams.list(viewer)},
            changed_values=changed_values,
        )


def _new_key(fields: Mapping[str, str], teams: TeamsResource, now: float) -> NewKey:
    """The key that a form asks for.

    Raises:
        CallerError: It has faults, all of which are named.
    """
    form = FormCheck()
    expires = form.read(lambda: _end(fields.get("lasts", ""), now))
    budget = form.read(lambda: _key_budget(fields))
    if budget is not None:
        form.read(lambda: teams.budgets.check(budget))
    models = [name.strip() for name in fields.get("models", "").split(",") if name.strip()]
    named = {name: fields.get(name, "") for name in ("team", "name", "feature")}
    key = form.read(
        lambda: validated_request(
            NewKey, **named, expires=expires, models=models or None, budget=budget
        )
    )
    form.finish()
    assert key is not None  # noqa: S101 - a form without faults
    return key


def _end(lasts: str, now: float) -> float | None:
    """The end of a time that begins now, such as 90d; None for no text.

    Raises:
        CallerError: It is no time.
    """
    if not lasts:
        return None
    seconds = parse_duration(lasts)
    if not seconds:
        raise CallerError(
            "Write how long as a number and a unit, such as 12h or 90d.", code="invalid_form"
        )
    return now + seconds


def _key_budget(fields: Mapping[str, str]) -> KeyBudget | None:
    """The budget of a key's form, in dollars; None where no limit is given."""
    limit = fields.get("limit", "").strip()
    return (
        validated_request(KeyBudget, limit=limit, window=fields.get("window", ""))
        if limit
        else None
    )


def _chosen_teams(fields: dict[str, str]) -> list[str]:
    """Ids of the teams that are ticked."""
    return [name.removeprefix("team:") for name in fields if name.startswith("team:")]


def _add_account(routes: APIRouter, site: Site, people: PeopleResource) -> None:
    @routes.get(f"{HOME}/account")
    async def account_page(request: Request) -> Response:
        """The viewer's own account."""
        viewer = await site.viewer(request)
        account = await people.account(viewer)
        return await site.html("account.html", viewer, section="account", account=account)

    @routes.post(f"{HOME}/account/password")
    async def set_password(request: Request) -> Response:
        """Sets the viewer's own password."""
        viewer, fields = await site.check_form(request)
        if fields.get("password", "") != fields.get("again", ""):
            raise CallerError("The two new passwords differ.", code="invalid_form")
        new_password = validated_request(
            NewPassword, password=fields.get("password", ""), current=fields.get("current", "")
        )
        await people.set_password(viewer, new_password)
        return redirect("/account")

    @routes.post(f"{HOME}/account/end-session")
    async def end_session(request: Request) -> Response:
        """Ends one of the viewer's own sessions."""
        viewer, fields = await site.check_form(request)
        await people.end_session(viewer, fields.get("session", ""))
        return redirect("/account")
