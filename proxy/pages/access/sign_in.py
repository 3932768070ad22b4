"""Signing in to the admin pages and out of them, by forms."""

from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from dashboards import pages
from dashboards.access import Role, Viewer
from dashboards.pages import HOME, SignInForm
from proxy.errors import ProxyError
from proxy.pages.access.known_browsers import KEPT_S
from proxy.pages.access.sessions import AdminSessions
from proxy.pages.access.sign_in_limits import SignInSource
from proxy.pages.access.sign_in_methods import SignInMethods, SignInResult
from proxy.pages.site import html_response, redirect
from proxy.pages.viewing import check_source, form_fields, is_secure
from proxy.store.sql.access.admin_sessions import MAX_SESSION_S

COOKIE: Final = "thriftgate_admin"
"""Name of the session's cookie over http."""
SECURE_COOKIE: Final = "__Host-thriftgate_admin"
"""Its name over https: browsers take it from this host alone, for all of its paths."""
#: Names of the cookie of a browser that knows a person, which outlives the session.
_BROWSER_COOKIE: Final = "thriftgate_browser"
_SECURE_BROWSER_COOKIE: Final = "__Host-thriftgate_browser"
#: A link from elsewhere, such as an alert's, opens a page; forms of other sites bring no cookie.
_SAME_SITE: Final = "lax"


@dataclass(eq=False)
class PageAccess:
    """Access of people to the pages: their sessions, and the ways to sign in."""

    sessions: AdminSessions
    methods: SignInMethods

    async def viewer(self, request: Request) -> Viewer | None:
        """The person whose session the request's cookie names; None for nobody."""
        signed_in = await self.sessions.find(_session_id(request))
        if signed_in is None:
            return None
        session, person = signed_in
        if person is None:
            if not self.methods.is_token_holder(session.holder):
                return None
            return Viewer(name="admin token", role=Role.ADMIN, session=session.id)
        return Viewer(
            name=person.name,
            role=person.role,
            own_teams=person.teams,
            user=person.id,
            session=session.id,
        )

    def forget(self, holder: str) -> None:
        """Have changes of a person hold at their next request."""
        self.sessions.forget(holder)

    async def open_session(self, request: Request, who: SignInResult, page: str) -> Response:
        """The answer that signs somebody in; the session before ends, and its id with it.

        Args:
            page: Path of the page that follows; "" for the usual one.
        """
        await self.sessions.end(_session_id(request))
        browser = request.headers.get("user-agent", "")
        made = await self.sessions.begin(who.person, who.holder, who.method, browser)
        follows = page.removeprefix(HOME) if page else who.first_page
        opened = redirect(follows)
        secure = is_secure(request)
        cookies = {SECURE_COOKIE if secure else COOKIE: (made, MAX_SESSION_S)}
        if who.person is not None:
            cookie = self.methods.browsers.new_cookie(who.person.name)
            cookies[_browser_cookie(is_https=secure)] = (cookie, KEPT_S)
        for name, (value, kept_s) in cookies.items():
            opened.set_cookie(
                name,
                value,
                max_age=int(kept_s),
                path="/",
                secure=secure,
                httponly=True,
                samesite=_SAME_SITE,
            )
        return opened

    def router(self) -> APIRouter:
        """The routes to sign in and out."""
        routes = APIRouter(include_in_schema=False)

        @routes.get(f"{HOME}/sign-in")
        async def sign_in_form(request: Request) -> Response:
            """The form that asks for a password, or to use a link."""
            shown = request.query_params
            form = self._form(
                page=page_path(shown.get("next", "")), code=shown.get("code", "")[:200]
            )
            return html_response(await run_in_threadpool(pages.sign_in, form))

        @routes.post(f"{HOME}/sign-in")
        async def sign_in(request: Request) -> Response:
            """A session for whoever has a password, a link or the token."""
            check_source(request)
            fields = await form_fields(request)
            page = page_path(fields["next"])
            try:
                who = await self.methods.identify(fields, _source(request))
            except ProxyError as error:
                form = self._form(str(error), page=page, name=fields["name"][:100])
                refused = html_response(await run_in_threadpool(pages.sign_in, form), error.status)
                if error.retry_after:
                    refused.headers["retry-after"] = str(int(error.retry_after) + 1)
                return refused
            return await self.open_session(request, who, page)

        @routes.post(f"{HOME}/sign-out")
        async def sign_out(request: Request) -> Response:
            """The end of a session."""
            check_source(request)
            await self.sessions.end(_session_id(request))
            gone = redirect("/sign-in")
            secure = is_secure(request)
            gone.delete_cookie(
                SECURE_COOKIE if secure else COOKIE,
                path="/",
                secure=secure,
                httponly=True,
                samesite=_SAME_SITE,
            )
            return gone

        return routes

    def _form(
        self, problem: str = "", *, page: str = "", code: str = "", name: str = ""
    ) -> SignInForm:
        return SignInForm(
            problem=problem,
            wanted=page,
            code=code,
            name=name,
            takes_token=self.methods.takes_token,
            provider=self.methods.provider,
        )


def page_path(given: str) -> str:
    """The path of a page below ``/admin``; "" where what was given is none."""
    is_page = given.startswith((f"{HOME}/", f"{HOME}?"))
    is_safe = given.isprintable() and "\\" not in given and ".." not in given
    return given if is_page and is_safe else ""


def _source(request: Request) -> SignInSource:
    """The address of the browser, as far as trusted proxies say it, and its cookie."""
    cookie = request.cookies.get(_browser_cookie(is_https=is_secure(request)), "")
    return SignInSource(request.client.host if request.client else "", cookie)


def _browser_cookie(*, is_https: bool) -> str:
    return _SECURE_BROWSER_COOKIE if is_https else _BROWSER_COOKIE


def _session_id(request: Request) -> str:
    """The id in a request's cookie; over https, the cookie that no other host can have set."""
    return request.cookies.get(SECURE_COOKIE if is_secure(request) else COOKIE, "")
