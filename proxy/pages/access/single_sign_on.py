"""Sign-in at an OpenID Connect provider: its two routes, and the roles that groups have here."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from dashboards.access import ALL_TEAMS_ROLES, Role
from dashboards.pages import HOME
from proxy.errors import CallerError, OperatorError
from proxy.pages.access.identity_provider import (
    IdentityProvider,
    ProviderIdentity,
    SignInAttempt,
)
from proxy.pages.access.sign_in import PageAccess, page_path
from proxy.pages.access.sign_in_methods import SignInResult
from proxy.pages.site import page_router
from proxy.pages.store_questions import StoreAsker
from proxy.pages.viewing import HEADERS, is_secure
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.access.users import UserRecord, Users

CALLBACK_PATH: Final = f"{HOME}/sso/callback"
#: Author of changes that follow from a person's groups.
_WHO: Final = "identity provider"
#: Seconds that a person has to sign in there.
_ATTEMPT_LIFETIME_S: Final = 600.0
_COOKIE: Final = "thriftgate_sso"
_SECURE_COOKIE: Final = "__Host-thriftgate_sso"


@dataclass(frozen=True, slots=True)
class GroupRole:
    """The role of a group's members, and the name of the team that it is about; "" for none."""

    group: str
    role: Role
    team: str


def parse_group_roles(text: str) -> tuple[GroupRole, ...]:
    """The roles in ``THRIFTGATE_OIDC_ROLES``: ``group=role`` or ``group=role:team``, with commas.

    Raises:
        OperatorError: An entry has another form, an unknown role, or lacks its team.
    """
    entries = []
    for entry in filter(None, map(str.strip, text.split(","))):
        group, _, role_text = entry.rpartition("=")
        role, _, team = role_text.partition(":")
        roles_by_name = {member.value: member for member in Role}
        if not group or role not in roles_by_name:
            raise OperatorError(
                f"THRIFTGATE_OIDC_ROLES: {entry!r} is no group=role or group=role:team; roles are"
                f" {', '.join(roles_by_name)}."
            )
        if roles_by_name[role] not in ALL_TEAMS_ROLES and not team:
            raise OperatorError(
                f"THRIFTGATE_OIDC_ROLES: {entry!r} names no team, and a {role} sees own teams"
                f" alone: write {entry}:TEAM."
            )
        entries.append(GroupRole(group, roles_by_name[role], team))
    return tuple(entries)


def granted_role(
    roles: Sequence[GroupRole], groups: frozenset[str], teams: Mapping[str, str]
) -> tuple[Role, frozenset[str]] | None:
    """The role of a person in these groups, and the ids of their teams; None for no role.

    The first entry with one of the groups decides the role; teams are those of all such entries
    with this role.

    Args:
        teams: Ids of teams, by name.
    """
    entries = [entry for entry in roles if entry.group in groups]
    if not entries:
        return None
    role = entries[0].role
    named = (entry.team for entry in entries if entry.role is role)
    return role, frozenset(teams[name] for name in named if name in teams)


class SingleSignOn:
    """Sign-in at the provider; the installation's secret signs what browsers keep for us."""

    def __init__(
        self,
        provider: IdentityProvider,
        roles: Sequence[GroupRole],
        people: tuple[Users, Teams],
        ask: StoreAsker,
        secret: bytes,
    ) -> None:
        self._provider = provider
        self._roles = roles
        self._users, self._teams = people
        self._ask = ask
        self._key = hmac.digest(secret, b"thriftgate sign-in attempt", "sha256")

    async def begin(self, page: str) -> tuple[str, str]:
        """A signed attempt for the browser to keep, and the address where the person goes on."""
        attempt, url = await self._provider.begin(page, _ATTEMPT_LIFETIME_S)
        return self._sign(attempt), url

    def read_attempt(self, cookie: str, state: str, now: float) -> SignInAttempt:
        """The attempt that a browser kept for us.

        Raises:
            CallerError: It is none of ours, too old, or another one than the provider answers.
        """
        attempt = self._verify(cookie)
        is_ours = attempt is not None and hmac.compare_digest(
            attempt.state.encode(), state.encode()
        )
        if attempt is None or not is_ours or now >= attempt.expires:
            raise CallerError(
                "This sign-in did not begin in this browser, or took over ten minutes. Try again.",
                code="sign_in_failed",
                status=401,
            )
        return attempt

    async def finish(
        self, attempt: SignInAttempt, code: str, *, creates_people: bool, now: float
    ) -> SignInResult:
        """Signs in the person for whom the provider gave a code.

        Args:
            creates_people: True if people whom nobody has added may sign in.

        Raises:
            CallerError: The provider does not vouch for them, or they have no access here.
            Unready: The provider or the database does not answer.
        """
        identity = await self._provider.finish(attempt, code)
        named = {team.name: team.id for team in await self._ask.answer("teams", self._teams.all)}
        granted = granted_role(self._roles, identity.groups, named)
        if granted is None:
            raise _no_access("none of your groups has a role here")
        try:
            person = await self._ask.answer(
                "people", lambda: self._person(identity, granted, creates_people, now)
            )
        except ValueError as error:
            raise _no_access(str(error)) from None
        return SignInResult(person=person, holder=person.id, method="sso")

    def _person(
        self,
        identity: ProviderIdentity,
        granted: tuple[Role, frozenset[str]],
        creates: bool,  # noqa: FBT001 - given through
        now: float,
    ) -> UserRecord:
        """The person, with the role of their groups; ValueError without access. Blocks."""
        role, teams = granted
        person = self._users.by_subject(identity.subject)
        if person is None:
            person = self._users.link_subject(identity.email, identity.subject, now=now, who=_WHO)
        if person is None and creates:
            return self._users.create(
                identity.name, role, teams, now=now, who=_WHO, subject=identity.subject
            )
        if person is None:
            raise ValueError(
                "you have not been added; an administrator adds a person whose name is your e-mail"
                " address"
            )
        if person.is_disabled:
            raise ValueError("your access was disabled")
        if (person.role, person.teams) != (role, teams):
            person = self._users.change_role(person.id, role, teams, now=now, who=_WHO)
        return person

    def _sign(self, attempt: SignInAttempt) -> str:
        content = msgspec.json.encode(attempt)
        return "~".join(map(_text, (content, hmac.digest(self._key, content, sha256))))

    def _verify(self, cookie: str) -> SignInAttempt | None:
        try:
            content, _, mac = cookie.partition("~")
            signed = urlsafe_b64decode(content)
            if not hmac.compare_digest(
                urlsafe_b64decode(mac), hmac.digest(self._key, signed, sha256)
            ):
                return None
            return msgspec.json.decode(signed, type=SignInAttempt)
        except ValueError:
            return None


def router(
    single: SingleSignOn,
    access: PageAccess,
    now: Callable[[], float],
    *,
    creates_people: bool,
) -> APIRouter:
    """The routes that send people to the provider, and to which it sends them back."""
    routes = page_router()

    @routes.get("/sso")
    async def begin(request: Request) -> Response:
        """Sends a person to the provider."""
        cookie, url = await single.begin(page_path(request.query_params.get("next", "")))
        sent = RedirectResponse(url, 303, headers=HEADERS)
        secure = is_secure(request)
        sent.set_cookie(
            _SECURE_COOKIE if secure else _COOKIE,
            cookie,
            max_age=int(_ATTEMPT_LIFETIME_S),
            path="/",
            secure=secure,
            httponly=True,
            samesite="lax",
        )
        return sent

    @routes.get(CALLBACK_PATH.removeprefix(HOME))
    async def finish(request: Request) -> Response:
        """Signs in the person whom the provider sent back."""
        params, name = request.query_params, _SECURE_COOKIE if is_secure(request) else _COOKIE
        attempt = single.read_attempt(request.cookies.get(name, ""), params.get("state", ""), now())
        if "code" not in params:
            raise _no_access(f"the identity provider says {params.get('error', 'nothing')[:100]}")
        who = await single.finish(attempt, params["code"], creates_people=creates_people, now=now())
        opened = await access.open_session(request, who, attempt.wanted)
        opened.delete_cookie(name, path="/", secure=is_secure(request), httponly=True)
        return opened

    return routes


def _no_access(why: str) -> CallerError:
    return CallerError(f"You cannot sign in here: {why}.", code="no_access", status=403)


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode()
