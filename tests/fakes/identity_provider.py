"""A small OpenID Connect provider: it signs tokens with a key of its own, and keeps to PKCE."""

import base64
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

ISSUER: Final = "https://idp.example"
CLIENT_ID: Final = "gateway"
CLIENT_SECRET: Final = "s3cret/with:signs"
REDIRECT_URI: Final = "https://gateway.example/admin/sso/callback"
_KEYS: Final = [RSAKey.generate_key(2048, {"kid": f"key-{n}"}) for n in range(3)]


def s256(verifier: str) -> str:
    """The PKCE challenge of a verifier."""
    return base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@dataclass
class FakeProvider:
    """Signs in whoever asks, with these claims.

    Attributes:
        claims: Claims of the token that differ from, or are beside, the usual ones.
        signer: Number of the key that signs.
        published: Numbers of the keys that are published.
        is_away: True while it does not answer.
        asked: Paths that were asked for.
    """

    now: float
    claims: dict[str, Any] = field(default_factory=dict)
    signer: int = 0
    published: tuple[int, ...] = (0,)
    is_away: bool = False
    algorithm: str = "RS256"
    asked: list[str] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self._answer)

    def sign_in(self, url: str) -> tuple[str, str]:
        """The code and the state that it sends a browser back with."""
        parameters = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{ISSUER}/authorize?")
        assert (parameters["client_id"], parameters["redirect_uri"]) == (CLIENT_ID, REDIRECT_URI)
        assert (parameters["response_type"], parameters["code_challenge_method"]) == (
            "code",
            "S256",
        )
        code = f"code-{len(self._codes)}"
        self._codes[code] = parameters
        return code, parameters["state"]

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.url.path)
        if self.is_away:
            raise httpx2.ConnectError("nobody listens")
        if request.url.path == "/.well-known/openid-configuration":
            return httpx2.Response(200, json=self._metadata())
        if request.url.path == "/keys":
            keys = KeySet([_KEYS[n] for n in self.published]).as_dict(private=False)
            return httpx2.Response(200, json=keys)
        return self._tokens(request) if request.url.path == "/token" else httpx2.Response(404)

    def _metadata(self) -> dict[str, str]:
        return {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
        }

    def _tokens(self, request: httpx2.Request) -> httpx2.Response:
        form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        parameters = self._codes.pop(form["code"], None)  # it works once
        basic = base64.b64encode(f"{CLIENT_ID}:s3cret%2Fwith%3Asigns".encode()).decode()
        is_good = (
            parameters is not None
            and request.headers["authorization"] == f"Basic {basic}"
            and s256(form["code_verifier"]) == parameters["code_challenge"]
            and form["redirect_uri"] == REDIRECT_URI
        )
        if parameters is None or not is_good:
            return httpx2.Response(400, json={"error": "invalid_grant"})
        claims = {
            "iss": ISSUER,
            "sub": "u-1",
            "aud": CLIENT_ID,
            "iat": int(self.now),
            "exp": int(self.now) + 300,
            "nonce": parameters["nonce"],
            "preferred_username": "ann",
            "email": "ann@acme.example",
            "email_verified": True,
            "groups": ["ops"],
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        key = _KEYS[self.signer]
        token = jwt.encode({"alg": self.algorithm, "kid": key.kid}, claims, key)
        return httpx2.Response(200, json={"access_token": "a", "id_token": token})
