"""Tokens of the identity provider are taken only when it signed them, for us, for this sign-in."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from proxy.errors import ProxyError, Unready
from proxy.pages.access.identity_provider import (
    IdentityProvider,
    ProviderIdentity,
    ProviderSettings,
    SignInAttempt,
)
from tests.fakes.clock import ManualClock
from tests.fakes.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    ISSUER,
    REDIRECT_URI,
    FakeProvider,
    s256,
)
from tests.fakes.refusals import refusing

NOW = 1_790_000_000.0
SETTINGS = ProviderSettings(
    issuer=ISSUER, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, redirect_uri=REDIRECT_URI
)


class Client:
    """Our side, before a provider."""

    def __init__(self, **fields: Any) -> None:
        self.clock = ManualClock(NOW)
        self.fake = FakeProvider(NOW, **fields)
        self.settings = SETTINGS

    def play(self, story: Callable[[IdentityProvider], Coroutine[Any, Any, Any]]) -> Any:
        async def run() -> Any:
            provider = IdentityProvider(self.settings, self.clock, self.fake.transport())
            try:
                return await story(provider)
            finally:
                await provider.aclose()

        return asyncio.run(run())

    def sign_in(self, change: Callable[[SignInAttempt], SignInAttempt] = lambda a: a) -> Any:
        async def story(provider: IdentityProvider) -> ProviderIdentity:
            attempt, url = await provider.begin("", 600.0)
            code, _ = self.fake.sign_in(url)
            return await provider.finish(change(attempt), code)

        return self.play(story)


def test_a_person_is_known_by_issuer_and_subject_with_a_name_and_groups() -> None:
    assert Client().sign_in() == ProviderIdentity(
        subject=f"{ISSUER} u-1",
        name="ann",
        email="ann@acme.example",
        groups=frozenset({"ops"}),
    )
    plain = {"preferred_username": None, "email_verified": None, "groups": "ops"}
    result = Client(claims=plain).sign_in()
    assert (result.name, result.email, result.groups) == ("ann@acme.example", "", {"ops"})


def test_each_sign_in_has_its_own_state_nonce_and_challenge() -> None:
    async def story(provider: IdentityProvider) -> list[Any]:
        return [await provider.begin("", 600.0) for _ in range(2)]

    (one, url), (two, _) = Client().play(story)
    request = parse_qs(urlsplit(url).query)
    assert request["code_challenge"] == [s256(one.verifier)]
    assert (request["state"], request["nonce"]) == ([one.state], [one.nonce])
    assert len({one.state, two.state, one.nonce, two.nonce, one.verifier, two.verifier}) == 6
    assert len(one.verifier) >= 43


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "another-client"}, "aud"),
        ({"aud": [CLIENT_ID, "another"], "azp": "another"}, "azp"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"exp": int(NOW) - 61}, "expired"),
        ({"exp": None}, "exp"),
        ({"iat": int(NOW) + 3600}, "iat|issued|future"),
        ({"sub": None}, "sub"),
        ({"at_hash": "wrong"}, "at_hash"),
    ],
)
def test_a_token_that_is_not_meant_for_this_sign_in_is_refused(
    claims: dict[str, Any], why: str
) -> None:
    with refusing(401, match=f"not valid here .*({why})"):
        Client(claims=claims).sign_in()


def test_a_token_that_another_key_signed_is_refused() -> None:
    with refusing(401, match="not valid here"):
        Client(signer=1).sign_in()


def test_a_code_is_taken_once_and_only_with_the_verifier_it_was_asked_for_with() -> None:
    with refusing(401, match="used already"):
        Client().sign_in(
            lambda attempt: SignInAttempt(
                state=attempt.state,
                nonce=attempt.nonce,
                verifier="x" * 64,
                wanted="",
                expires=attempt.expires,
            )
        )

    client = Client()

    async def story(provider: IdentityProvider) -> None:
        attempt, url = await provider.begin("", 600.0)
        code, _ = client.fake.sign_in(url)
        await provider.finish(attempt, code)
        with refusing(401, match="used already"):
            await provider.finish(attempt, code)

    client.play(story)


def test_a_new_key_of_the_provider_is_read_and_a_flood_of_bad_tokens_reads_none() -> None:
    client = Client()

    async def story(provider: IdentityProvider) -> int:
        async def once() -> None:
            attempt, url = await provider.begin("", 600.0)
            await provider.finish(attempt, client.fake.sign_in(url)[0])

        await once()
        client.fake.signer, client.fake.published = 1, (0, 1)
        client.clock.now += 61.0
        await once()
        client.fake.signer = 2  # which it does not publish
        before = client.fake.asked.count("/keys")
        for _ in range(20):
            with refusing(401, match="not valid here"):
                await once()
        return client.fake.asked.count("/keys") - before

    assert client.play(story) == 0
    assert client.fake.asked.count("/keys") == 2
    assert client.fake.asked.count("/.well-known/openid-configuration") == 1


def test_a_provider_that_is_away_or_another_one_is_told_from_a_refusal() -> None:
    def failure(client: Client) -> ProxyError:
        with pytest.raises(Unready) as caught:
            client.sign_in()
        return caught.value

    away = Client(is_away=True)
    assert failure(away).code == "identity_provider_unavailable"
    other = Client()
    other.settings = replace(SETTINGS, issuer=f"{ISSUER}/other")
    assert "cannot be used just now" in failure(other).message
