"""Each way to sign in finds who somebody is, and remembers failures by name and by address."""

import asyncio

from proxy.errors import ProxyError
from proxy.pages.access.sign_in_limits import MAX_FAILURES_OF_ADDRESS, AdminToken
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
        self.methods = SignInMethods(self.kept, self.kept, token, (self.clock, self.clock))

    def identify(self, address: str = "192.0.2.7", **fields: str) -> SignInResult:
        return asyncio.run(self.methods.identify(fields, address))

    def failure(self, address: str = "192.0.2.7", **fields: str) -> tuple[int, str]:
        try:
            self.identify(address, **fields)
        except ProxyError as error:
            return error.status, error.code
        raise AssertionError("it signed in")


def test_each_way_names_itself_and_its_holder() -> None:
    door = Door()
    door.kept.links["c0de"] = "ann"
    found = [
        door.identify(name="ann", password=PASSWORD),
        door.identify(code="c0de"),
        door.identify(token=TOKEN),
    ]

    assert [each.method for each in found] == ["password", "link", "token"]
    assert [each.holder for each in found][:2] == ["user_ann", "user_ann"]
    assert door.methods.is_token_holder(found[2].holder)
    assert not door.methods.is_token_holder("user_ann")


def test_an_address_that_fails_often_waits_whatever_it_tries_and_others_do_not() -> None:
    door = Door()
    door.kept.links["c0de"] = "ann"
    for number in range(MAX_FAILURES_OF_ADDRESS):
        assert door.failure(code=f"guess {number}") == (401, "sign_in_failed")

    assert door.failure(code="c0de") == (429, "too_many_failures")
    assert door.failure(name="ann", password=PASSWORD) == (429, "too_many_failures")
    assert door.identify("192.0.2.8", code="c0de").method == "link"
    assert door.identify(token=TOKEN).method == "token"


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
