"""/me: the usage of one key, for whoever holds it, and for people who may see its calls."""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from dashboards import pages
from dashboards.access import Action, Viewer
from dashboards.views.key_usage import KeyUsageView
from proxy.api.connections.connection_limit import address_block
from proxy.errors import CallerError, ProxyError
from proxy.pages.access.sign_in_limits import FailureLimit
from proxy.pages.site import html_response
from proxy.pages.viewing import HEADERS, Clock, ReadViewer, check_source, form_fields, is_secure
from proxy.records.call import Key

PATH: Final = "/me"
LIFETIME_S: Final = 30 * 60.0
"""Seconds for which a browser shows a key's usage; then it asks for the key again."""
_MAX_COOKIE_CHARS: Final = 256
_COOKIE: Final = "thriftgate_key"
#: Browsers take it from https alone.
_SECURE_COOKIE: Final = "__Secure-thriftgate_key"


class KeyFinder(Protocol):
    """Finds keys, revoked or not."""

    async def fetch(self, token: str) -> Key | None:
        """The key with this secret; None if there is none."""
        ...

    async def fetch_by_id(self, key_id: str) -> Key | None:
        """The key with this id; None if there is none."""
        ...


class KeyCookies:
    """Makes the cookies by the installation's secret and reads them; nothing is kept here.

    A cookie holds the key's id and its own end, never the key.
    """

    def __init__(self, secret: bytes, now: Callable[[], float]) -> None:
        self._key = hmac.digest(secret, b"thriftgate own usage", "sha256")
        self._now = now

    def new_cookie(self, key_id: str) -> str:
        """A cookie for the browser of somebody who has this key."""
        signed = f"{key_id}.{int(self._now() + LIFETIME_S)}"
        return f"{signed}.{self._mac(signed)}"

    def key_id(self, cookie: str) -> str:
        """The id of the key that a cookie names; "" for none of ours, or one that has ended."""
        signed, _, mac = cookie.rpartition(".")
        is_readable = len(cookie) <= _MAX_COOKIE_CHARS and cookie.isascii()
        if not is_readable or not hmac.compare_digest(mac, self._mac(signed)):
            return ""
        key_id, _, end = signed.rpartition(".")
        return key_id if self._now() < int(end) else ""

    def _mac(self, signed: str) -> str:
        return hmac.digest(self._key, signed.encode(), "sha256").hex()


@dataclass(eq=False)
class OwnUsagePages:
    """The form that takes a key, and the page that shows its usage.

    Wrong keys are counted by address, as wrong passwords are; the key itself is kept nowhere.
    """

    _keys: KeyFinder
    _usage: Callable[[Key], Awaitable[KeyUsageView]]
    _read_viewer: ReadViewer
    _cookies: KeyCookies
    _limit: FailureLimit
    _now: Clock

    def router(self) -> APIRouter:
        """The routes of the page and its forms."""
        routes = APIRouter(include_in_schema=False)

        @routes.get(PATH)
        async def usage(request: Request, key: str = "") -> Response:
            """The usage of the key that the browser has given, or that a person may see."""
            try:
                return await self._show(request, key)
            except ProxyError as error:
                return await _key_form(str(error), error)

        @routes.post(PATH)
        async def give_key(request: Request) -> Response:
            """Takes a key, and leaves a cookie that names it."""
            try:
                check_source(request)
                key = await self._identify(request)
            except ProxyError as error:
                return await _key_form(str(error), error)
            opened = RedirectResponse(PATH, 303, headers=HEADERS)
            value = self._cookies.new_cookie(key.id)
            _set_cookie(opened, request, value, int(LIFETIME_S))
            return opened

        @routes.post(f"{PATH}/leave")
        async def leave(request: Request) -> Response:
            """Forgets the key in this browser."""
            try:
                check_source(request)
            except ProxyError as error:
                return await _key_form(str(error), error)
            gone = RedirectResponse(PATH, 303, headers=HEADERS)
            _set_cookie(gone, request, "", 0)
            return gone

        return routes

    async def _show(self, request: Request, key_id: str) -> Response:
        viewer = await self._read_viewer(request)
        named = key_id if viewer is not None else ""
        own = self._cookies.key_id(request.cookies.get(_cookie_name(request), ""))
        key = await self._keys.fetch_by_id(named or own) if named or own else None
        if key is not None and named and not _may_see(viewer, key):
            key = None
        if key is None or (not named and not self._is_open(key)):
            return await _key_form("There is no such key." if named else "", viewer=viewer)
        values = {"shown": await self._usage(key), "is_holder": not named}
        return html_response(await run_in_threadpool(pages.key_page, "own_usage.html", values))

    async def _identify(self, request: Request) -> Key:
        """The key in a form.

        Raises:
            CallerError: It opens nothing, or too many from this address did not.
        """
        address = address_block(request.client.host if request.client else "")
        if wait := self._limit.wait(address):
            raise CallerError(
                "Too many wrong keys from here. Wait a minute, then try again.",
                code="too_many_failures",
                status=429,
                retry_after=wait,
            )
        token = (await form_fields(request))["key"]
        key = await self._keys.fetch(token) if token else None
        if key is None or not self._is_open(key):
            self._limit.record_failure(address)
            raise CallerError(
                "This key is unknown, was revoked or has expired. Keys begin with tg-.",
                code="invalid_api_key",
                status=401,
            )
        return key

    def _is_open(self, key: Key) -> bool:
        return not key.revoked and not key.has_expired(self._now())


def _may_see(viewer: Viewer | None, key: Key) -> bool:
    return viewer is not None and viewer.may(Action.SEE_CALLS, key.team)


async def _key_form(
    problem: str, error: ProxyError | None = None, viewer: Viewer | None = None
) -> Response:
    values = {"problem": problem, "viewer": viewer}
    html = await run_in_threadpool(pages.key_page, "own_usage_key.html", values)
    status = 404 if problem else 200
    answer = html_response(html, status if error is None else error.status)
    if error is not None and error.retry_after:
        answer.headers["retry-after"] = str(int(error.retry_after) + 1)
    return answer


def _cookie_name(request: Request) -> str:
    return _SECURE_COOKIE if is_secure(request) else _COOKIE


def _set_cookie(answer: Response, request: Request, value: str, max_age: int) -> None:
    """Sets the cookie for this page alone; other sites' links and forms do not bring it."""
    answer.set_cookie(
        _cookie_name(request),
        value,
        max_age=max_age,
        path=PATH,
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )
