"""Ways to sign in to the pages: a password, a link that works once, or the admin token."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from proxy.errors import CallerError
from proxy.pages.access.known_browsers import KnownBrowsers
from proxy.pages.access.passwords import Passwords
from proxy.pages.access.sign_in_limits import AdminToken, SignInLimits, SignInSource
from proxy.pages.store_questions import StoreAsker
from proxy.store.sql.access.users import UserRecord

_log = logging.getLogger("thriftgate.access")
#: The source of passwords that people confirm once they are signed in, whom no stranger can stop.
_ACCOUNT_PAGE = "the account page"


class People(Protocol):
    """Knows people; may block."""

    def password_hash(self, name: str) -> tuple[UserRecord, str] | None:
        """The person of this name who may sign in by a password, and its hash."""
        ...

    def refresh_hash(self, user: str, hashed: str) -> None:
        """Keep a newer hash of the same password."""
        ...

    def redeem_link(self, code: str, now: float) -> UserRecord | None:
        """The person whom a link signs in."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInResult:
    """Somebody who has shown who they are.

    Attributes:
        person: The person; None for the admin token.
        holder: Name under which their session is kept.
        first_page: Path below ``/admin`` of the page that follows where they wanted no other.
    """

    person: UserRecord | None
    holder: str
    method: str
    first_page: str = ""


class SignInMethods:
    """Finds who somebody is by the fields of a form.

    Args:
        clocks: Seconds since the epoch, and seconds of a clock that goes forward.
        provider: Name of the identity provider; "" for none.
    """

    def __init__(
        self,
        people: People,
        ask: StoreAsker,
        token: AdminToken | None,
        clocks: tuple[Callable[[], float], Callable[[], float]],
        browsers: KnownBrowsers,
        provider: str = "",
    ) -> None:
        self._people = people
        self._ask = ask
        self._token = token
        self._now, ticks = clocks
        self._limits = SignInLimits(ticks)
        self.browsers = browsers
        self.passwords = Passwords()
        self.provider = provider

    @property
    def takes_token(self) -> bool:
        """True if there is an admin token."""
        return self._token is not None

    def is_token_holder(self, holder: str) -> bool:
        """True if a session is one of the token that is set now."""
        return self._token is not None and holder == self._token.holder

    async def identify(self, fields: Mapping[str, str], source: SignInSource) -> SignInResult:
        """Finds who has filled in a form.

        The codes of links have 256 bits and need no limit: nobody guesses one.

        Args:
            fields: ``code``, or ``token``, or ``name`` and ``password``.

        Raises:
            CallerError: Nobody has what was given, or it was tried too often.
        """
        if "token" in fields:
            return self._by_token(fields["token"])
        if "code" in fields:
            identity = await self._by_link(fields["code"])
        else:
            name = fields.get("name", "")
            browser = self.browsers.browser(source.cookie, name)
            identity = await self._by_password(
                name, fields.get("password", ""), source.address, browser
            )
        if identity is None:
            raise CallerError(
                "This link was used already, or its time is over. `thriftgate admin link` makes"
                " another."
                if "code" in fields
                else "No person has this name and this password.",
                code="sign_in_failed",
                status=401,
            )
        name = "" if identity.person is None else identity.person.name
        _log.info("%s signed in by %s", name, identity.method)
        return identity

    async def confirm_password(self, name: str, password: str) -> bool:
        """True if this is the person's password; it may be tried as often as at a sign-in.

        Raises:
            CallerError: It was tried too often.
        """
        return await self._by_password(name, password, "", _ACCOUNT_PAGE) is not None

    def _by_token(self, given: str) -> SignInResult:
        token = self._token
        if token is not None and token.matches(given):
            return SignInResult(person=None, holder=token.holder, method="token")
        if token is not None and (wait := token.record_failure()):
            raise CallerError(
                "Too many wrong tokens. Wait a minute, then try again.",
                code="too_many_failures",
                status=429,
                retry_after=wait,
            )
        raise CallerError("This is not the token.", code="sign_in_failed", status=401)

    async def _by_link(self, code: str) -> SignInResult | None:
        now = self._now()
        person = await self._ask.answer("people", lambda: self._people.redeem_link(code, now))
        if person is None:
            return None
        first = "" if person.has_password or person.subject else "/account"
        return SignInResult(person=person, holder=person.id, method="link", first_page=first)

    async def _by_password(
        self, name: str, password: str, address: str, browser: str
    ) -> SignInResult | None:
        """The person; a name that nobody has is answered, limited and timed like any other."""
        if wait := self._limits.wait(name, address, browser):
            _log.info("A sign-in from %s has to wait %.0f s: too many failed", address, wait)
            raise _too_many(wait)
        row = await self._ask.answer("people", lambda: self._people.password_hash(name))
        person, hashed = (None, None) if row is None else row
        matches = await self.passwords.matches(hashed, password, is_known=bool(browser))
        if not matches or person is None or hashed is None:
            self._limits.record_failure(name, address, browser)
            return None
        self._limits.forget(name, address, browser)
        if self.passwords.is_outdated(hashed):
            newer = await self.passwords.hash(password)
            await self._ask.answer("people", lambda: self._people.refresh_hash(person.id, newer))
        return SignInResult(person=person, holder=person.id, method="password")


def _too_many(wait: float) -> CallerError:
    return CallerError(
        "Too many failed attempts from here. Wait a minute, then try again; a link signs in at any"
        " time (`thriftgate admin link`).",
        code="too_many_failures",
        status=429,
        retry_after=wait,
    )
