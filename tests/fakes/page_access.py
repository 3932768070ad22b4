"""Access to the pages over people and sessions in memory, in time that is set."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from argon2 import PasswordHasher

from dashboards.access import Role
from proxy.errors import Unready
from proxy.pages.access.known_browsers import KnownBrowsers
from proxy.pages.access.sessions import AdminSessions, SignedInPerson
from proxy.pages.access.sign_in import PageAccess
from proxy.pages.access.sign_in_limits import AdminToken
from proxy.pages.access.sign_in_methods import SignInMethods
from proxy.store.sql.access.admin_sessions import SessionRecord
from proxy.store.sql.access.users import UserRecord

T = TypeVar("T")

PASSWORD = "correct horse battery"
#: Cheap, so that tests are; it is refreshed at the first sign-in.
_CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def a_person(name: str = "ann", role: Role = Role.ADMIN, *teams: str) -> UserRecord:
    return UserRecord(
        id=f"user_{name}",
        name=name,
        role=role,
        teams=frozenset(teams),
        has_password=True,
        subject=None,
        created=0.0,
    )


@dataclass
class InMemoryAccess:
    """People, links and sessions; while ``is_away`` nothing answers."""

    people: dict[str, UserRecord] = field(default_factory=lambda: {"ann": a_person()})
    links: dict[str, str] = field(default_factory=dict)
    sessions: dict[bytes, SessionRecord] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    is_away: bool = False
    questions: int = 0

    async def answer(self, kind: str, question: Callable[[], T], share: float = 1.0) -> T:
        self.questions += 1
        if self.is_away:
            raise Unready("The database does not answer.", code="database_unavailable")
        return question()

    def begin(self, hashed: bytes, session: SessionRecord) -> None:
        self.sessions[hashed] = session

    def find(self, hashed: bytes, now: float) -> SignedInPerson | None:
        session = self.sessions.get(hashed)
        if session is None or session.has_ended(now):
            return None
        people = {person.id: person for person in self.people.values()}
        self.sessions[hashed] = SessionRecord(
            id=session.id,
            holder=session.holder,
            method=session.method,
            browser=session.browser,
            began=session.began,
            used=now,
        )
        return session, people.get(session.holder)

    def end(self, hashed: bytes) -> None:
        self.sessions.pop(hashed, None)

    def password_hash(self, name: str) -> tuple[UserRecord, str] | None:
        person = self.people.get(name)
        if person is None or not person.has_password or person.is_disabled:
            return None
        return person, self.hashes.setdefault(name, _CHEAP.hash(PASSWORD))

    def refresh_hash(self, user: str, hashed: str) -> None:
        self.hashes[user.removeprefix("user_")] = hashed

    def redeem_link(self, code: str, now: float) -> UserRecord | None:
        return self.people.get(self.links.pop(code, ""))


def page_access(
    access: InMemoryAccess, token: str, ticks: Callable[[], float], *, provider: str = ""
) -> PageAccess:
    """Access by a token, too, unless it is ""."""
    admin = AdminToken(token, ticks) if token else None
    methods = SignInMethods(
        access, access, admin, (ticks, ticks), KnownBrowsers(b"a secret"), provider
    )
    return PageAccess(AdminSessions(access, access, ticks), methods)
