"""An OpenID Connect provider: people sign in there, and its tokens say who they are.

::

    begin ─ state, nonce, PKCE verifier ─▶ the provider signs the person in
    finish ─ code + verifier ─▶ tokens ─ signature, issuer, audience, nonce, times ─▶ identity

Source: OpenID Connect Core 1.0, section 3.1 (2023-12); RFC 7636 (2015-09); RFC 9700 (2025-01).
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx2
import msgspec
from authlib.common.security import generate_token
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from proxy.errors import CallerError, Unready

_TIMEOUT_S: Final = 5.0
_MAX_ANSWER_BYTES: Final = 1 << 20
#: Seconds for which the provider's metadata and keys hold, and after which new ones may be read.
_METADATA_LIFETIME_S: Final = 3600.0
_MIN_REFRESH_S: Final = 60.0
#: Seconds by which its clock may differ from ours.
_LEEWAY_S: Final = 60
#: Signatures that are taken: asymmetric ones only, as the provider alone can make them.
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384")
_SCOPE: Final = "openid profile email"
#: Claims that name a person, the best first.
_NAME_CLAIMS: Final = ("preferred_username", "email", "name", "sub")


class SignInAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that has begun, as the person's browser keeps it for us, signed.

    Attributes:
        state: Value that has to come back.
        nonce: Value that has to be in the token.
        verifier: PKCE verifier of the code.
        wanted: Path of the page that follows; "" for the usual one.
        expires: Time until which it may be finished, in seconds since the epoch.
    """

    state: str
    nonce: str
    verifier: str
    wanted: str
    expires: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderIdentity:
    """A person as the provider knows them.

    Attributes:
        subject: The issuer and their id there, which is never given to anybody else.
        name: Name to show.
        email: Address that the provider has verified; "" for none.
    """

    subject: str
    name: str
    email: str
    groups: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """The place of the provider, and our name there.

    Attributes:
        issuer: Its issuer, an https URL.
        client_id: Our name there.
        client_secret: Our secret there; "" for a public client.
        redirect_uri: Our address that it sends people back to.
        groups_claim: Claim of the token with a person's groups.
    """

    issuer: str
    client_id: str
    client_secret: str
    redirect_uri: str
    groups_claim: str = "groups"


class IdentityProvider:
    """The provider, asked over HTTP; a transport takes the network's place."""

    def __init__(
        self,
        settings: ProviderSettings,
        now: Callable[[], float],
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._now = now
        self._client = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            timeout=_TIMEOUT_S,
            transport=transport,
            verify=httpx2.create_ssl_context(trust_env=False),
        )
        self._metadata: Mapping[str, Any] = {}
        self._keys: KeySet | None = None
        self._metadata_at = self._keys_at = float("-inf")

    async def aclose(self) -> None:
        """Hang up."""
        await self._client.aclose()

    async def begin(self, page: str, lifetime_s: float) -> tuple[SignInAttempt, str]:
        """A sign-in, and the address at the provider where the person goes on."""
        metadata = await self._read_metadata()
        attempt = SignInAttempt(
            state=generate_token(43),
            nonce=generate_token(43),
            verifier=generate_token(64),
            wanted=page,
            expires=self._now() + lifetime_s,
        )
        url = prepare_grant_uri(
            _endpoint(metadata, "authorization_endpoint"),
            self._settings.client_id,
            "code",
            redirect_uri=self._settings.redirect_uri,
            scope=_SCOPE,
            state=attempt.state,
            nonce=attempt.nonce,
            code_challenge=create_s256_code_challenge(attempt.verifier),
            code_challenge_method="S256",
        )
        return attempt, url

    async def finish(self, attempt: SignInAttempt, code: str) -> ProviderIdentity:
        """The person for whom the provider gave us a code.

        Raises:
            CallerError: It takes the code from nobody, or its token is not meant for this sign-in.
            Unready: It does not answer as one.
        """
        endpoint = _endpoint(await self._read_metadata(), "token_endpoint")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._settings.redirect_uri,
            "client_id": self._settings.client_id,
            "code_verifier": attempt.verifier,
        }
        status, tokens = await self._ask("POST", endpoint, data=form, headers=self._credentials())
        if status != 200:
            raise _sign_in_error("the code was used already, or is too old")
        claims = await self._read_claims(tokens, attempt.nonce)
        groups = claims.get(self._settings.groups_claim, ())
        is_list = isinstance(groups, list)
        return ProviderIdentity(
            subject=f"{claims['iss']} {claims['sub']}",
            name=next(str(claims[name]) for name in _NAME_CLAIMS if claims.get(name)),
            email=str(claims.get("email", "")) if claims.get("email_verified") is True else "",
            groups=frozenset(map(str, groups if is_list else [groups])),
        )

    async def _read_claims(self, tokens: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
        """The claims of the ID token, once it is found to be meant for this sign-in."""
        encoded = tokens.get("id_token")
        if not isinstance(encoded, str):
            raise _sign_in_error("its answer has no ID token")
        settings = self._settings
        try:
            token = await self._decode(encoded)
            required = {
                "iss": {"essential": True, "value": settings.issuer},
                "aud": {"essential": True, "value": settings.client_id},
            }
            params = {
                "nonce": nonce,
                "client_id": settings.client_id,
                "access_token": tokens.get("access_token"),
            }
            claims = CodeIDToken(token.claims, token.header, required, params)
            claims.validate(now=int(self._now()), leeway=_LEEWAY_S)
        except (JoseError, ValueError, TypeError) as error:
            # It names the claim at fault and holds nothing of the token.
            raise _sign_in_error(f"its token is not valid here ({str(error)[:200]})") from None
        return dict(claims)

    async def _decode(self, encoded: str) -> jwt.Token:
        """The token, if one of the provider's keys signed it; keys that are new are read once."""
        try:
            return jwt.decode(encoded, await self._read_keys(), algorithms=list(_ALGORITHMS))
        except (JoseError, ValueError):
            if self._now() - self._keys_at < _MIN_REFRESH_S:
                raise
        self._keys = None
        return jwt.decode(encoded, await self._read_keys(), algorithms=list(_ALGORITHMS))

    async def _read_metadata(self) -> Mapping[str, Any]:
        if self._metadata and self._now() - self._metadata_at < _METADATA_LIFETIME_S:
            return self._metadata
        issuer = self._settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        status, metadata = await self._ask("GET", url)
        if status != 200 or metadata.get("issuer") != issuer:
            raise _unready(f"{url} does not describe the issuer {issuer}")
        self._metadata, self._metadata_at = metadata, self._now()
        return metadata

    async def _read_keys(self) -> KeySet:
        if self._keys is not None and self._now() - self._keys_at < _METADATA_LIFETIME_S:
            return self._keys
        status, keys = await self._ask("GET", _endpoint(await self._read_metadata(), "jwks_uri"))
        if status != 200 or not isinstance(keys.get("keys"), list):
            raise _unready("its keys cannot be read")
        self._keys = KeySet.import_key_set({"keys": keys["keys"]})
        self._keys_at = self._now()
        return self._keys

    async def _ask(self, method: str, url: str, **sent: Any) -> tuple[int, dict[str, Any]]:  # noqa: ANN401 - as the client takes it
        """Status and JSON object of an answer; {} for a refusal that is none.

        Raises:
            Unready: It does not come in time, is too long, or is no JSON object.
        """
        body = b""
        try:
            async with self._client.stream(method, url, **sent) as answer:
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > _MAX_ANSWER_BYTES:
                        raise _unready("its answer is too long")
            if answer.status_code != 200:
                return answer.status_code, {}
            return answer.status_code, msgspec.json.decode(body, type=dict[str, Any])
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, msgspec.DecodeError) as error:
            raise _unready(f"it cannot be reached ({type(error).__name__})") from error

    def _credentials(self) -> dict[str, str]:
        """Our name and secret. Source: RFC 6749, section 2.3.1 (2012-10)."""
        secret = self._settings.client_secret
        if not secret:
            return {}
        both = f"{quote(self._settings.client_id, safe='')}:{quote(secret, safe='')}"
        return {"authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}


def _endpoint(metadata: Mapping[str, Any], name: str) -> str:
    url = metadata.get(name)
    if not isinstance(url, str):
        raise _unready(f"its metadata names no {name}")
    return url


def _sign_in_error(why: str) -> CallerError:
    return CallerError(
        f"The identity provider did not sign you in: {why}. Try again.",
        code="sign_in_failed",
        status=401,
    )


def _unready(why: str) -> Unready:
    return Unready(
        f"The identity provider cannot be used just now: {why}.",
        code="identity_provider_unavailable",
        retry_after=5.0,
    )
