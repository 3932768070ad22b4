"""Signs requests to clouds: AWS signatures, or Google's tokens.

Credentials come by the usual chain of each: environment, profile or file, the machine's own role.
Finding or renewing them may block for seconds, so it is done on a thread, once for all calls that
wait. Calls go on with credentials that are still valid meanwhile. The packages are optional extras,
loaded with the first call.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from proxy.catalog.entries import Auth, Upstream
from proxy.errors import UpstreamError
from proxy.providers.cloud_platforms.aws_errors import EXPIRED_TYPES, error_type
from proxy.upstream.cloud_packages import not_installed
from proxy.upstream.pool_limit import UNSENT_IF_CANCELLED

#: Bodies from this size on are hashed on a thread: that takes a millisecond or more.
_MIN_THREADED_BYTES: Final = 512 * 1024
#: Seconds between two attempts to find or renew credentials.
_RENEWAL_PAUSE_S: Final = 10.0
#: Headers of a signature. Source: AWS, Signature Version 4 (2026-11).
_SIGNATURE: Final = ("Authorization", "X-Amz-Date", "X-Amz-Security-Token")
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_MANTLE: Final = "bedrock-mantle"
_FIXES: Final[Mapping[Auth, str]] = {
    "aws": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a"
    " role; an API key of Bedrock's goes by key_env",
    "google": "set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login,"
    " or give the machine a service account",
}


class UnsignedRequest(msgspec.Struct, frozen=True):
    """A request as it will be sent, but for its proof.

    Attributes:
        headers: All of its headers, names in lower case.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


class CloudCredentials(ABC):
    """The credentials of one upstream's account, renewed before they expire."""

    def __init__(self, upstream: Upstream, pause_s: float = _RENEWAL_PAUSE_S) -> None:
        """Nothing is read or loaded yet.

        Args:
            pause_s: Seconds between two attempts to find or renew them.
        """
        self._upstream = upstream
        self._pause_s = pause_s
        self._reason = ""
        self._tried_at = float("-inf")
        self._search: asyncio.Future[str] | None = None

    async def headers(self, request: UnsignedRequest) -> dict[str, str]:
        """The headers that prove whose a request is.

        Raises:
            UpstreamError: If no credentials are found, or their package is missing.
        """
        if self._is_due():
            with UNSENT_IF_CANCELLED:
                await self._renew()
        return await self._proof(request)

    @abstractmethod
    def find(self) -> str:
        """Find or renew the credentials; the reason that there are none, or "". It blocks."""

    @abstractmethod
    def were_refused(self, status: int, headers: Mapping[str, str]) -> bool:
        """True if an answer says that the credentials have expired; they are forgotten then."""

    @abstractmethod
    def _is_due(self) -> bool:
        """True if they are missing, or expire soon."""

    @abstractmethod
    def _is_usable(self) -> bool:
        """True if they are there and have not expired."""

    @abstractmethod
    async def _proof(self, request: UnsignedRequest) -> dict[str, str]:
        """The headers, made with the credentials of now."""

    async def _renew(self) -> None:
        """Have the credentials renewed; waits only where those of now cannot be used.

        Raises:
            UpstreamError: If there are none.
        """
        loop = asyncio.get_running_loop()
        if self._search is None and loop.time() - self._tried_at >= self._pause_s:
            self._search = loop.run_in_executor(None, self.find)
            self._search.add_done_callback(self._end_search)
        if self._search is not None and not self._is_usable():
            await asyncio.shield(self._search)
        if not self._is_usable():
            raise missing_key(
                f"The gateway has no credentials for {self._upstream.name}: {self._reason}."
            )

    def _end_search(self, search: asyncio.Future[str]) -> None:
        self._search = None
        if not search.cancelled():
            self._reason = search.result()
            self._tried_at = search.get_loop().time()


class AwsCredentials(CloudCredentials):
    """Signs requests for AWS by Signature Version 4, with botocore."""

    _found: Any = None
    _frozen: Any = None

    def find(self) -> str:
        """Find or renew the credentials; the reason that there are none, or ""."""
        try:
            from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an optional extra
            from botocore.session import Session  # noqa: PLC0415 - an optional extra
        except ImportError:
            return not_installed("aws")
        # At its debug level it would log session tokens.
        logging.getLogger("botocore.auth").setLevel(logging.INFO)
        try:
            if self._found is None:
                self._found = Session(profile=self._upstream.aws_profile or None).get_credentials()
            self._frozen = self._found and self._found.get_frozen_credentials()
        except (BotoCoreError, ClientError, OSError, ValueError) as error:
            return f"{_FIXES['aws']} ({type(error).__name__})"
        return "" if self._frozen else _FIXES["aws"]

    def were_refused(self, status: int, headers: Mapping[str, str]) -> bool:
        """True if they have expired: files and roles may hold new ones by now."""
        if status not in {400, 403} or error_type(headers) not in EXPIRED_TYPES:
            return False
        self._found = self._frozen = None
        self._tried_at = float("-inf")
        return True

    def _is_due(self) -> bool:
        if self._frozen is None:
            return True
        expires = getattr(self._found, "refresh_needed", None)
        return expires is not None and bool(expires())

    def _is_usable(self) -> bool:
        if self._frozen is None:
            return False
        expires = getattr(self._found, "refresh_needed", None)
        return expires is None or not expires(0)

    async def _proof(self, request: UnsignedRequest) -> dict[str, str]:
        if len(request.body) < _MIN_THREADED_BYTES:
            return self._sign(request)
        with UNSENT_IF_CANCELLED:
            return await asyncio.to_thread(self._sign, request)

    def _sign(self, request: UnsignedRequest) -> dict[str, str]:
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - an optional extra
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - an optional extra

        signed = AWSRequest(
            method=request.method,
            url=request.url,
            headers={
                name: value
                for name, value in request.headers.items()
                if name in {"host", "content-type"} or name.startswith("x-amz")
            },
            data=request.body,
        )
        host = urlsplit(request.url).hostname or ""
        service = _MANTLE if host.startswith(_MANTLE) else "bedrock"
        SigV4Auth(self._frozen, service, self._upstream.aws_region).add_auth(signed)
        return {name.lower(): signed.headers[name] for name in _SIGNATURE if name in signed.headers}


class GoogleCredentials(CloudCredentials):
    """Tokens of Google's application-default credentials, with google-auth."""

    _found: Any = None

    def find(self) -> str:
        """Find or renew the credentials; the reason that there are none, or ""."""
        try:
            import google.auth  # noqa: PLC0415 - an optional extra
            import google.auth.exceptions  # noqa: PLC0415 - an optional extra
            from google.auth.transport.requests import Request  # noqa: PLC0415 - an optional extra
        except ImportError:
            return not_installed("google")
        try:
            if self._found is None:
                credentials, _ = google.auth.default(scopes=[_SCOPE])
            else:
                credentials = self._found
            credentials.refresh(Request())  # type: ignore[no-untyped-call]
            self._found = credentials
        except (google.auth.exceptions.GoogleAuthError, OSError, ValueError) as error:
            return f"{_FIXES['google']} ({type(error).__name__})"
        return ""

    def were_refused(self, status: int, headers: Mapping[str, str]) -> bool:
        """True if the token was refused as none; the next one is asked for anew."""
        if status != 401 or self._found is None:
            return False
        self._found = None
        self._tried_at = float("-inf")
        return True

    def _is_due(self) -> bool:
        return self._found is None or self._found.token_state.name != "FRESH"

    def _is_usable(self) -> bool:
        return self._found is not None and self._found.token_state.name != "INVALID"

    async def _proof(self, request: UnsignedRequest) -> dict[str, str]:
        headers: dict[str, str] = {}
        self._found.apply(headers)
        return {name.lower(): value for name, value in headers.items()}


def cloud_credentials(upstream: Upstream) -> CloudCredentials | None:
    """The credentials of an upstream; None where it has a key of its own, or needs none."""
    if upstream.auth == "aws":
        return AwsCredentials(upstream)
    return GoogleCredentials(upstream) if upstream.auth == "google" else None


def missing_key(text: str) -> UpstreamError:
    """The error of an upstream without the key or the credentials that it needs."""
    error = UpstreamError(text, status=503, code="upstream_key_missing", retryable=True)
    error.should_retry = False  # elsewhere it may succeed, here the operator has to fix it
    return error
