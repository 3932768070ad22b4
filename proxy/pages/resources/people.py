"""``/api/v1/people`` and ``/api/v1/account``: who may sign in, and the viewer's own account."""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter
from pydantic import BaseModel, Field

from dashboards.access import ALL_TEAMS_ROLES, Action, Role, Viewer, sign_in_url
from dashboards.views.access import AccountView, PersonView, SessionEntry, SignInLink
from proxy.errors import CallerError
from proxy.pages.access.passwords import MAX_CHARS, check_new_password
from proxy.pages.access.sign_in import PageAccess
from proxy.pages.resources.teams import ItemId, Name
from proxy.pages.store_questions import StoreAsker
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.store.sql.access.admin_sessions import SessionRecord
from proxy.store.sql.access.users import LINK_LIFETIME_S, UserRecord
from proxy.store.store import Store

T = TypeVar("T")

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


class PeopleResource:
    """People as administrators see and change them, and everybody's own account.

    Args:
        store: Holds them.
        access: Access to the pages, which follows their changes.
        now: Seconds since the epoch.
    """

    def __init__(
        self, store: Store, ask: StoreAsker, access: PageAccess, now: Callable[[], float]
    ) -> None:
        self._users, self._sessions, self._teams = store.users, store.sessions, store.teams
        self._ask = ask
        self._access = access
        self._now = now

    async def list(self, viewer: Viewer) -> list[PersonView]:
        """All people, by name.

        Raises:
            CallerError: The viewer may not see them.
        """
        check_allowed(viewer, Action.CHANGE_USERS)
        return [_person_view(user) for user in await self._change(self._users.all)]

    async def add(self, viewer: Viewer, request: NewPerson) -> SignInLink:
        """Adds a person, and makes a link at which they set their password.

        Raises:
            CallerError: The viewer may not, the name is taken, or there is no such team.
        """
        check_allowed(viewer, Action.CHANGE_USERS)
        await self._check_teams(request.role, request.teams)
        now = self._now()
        await self._change(
            lambda: self._users.create(
                request.name, request.role, request.teams, now=now, who=viewer.name
            )
        )
        return await self._link(viewer, request.name)

    async def make_link(self, viewer: Viewer, person: str) -> SignInLink:
        """Makes a link that signs a person in once, who has lost their password for instance.

        Raises:
            CallerError: The viewer may not, there is no such person, or they are disabled.
        """
        check_allowed(viewer, Action.CHANGE_USERS)
        return await self._link(viewer, (await self._find(person)).name)

    async def change_role(self, viewer: Viewer, person: str, request: RoleChange) -> PersonView:
        """Gives a person another role and other teams; it holds within seconds.

        Raises:
            CallerError: The viewer may not, there is no such person or team, or nobody would be
                an administrator any more.
        """
        check_allowed(viewer, Action.CHANGE_USERS)
        await self._find(person)
        await self._check_teams(request.role, request.teams)
        now = self._now()
        changed = await self._change(
            lambda: self._users.change_role(
                person, request.role, request.teams, now=now, who=viewer.name
            )
        )
        self._access.forget(person)
        return _person_view(changed)

    async def set_state(self, viewer: Viewer, person: str, request: SignInState) -> PersonView:
        """Lets a person sign in no more, or again.

        Raises:
            CallerError: As above.
        """
        check_allowed(viewer, Action.CHANGE_USERS)
        await self._find(person)
        now, disabled = self._now(), request.is_disabled
        changed = await self._change(
            lambda: self._users.set_disabled(person, disabled=disabled, now=now, who=viewer.name)
        )
        self._access.forget(person)
        return _person_view(changed)

    async def account(self, viewer: Viewer) -> AccountView:
        """The viewer's own account, with their sessions."""
        person, sessions = await self._read_own(viewer)
        return AccountView(
            name=viewer.name,
            role=viewer.role.value,
            has_password=None if person is None else person.has_password,
            needs_current=_needs_current(viewer, person, sessions),
            sessions=[_session_view(session, viewer) for session in sessions],
        )

    async def set_password(self, viewer: Viewer, request: NewPassword) -> None:
        """Sets the viewer's own password; their other sessions end.

        Raises:
            CallerError: They are no person, the current password is wrong, or the new one weak.
        """
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
        await self._change(
            lambda: self._users.set_password(person.id, hashed, now=now, who=viewer.name)
        )
        await self._change(lambda: self._sessions.end_of_holder(person.id, but=viewer.session))
        self._access.forget(person.id)

    async def end_session(self, viewer: Viewer, session: str) -> None:
        """Ends one of the viewer's own sessions.

        Raises:
            CallerError: There is none with this id.
        """
        ended = 0
        if viewer.user:
            ended = await self._change(
                lambda: self._sessions.end_of_holder(viewer.user, session=session)
            )
        if not ended:
            raise CallerError(
                "You have no session with this id; see GET /api/v1/account.",
                code="unknown_session",
                status=404,
            )
        self._access.forget(viewer.user)

    def router(self) -> APIRouter:
        """Routes of the API."""
        routes = APIRouter(tags=["people"])
        self._add_people(routes)
        self._add_account(routes)
        return routes

    def _add_people(self, routes: APIRouter) -> None:
        @routes.get("/people")
        async def list_people(viewer: SignedIn) -> list[PersonView]:
            """All people who may sign in."""
            return await self.list(viewer)

        @routes.post("/people", status_code=201)
        async def add_person(viewer: SignedIn, request: NewPerson) -> SignInLink:
            """Adds a person; the link is in this answer alone."""
            return await self.add(viewer, request)

        @routes.post("/people/{person}/link", status_code=201)
        async def make_link(viewer: SignedIn, person: ItemId) -> SignInLink:
            """Makes a link that signs a person in once."""
            return await self.make_link(viewer, person)

        @routes.put("/people/{person}/role")
        async def change_role(viewer: SignedIn, person: ItemId, request: RoleChange) -> PersonView:
            """Gives a person another role and other teams."""
            return await self.change_role(viewer, person, request)

        @routes.put("/people/{person}/state")
        async def set_state(viewer: SignedIn, person: ItemId, request: SignInState) -> PersonView:
            """Lets a person sign in no more, or again."""
            return await self.set_state(viewer, person, request)

    def _add_account(self, routes: APIRouter) -> None:
        @routes.get("/account")
        async def get_account(viewer: SignedIn) -> AccountView:
            """The viewer's own account."""
            return await self.account(viewer)

        @routes.put("/account/password", status_code=204)
        async def set_password(viewer: SignedIn, request: NewPassword) -> None:
            """Sets the viewer's own password."""
            await self.set_password(viewer, request)

        @routes.delete("/account/sessions/{session}", status_code=204)
        async def end_session(viewer: SignedIn, session: ItemId) -> None:
            """Ends one of the viewer's own sessions."""
            await self.end_session(viewer, session)

    async def _change(self, question: Callable[[], T]) -> T:
        """Asks about people.

        Raises:
            CallerError: It cannot be; the store says why.
        """
        try:
            return await self._ask.answer("people", question)
        except ValueError as error:
            raise CallerError(f"{str(error)[:300]}.", code="not_possible", status=409) from None

    async def _link(self, viewer: Viewer, name: str) -> SignInLink:
        now = self._now()
        code = await self._change(lambda: self._users.create_link(name, now=now, who=viewer.name))
        person = await self._change(lambda: self._users.find(name))
        if person is None:
            raise _unknown_person()
        return SignInLink(
            person=_person_view(person), path=sign_in_url("", code), expires=now + LINK_LIFETIME_S
        )

    async def _find(self, person: str) -> UserRecord:
        user = await self._change(lambda: self._users.by_id(person))
        if user is None:
            raise _unknown_person()
        return user

    async def _check_teams(self, role: Role, teams: Sequence[str]) -> None:
        team_ids = {team.id for team in await self._ask.answer("teams", self._teams.all)}
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
        person = await self._change(lambda: self._users.by_id(viewer.user))
        sessions = await self._change(lambda: self._sessions.of_holder(viewer.user, now))
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
    return PersonView(
        id=person.id,
        name=person.name,
        role=person.role.value,
        teams=sorted(person.teams),
        has_password=person.has_password,
        uses_sso=person.subject is not None,
        created=person.created,
        is_disabled=person.is_disabled,
    )


def _session_view(session: SessionRecord, viewer: Viewer) -> SessionEntry:
    return SessionEntry(
        id=session.id,
        method=session.method,
        browser=session.browser,
        began=session.began,
        used=session.used,
        is_this=session.id == viewer.session,
    )
