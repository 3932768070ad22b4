"""``/api/v1/people``, ``/account`` and ``/audit``: who may sign in, and what people changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from dashboards.access import ALL_TEAMS_ROLES, Action, Role, Viewer, sign_in_url
from dashboards.views.access import AccountView, AuditPage, PersonView, SessionEntry, SignInLink
from proxy.errors import CallerError
from proxy.pages.access.passwords import MAX_CHARS, check_new_password
from proxy.pages.access.sign_in import PageAccess
from proxy.pages.resources.api import Resource
from proxy.pages.resources.teams import ItemId
from proxy.pages.store_questions import StoreAsker
from proxy.pages.viewing import Clock, Name, SignedIn, check_allowed, route, view_of
from proxy.store.sql.access.admin_sessions import SessionRecord
from proxy.store.sql.access.users import LINK_LIFETIME_S, UserRecord
from proxy.store.sql.settings.stored_budgets import BUDGET_CHANGES
from proxy.store.sql.settings.stored_policies import policy_changes
from proxy.store.store import Store

T = TypeVar("T")

#: Words of the audit log for changes that finance sees.
_MONEY_CHANGES: Final = frozenset(
    {*BUDGET_CHANGES, *policy_changes("reports"), *policy_changes("models"), "send report"}
)
TeamIds = Annotated[list[Name], Field(max_length=500)]


class NewPerson(BaseModel):
    """A person to add; they set their password themselves, at a link."""

    name: Annotated[Name, Field(max_length=100)]
    role: Role
    teams: TeamIds = []


class RoleChange(BaseModel):
    """A person's new role, and the ids of their teams."""

    role: Role
    teams: TeamIds = []


class SignInState(BaseModel):
    """True where a person may not sign in."""

    is_disabled: bool


class NewPassword(BaseModel):
    """A new password; the current one is needed unless the session began by a link."""

    password: Annotated[str, Field(max_length=MAX_CHARS)]
    current: Annotated[str, Field(max_length=MAX_CHARS)] = ""


class AuditQuery(BaseModel):
    """Changes that are wanted; "" in a filter is everything."""

    after: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9_]*$")] = Field(
        "", description="The `next` of the page before."
    )
    limit: int = Field(50, ge=1, le=200)
    who: Annotated[str, Field(max_length=300)] = Field("", description="Name of a person.")
    team: Annotated[str, Field(max_length=64)] = Field("", description="Id of a team.")


@dataclass(eq=False)
class AuditResource(Resource):
    """The audit log as administrators and finance see it."""

    tag = "audit"

    _store: Store
    _ask: StoreAsker

    @route("GET", "/audit", name="list_changes")
    async def list(self, viewer: SignedIn, query: Annotated[AuditQuery, Query()]) -> AuditPage:
        """Changes that people made, the newest first; for finance those of money alone."""
        check_allowed(viewer, Action.SEE_AUDIT_LOG)
        actions = None if viewer.may(Action.SEE_ALL_CHANGES) else _MONEY_CHANGES
        entries = await self._ask.answer(
            "audit",
            lambda: self._store.audit.entries(
                query.limit + 1,
                before=query.after,
                who=query.who,
                team=query.team,
                actions=actions,
            ),
        )
        shown = entries[: query.limit]
        return AuditPage(
            entries=shown,
            next=shown[-1].id if len(entries) > query.limit else None,
        )


@dataclass(eq=False)
class PeopleResource(Resource):
    """People as administrators see and change them, and everybody's own account."""

    tag = "people"

    _store: Store
    _ask: StoreAsker
    _access: PageAccess
    _now: Clock

    @route("GET", "/people", name="list_people")
    async def list(self, viewer: SignedIn) -> Sequence[PersonView]:
        """All people who may sign in."""
        check_allowed(viewer, Action.CHANGE_USERS)
        return [_person_view(user) for user in await self._change(self._store.users.all)]

    @route("POST", "/people", name="add_person", status_code=201)
    async def add(self, viewer: SignedIn, request: NewPerson) -> SignInLink:
        """Adds a person; the link is in this answer alone."""
        check_allowed(viewer, Action.CHANGE_USERS)
        await self._check_teams(request.role, request.teams)
        now = self._now()
        await self._change(
            lambda: self._store.users.create(
                request.name, request.role, request.teams, now=now, who=viewer.name
            )
        )
        return await self._link(viewer, request.name)

    @route("POST", "/people/{person}/link", status_code=201)
    async def make_link(self, viewer: SignedIn, person: ItemId) -> SignInLink:
        """Makes a link that signs a person in once."""
        check_allowed(viewer, Action.CHANGE_USERS)
        return await self._link(viewer, (await self._find(person)).name)

    @route("PUT", "/people/{person}/role")
    async def change_role(
        self, viewer: SignedIn, person: ItemId, request: RoleChange
    ) -> PersonView:
        """Gives a person another role and other teams."""
        check_allowed(viewer, Action.CHANGE_USERS)
        await self._find(person)
        await self._check_teams(request.role, request.teams)
        now = self._now()
        changed = await self._change(
            lambda: self._store.users.change_role(
                person, request.role, request.teams, now=now, who=viewer.name
            )
        )
        self._access.forget(person)
        return _person_view(changed)

    @route("PUT", "/people/{person}/state")
    async def set_state(self, viewer: SignedIn, person: ItemId, request: SignInState) -> PersonView:
        """Lets a person sign in no more, or again."""
        check_allowed(viewer, Action.CHANGE_USERS)
        await self._find(person)
        now, disabled = self._now(), request.is_disabled
        changed = await self._change(
            lambda: self._store.users.set_disabled(
                person, disabled=disabled, now=now, who=viewer.name
            )
        )
        self._access.forget(person)
        return _person_view(changed)

    @route("GET", "/account", name="get_account")
    async def account(self, viewer: SignedIn) -> AccountView:
        """The viewer's own account."""
        person, sessions = await self._read_own(viewer)
        return AccountView(
            name=viewer.name,
            role=viewer.role.value,
            has_password=None if person is None else person.has_password,
            needs_current=_needs_current(viewer, person, sessions),
            sessions=[
                view_of(SessionEntry, session, is_this=session.id == viewer.session)
                for session in sessions
            ],
        )

    @route("PUT", "/account/password", status_code=204)
    async def set_password(self, viewer: SignedIn, request: NewPassword) -> None:
        """Sets the viewer's own password."""
        person, sessions = await self._read_own(viewer)
        if person is None:
            raise CallerError(
                "The admin token is no person, and has no password.", code="no_person", status=403
            )
        check_new_password(request.password, person.name)
        methods = self._access.methods
        if _needs_current(viewer, person, sessions) and not await methods.confirm_password(
            person.name, request.current
        ):
            raise CallerError(
                "This is not your current password.",
                code="wrong_password",
                param="current",
                status=403,
            )
        hashed, now = await methods.passwords.hash(request.password), self._now()
        users, sessions_of_all = self._store.users, self._store.sessions
        await self._change(lambda: users.set_password(person.id, hashed, now=now, who=viewer.name))
        await self._change(lambda: sessions_of_all.end_of_holder(person.id, but=viewer.session))
        self._access.forget(person.id)

    @route("DELETE", "/account/sessions/{session}", status_code=204)
    async def end_session(self, viewer: SignedIn, session: ItemId) -> None:
        """Ends one of the viewer's own sessions."""
        ended = 0
        if viewer.user:
            ended = await self._change(
                lambda: self._store.sessions.end_of_holder(viewer.user, session=session)
            )
        if not ended:
            raise CallerError(
                "You have no session with this id; see GET /api/v1/account.",
                code="unknown_session",
                status=404,
            )
        self._access.forget(viewer.user)

    async def _change(self, question: Callable[[], T]) -> T:
        """The answer to a question about people; raises CallerError with the reason for none."""
        try:
            return await self._ask.answer("people", question)
        except ValueError as error:
            raise CallerError(f"{str(error)[:300]}.", code="not_possible", status=409) from None

    async def _link(self, viewer: Viewer, name: str) -> SignInLink:
        now, users = self._now(), self._store.users
        code = await self._change(lambda: users.create_link(name, now=now, who=viewer.name))
        person = await self._change(lambda: users.find(name))
        if person is None:
            raise _unknown_person()
        return SignInLink(
            person=_person_view(person), path=sign_in_url("", code), expires=now + LINK_LIFETIME_S
        )

    async def _find(self, person: str) -> UserRecord:
        user = await self._change(lambda: self._store.users.by_id(person))
        if user is None:
            raise _unknown_person()
        return user

    async def _check_teams(self, role: Role, teams: Sequence[str]) -> None:
        team_ids = {team.id for team in await self._ask.answer("teams", self._store.teams.all)}
        if not team_ids.issuperset(teams):
            raise CallerError(
                "There is no team with one of these ids; see GET /api/v1/teams.",
                code="unknown_team",
                param="teams",
                status=404,
            )
        if role not in ALL_TEAMS_ROLES and not teams:
            raise CallerError(
                f"A {role.value} sees own teams alone: name one or more.",
                code="teams_missing",
                param="teams",
            )

    async def _read_own(self, viewer: Viewer) -> tuple[UserRecord | None, Sequence[SessionRecord]]:
        """The viewer as a person, None for the admin token, and their sessions."""
        if not viewer.user:
            return None, ()
        now = self._now()
        person = await self._change(lambda: self._store.users.by_id(viewer.user))
        sessions = await self._change(lambda: self._store.sessions.of_holder(viewer.user, now))
        return person, sessions


def _needs_current(
    viewer: Viewer, person: UserRecord | None, sessions: Sequence[SessionRecord]
) -> bool:
    """True if a new password needs the current one: unless the session began by a link."""
    by_link = any(session.id == viewer.session and session.method == "link" for session in sessions)
    return person is not None and person.has_password and not by_link


def _unknown_person() -> CallerError:
    return CallerError(
        "There is no person with this id; see GET /api/v1/people.",
        code="unknown_person",
        status=404,
    )


def _person_view(person: UserRecord) -> PersonView:
    uses_sso, teams = person.subject is not None, sorted(person.teams)
    return view_of(PersonView, person, role=person.role.value, teams=teams, uses_sso=uses_sso)
