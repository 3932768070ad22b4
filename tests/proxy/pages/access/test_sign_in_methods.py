"""Each way to sign in finds who somebody is, and remembers failed passwords."""

import asyncio

from proxy.errors import ProxyError
from proxy.pages.access.known_browsers import KnownBrowsers
from proxy.pages.access.sign_in_limits import (
    MAX_FAILURES_OF_ADDRESS,
    MAX_FAILURES_OF_PAIR,
    AdminToken,
    SignInSource,
)
from proxy.pages.access.sign_in_methods import SignInMethods, SignInResult
from tests.fakes.clock import ManualClock
from tests.fakes.page_access import PASSWORD, InMemoryAccess

TOKEN = "an-admin-token-of-24-chars"


class Door:
    """Ways to sign in, by a token, too."""

    def __init__(self) -> None:
        self.kept = InMemoryAccess()
        self.clock = ManualClock(1000.0)
        token = AdminToken(TOKEN, self.clock)
        self.browsers = KnownBrowsers(b"a secret")
        clocks = (self.clock, self.clock)
        self.methods = SignInMethods(self.kept, self.kept, token, clocks, self.browsers)

    def identify(self, address: str = "192.0.2.7", cookie: str = "", **fields: str) -> SignInResult:
        return asyncio.run(self.methods.identify(fields, SignInSource(address, cookie)))

    def failure(
        self, address: str = "192.0.2.7", cookie: str = "", **fields: str
    ) -> tuple[int, str]:
        try:
            self.identify(address, cookie, **fields)
        except ProxyError as error:
            return error.status, error.code
        raise AssertionError("it signed in")


def test_each_way_names_itself_and_its_holder() -> None:
    door = Door()
    door.kept.links["c0de"] = "ann"
    identities = [
        door.identify(name="ann", password=PASSWORD),
        door.identify(code="c0de"),
        door.identify(token=TOKEN),
    ]

    assert [identity.method for identity in identities] == ["password", "link", "token"]
    assert [identity.holder for identity in identities][:2] == ["user_ann", "user_ann"]
    assert door.methods.is_token_holder(identities[2].holder)
    assert not door.methods.is_token_holder("user_ann")


def test_an_address_that_fails_often_waits_with_passwords_alone_and_others_do_not() -> None:
    door = Door()
    door.kept.links["c0de"] = "ann"
    for number in range(MAX_FAILURES_OF_ADDRESS):
        assert door.failure(name=f"guess {number}", password="x") == (401, "sign_in_failed")

    assert door.failure(name="ann", password=PASSWORD) == (429, "too_many_failures")
    assert door.identify("192.0.2.8", name="ann", password=PASSWORD).method == "password"
    assert door.identify(code="c0de").method == "link"
    assert door.identify(token=TOKEN).method == "token"


def test_a_password_that_is_guessed_from_everywhere_still_opens_in_a_browser_that_knows_it() -> (
    None
):
    door = Door()
    for number in range(600):
        door.failure(f"192.0.{number // 200}.{number % 200}", name="ann", password="wrong")
    cookie = door.browsers.new_cookie("ann")

    assert door.failure("203.0.113.9", name="ann", password=PASSWORD) == (429, "too_many_failures")
    assert door.failure("203.0.113.9", cookie + "x", name="ann", password=PASSWORD)[0] == 429
    assert door.identify("203.0.113.9", cookie, name="ann", password=PASSWORD).method == "password"


def test_a_browser_that_knows_a_person_may_not_guess_at_length_either() -> None:
    door = Door()
    cookie = door.browsers.new_cookie("ann")
    for number in range(MAX_FAILURES_OF_PAIR):
        failure = door.failure(f"192.0.2.{number}", cookie, name="ann", password="wrong")
        assert failure == (401, "sign_in_failed")

    assert door.failure("192.0.2.99", cookie, name="ann", password=PASSWORD)[0] == 429


def test_strangers_keep_nobody_from_changing_their_password_who_is_signed_in() -> None:
    door = Door()
    for _ in range(MAX_FAILURES_OF_PAIR + 1):
        door.failure(name="ann", password="wrong")

    assert asyncio.run(door.methods.confirm_password("ann", PASSWORD))


def test_a_password_kept_by_older_parameters_is_hashed_anew() -> None:
    door = Door()
    door.identify(name="ann", password=PASSWORD)
    assert door.kept.hashes["ann"].startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    newer = door.kept.hashes["ann"]

    door.identify(name="ann", password=PASSWORD)
    assert door.kept.hashes["ann"] == newer


def test_a_disabled_person_and_one_without_a_password_fail_as_nobody_does() -> None:
    door = Door()
    object.__setattr__(door.kept.people["ann"], "disabled_at", 1.0)

    assert door.failure(name="ann", password=PASSWORD) == (401, "sign_in_failed")


def test_a_database_that_is_away_is_no_failure_of_whoever_signs_in() -> None:
    door = Door()
    door.kept.is_away = True
    for _ in range(100):
        assert door.failure(name="ann", password=PASSWORD) == (503, "database_unavailable")
    door.kept.is_away = False

    assert door.identify(name="ann", password=PASSWORD).method == "password"
