"""The pages below /admin: what is promised and what became of it, for whoever has the token.

They only read. A caller's key opens nothing here, and a session opens nothing below /v1/.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, RedirectResponse, Response

from dashboards import pages
from dashboards.board import AdminBoard
from dashboards.pages import HOME, Overview
from proxy.errors import CallerError
from proxy.pages.admin_sessions import MAX_SESSION_S, AdminSessions, AdminToken

_COOKIE: Final = "thriftgate_admin"
_CALL_ID: Final = re.compile(r"call_[0-9a-f]{32}")
#: A link from elsewhere, such as an alert's, opens a page; forms of other sites bring no cookie.
_SAME_SITE: Final = "lax"
#: Bytes of a form: a token and its name.
_MAX_FORM_BYTES: Final = 4096
_MAX_FORM_FIELDS: Final = 8
#: Seconds in which it has to come.
_FORM_TIMEOUT_S: Final = 10.0
#: Values of ``Sec-Fetch-Site`` for a request made by one of our own pages, or by its user.
_OWN_SITES: Final = frozenset({"same-origin", "none"})
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    # With no-referrer a browser's forms would say they came from nowhere.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


def disabled_router() -> APIRouter:
    """The route that says how to turn the pages on."""
    routes = APIRouter()

    @routes.get(HOME)
    async def raise_disabled() -> None:
        """Raises the error that says how to turn the pages on."""
        raise CallerError(
            "The pages at /admin are off: start the gateway with THRIFTGATE_ADMIN_TOKEN set to a"
            " secret of 24 characters or more, such as `openssl rand -hex 32` makes.",
            code="admin_off",
            status=404,
        )

    return routes


def router(
    board: AdminBoard, token: str, ticks: Callable[[], float], now: Callable[[], float]
) -> APIRouter:
    """The routes of the pages.

    Args:
        board: Data that they show.
        token: Token that opens them.
        ticks: Seconds of a clock that goes forward.
        now: Seconds since the epoch.
    """
    routes = APIRouter()
    sessions = AdminSessions(ticks)
    _add_session_routes(routes, sessions, AdminToken(token, ticks))

    def is_signed_in(request: Request) -> bool:
        return sessions.is_open(request.cookies.get(_COOKIE, ""))

    @routes.get(HOME)
    async def overview(request: Request) -> Response:
        """The policies page: objectives, budgets and alerts."""
        if not is_signed_in(request):
            return _redirect("/sign-in")
        shown = await _load_overview(board)
        return _html_page(await run_in_threadpool(pages.overview, shown, now()))

    @routes.get(f"{HOME}/")
    async def overview_with_slash() -> Response:
        """The policies page, whose path ends in no slash."""
        return _redirect("")

    @routes.get(f"{HOME}/calls/{{call_id}}")
    async def call(request: Request, call_id: str) -> Response:
        """The receipts of a call, whichever team's it is."""
        if not is_signed_in(request):
            return _redirect("/sign-in")
        try:
            detail = await board.call(call_id) if _CALL_ID.fullmatch(call_id) else None
        except TimeoutError:
            return _html_page(pages.call(None, now(), is_late=True), 503)
        shown = await run_in_threadpool(pages.call, detail, now())
        return _html_page(shown, 404 if detail is None else 200)

    return routes


def _add_session_routes(routes: APIRouter, sessions: AdminSessions, secret: AdminToken) -> None:
    """Adds the routes to sign in and out, and the stylesheet."""

    @routes.get(f"{HOME}/admin.css")
    async def stylesheet() -> Response:
        """The stylesheet of all pages."""
        return Response(pages.stylesheet(), media_type="text/css", headers=_HEADERS)

    @routes.get(f"{HOME}/sign-in")
    async def sign_in_form() -> Response:
        """The form that asks for the token."""
        return _html_page(pages.sign_in())

    @routes.post(f"{HOME}/sign-in")
    async def sign_in(request: Request) -> Response:
        """A session for whoever has the token."""
        _check_source(request)
        given = await _submitted_token(request)
        if not secret.matches(given):
            return _wrong_token_page(secret.record_failure())
        sessions.end(request.cookies.get(_COOKIE, ""))
        opened = _redirect("")
        opened.set_cookie(
            _COOKIE,
            sessions.begin(),
            max_age=int(MAX_SESSION_S),
            path=HOME,
            secure=_is_secure(request),
            httponly=True,
            samesite=_SAME_SITE,
        )
        return opened

    @routes.post(f"{HOME}/sign-out")
    async def sign_out(request: Request) -> Response:
        """The end of a session."""
        _check_source(request)
        sessions.end(request.cookies.get(_COOKIE, ""))
        gone = _redirect("/sign-in")
        gone.delete_cookie(
            _COOKIE,
            path=HOME,
            secure=_is_secure(request),
            httponly=True,
            samesite=_SAME_SITE,
        )
        return gone


def _wrong_token_page(wait: float) -> Response:
    """The page for a wrong token.

    Args:
        wait: Seconds until it may be tried again; 0 for now.
    """
    if not wait:
        return _html_page(pages.sign_in("This is not the token."), 401)
    late = _html_page(pages.sign_in("Too many wrong tokens. Wait a minute, then try again."), 429)
    late.headers["retry-after"] = str(int(wait) + 1)
    return late


async def _load_overview(board: AdminBoard) -> Overview:
    """All parts, asked for at once: the page takes no longer than the slowest of them may."""
    objectives, reroutes, rerouted_calls, counters, open_alerts = await asyncio.gather(
        board.objectives(),
        board.reroutes(),
        board.rerouted_calls(),
        board.counters(),
        board.open_alerts(),
    )
    return Overview(
        objectives=objectives,
        reroutes=reroutes,
        rerouted_calls=rerouted_calls,
        counters=counters,
        open_alerts=open_alerts,
    )


def _html_page(html: str, status: int = 200) -> Response:
    return HTMLResponse(html, status, headers=_HEADERS)


def _redirect(path: str) -> Response:
    return RedirectResponse(HOME + path, 303, headers=_HEADERS)


def _is_secure(request: Request) -> bool:
    """True if the browser spoke https, to us or to a proxy before us.

    The proxy's word may be anybody's, but all it does is keep a cookie off http.
    """
    before = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    return "https" in (request.url.scheme, before)


def _check_source(request: Request) -> None:
    """Take forms of our own pages only, as browsers say which those are.

    What is no browser says neither, and has no cookie that somebody else could use.

    Raises:
        CallerError: If another site sent it.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    is_ours = site in _OWN_SITES if site is not None else origin is None or _is_own(request, origin)
    if not is_ours:
        raise CallerError(
            "Another site sent this form; open /admin itself.", code="cross_site", status=403
        )


def _is_own(request: Request, origin: str) -> bool:
    try:
        return urlsplit(origin).netloc == request.headers.get("host", "")
    except ValueError:
        return False


async def _submitted_token(request: Request) -> str:
    """The token that a form holds; "" for none.

    Raises:
        CallerError: If it is no form, did not come whole, or is too long for one.
    """
    sent = b""
    try:
        async with asyncio.timeout(_FORM_TIMEOUT_S):
            async for piece in request.stream():
                sent += piece
                if len(sent) > _MAX_FORM_BYTES:
                    raise CallerError(
                        "A form with a token is shorter.", code="form_too_large", status=413
                    )
        found = parse_qs(sent.decode(errors="replace"), max_num_fields=_MAX_FORM_FIELDS)
    except (ClientDisconnect, TimeoutError, ValueError):
        raise CallerError("This is no form with a token.", code="invalid_form") from None
    return found.get("token", [""])[0].strip()
