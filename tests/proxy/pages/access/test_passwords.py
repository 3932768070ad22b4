"""Passwords are hashed by Argon2 off the event loop, a few at a time."""

import asyncio

import pytest

from proxy.errors import Unready
from proxy.pages.access import passwords
from proxy.pages.access.passwords import Passwords, check_new_password
from tests.fakes.refusals import refusing


def test_a_password_matches_its_hash_alone() -> None:
    made = Passwords()

    async def play() -> None:
        hashed = await made.hash("correct horse battery")
        assert hashed.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
        assert await made.matches(hashed, "correct horse battery", is_known=True)
        for wrong in ("", "correct horse", "correct horse battery "):
            assert not await made.matches(hashed, wrong, is_known=True)
        assert not await made.matches("no hash", "correct horse battery", is_known=True)
        assert not made.is_outdated(hashed)

    asyncio.run(play())
    made.close()


def test_nobodys_password_is_checked_by_the_same_parameters_as_everybodys() -> None:
    """A name that nobody has takes as long as one that somebody has."""
    made = Passwords()
    assert not made.is_outdated(passwords._NOBODYS)
    assert not asyncio.run(made.matches(None, "anything", is_known=True))
    made.close()


def test_more_hashes_than_fit_are_refused_instead_of_queued() -> None:
    made = Passwords()

    async def play() -> list[object]:
        tries = (made.matches(None, "x", is_known=True) for _ in range(passwords._MAX_PENDING + 2))
        return await asyncio.gather(*tries, return_exceptions=True)

    results = asyncio.run(play())
    assert sum(isinstance(result, Unready) for result in results) == 2
    assert results.count(False) == passwords._MAX_PENDING
    assert asyncio.run(made.matches(None, "x", is_known=True)) is False
    made.close()


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("short", "12 to 256 characters"),
        ("x" * 257, "12 to 256 characters"),
        ("Annabel-12345", "does not contain your name"),
    ],
)
def test_a_weak_password_is_refused(password: str, why: str) -> None:
    with refusing(400, match=why):
        check_new_password(password, "annabel")
    check_new_password("correct horse battery", "annabel")


def test_strangers_leave_room_for_browsers_that_know_their_person() -> None:
    made = Passwords()

    async def sign_in_beside_strangers() -> tuple[list[object], bool]:
        strangers = [
            asyncio.ensure_future(made.matches(None, "x", is_known=False)) for _ in range(20)
        ]
        await asyncio.sleep(0)
        is_good = await made.matches(await made.hash("y"), "y", is_known=True)
        return await asyncio.gather(*strangers, return_exceptions=True), is_good

    results, is_good = asyncio.run(sign_in_beside_strangers())
    assert is_good
    assert sum(isinstance(result, Unready) for result in results) == 14
    made.close()
