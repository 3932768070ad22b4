"""Shared parts of the admin pages: the viewer, rendering, and the files that pages load."""

import gzip
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from importlib import resources
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Message

from dashboards import pages
from dashboards.access import Viewer
from dashboards.pages import HOME
from dashboards.refilled_form import PAGE_FIELD, SubmittedForm, refill_form
from proxy.errors import CallerError, Unready
from proxy.pages.store_questions import page_around
from proxy.pages.viewing import (
    HEADERS,
    NOT_IN_FORCE,
    SAFE_METHODS,
    Clock,
    FormFields,
    ReadViewer,
    SignedIn,
    check_source,
    form_fields,
    invalid_query_error,
    marked_routes,
    route,
)
from proxy.store.errors import StoreError

_log = logging.getLogger("thriftgate.pages")

R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")

P = TypeVar("P", bound="Pages")

_MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: Browsers keep the files and ask whether they changed.
_ASK_AGAIN: Final = "public, no-cache"
_MIN_ZIPPED_BYTES: Final = 1024
#: Statuses of errors that another value in a form may mend.
_FORM_STATUSES: Final = frozenset({400, 409, 422})


class _SignInRequired(Exception):
    """A page was asked for by somebody who is not signed in; ``path`` is where they wanted to."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class _FormFaults(CallerError):
    """A form has faults; each is a sentence that names its field."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__(" ".join(faults), code="invalid_form")
        self.faults = tuple(faults)


class FormCheck:
    """Reads a form part by part, so that all of its faults are named at once."""

    def __init__(self) -> None:
        self._faults: list[str] = []

    def read(self, part: Callable[[], T]) -> T | None:
        """A part of the form; None where it has a fault."""
        try:
            return part()
        except _FormFaults as error:
            self._faults += error.faults
        except CallerError as error:
            self._faults.append(str(error))
        return None

    def finish(self) -> None:
        """Ends the check; raises CallerError if a part had a fault."""
        if self._faults:
            raise _FormFaults(self._faults)


class PageRoute(APIRoute):
    """A route of a page: what a person may not do, or asks for in vain, is told as a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, whose errors become pages."""
        handle = super().get_route_handler()

        async def handle_as_page(request: Request) -> Response:
            try:
                return await _zip_page(request, await handle(request))
            except RequestValidationError as error:
                return await _problem_page(request, invalid_query_error(error))
            except (CallerError, Unready) as error:
                return await _problem_page(request, error)
            except StoreError as error:
                _log.warning("%s was not answered: %s", request.url.path, error)
                away = "The database does not answer just now."
                return await _problem_page(request, Unready(away, code="database_unavailable"))

        return handle_as_page


async def _zip_page(request: Request, page: Response) -> Response:
    """A page that was asked for, compressed where the browser takes that.

    What answers a form may show a new secret, and goes as it is.
    """
    if request.method != "GET" or not isinstance(page, HTMLResponse):
        return page
    page.headers["vary"] = "accept-encoding"
    if _takes_gzip(request) and len(page.body) > _MIN_ZIPPED_BYTES:
        page.body = await run_in_threadpool(_zip, bytes(page.body))
        page.headers["content-encoding"] = "gzip"
        page.headers["content-length"] = str(len(page.body))
    return page


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _zip(content: bytes) -> bytes:
    return gzip.compress(content, 6, mtime=0)


async def _problem_page(request: Request, error: CallerError | Unready) -> Response:
    """The form as it was submitted, with its faults; a page with the reason where it is no form.

    A page that cannot be read just now has the menu and a button to try again.
    """
    fields: Mapping[str, str] = getattr(request.state, "form_fields", {})
    back = _own_path(fields.get(PAGE_FIELD) or request.headers.get("referer", ""))
    if fields and error.status in _FORM_STATUSES and error.code != NOT_IN_FORCE:
        faults = error.faults if isinstance(error, _FormFaults) else (str(error),)
        submitted = SubmittedForm(page=back, action=request.url.path, fields=fields, faults=faults)
        html = await _own_page(request, back)
        refilled = await run_in_threadpool(refill_form, html, submitted)
        if refilled is not None:
            return html_response(refilled, error.status)
    viewer = getattr(request.state, "viewer", None)
    if viewer is not None and isinstance(error, Unready) and request.method == "GET":
        section = request.url.path.removeprefix(HOME).strip("/").partition("/")[0]
        values = {"viewer": viewer, "section": section, "message": str(error), "back": back}
        values["heading"] = "Not available just now"
        html = await run_in_threadpool(pages.render, "problem.html", values)
    else:
        html = await run_in_threadpool(pages.problem, *_problem_words(error, request.method), back)
    return html_response(html, error.status)


def _problem_words(error: CallerError | Unready, method: str) -> tuple[str, str]:
    """Heading and words of a page that says why something is not done, or not known to be."""
    if error.code == NOT_IN_FORCE:
        return "Kept, but not yet in force", str(error)
    if isinstance(error, Unready) and method not in SAFE_METHODS:
        return "This may be kept", f"{error} It may be kept: look before you send it again."
    return "This cannot be done", str(error)


async def _own_page(request: Request, path: str) -> str:
    """One of our own pages, as the sender of a request sees it; "" where it cannot be shown."""
    url = urlsplit(path)
    headers = {b"cookie", b"host", b"authorization", b"x-forwarded-proto"}
    scope = {
        **request.scope,
        "method": "GET",
        "path": url.path,
        "raw_path": url.path.encode(),
        "query_string": url.query.encode(),
        "headers": [header for header in request.scope["headers"] if header[0] in headers],
        "path_params": {},
        "state": {},
    }
    status, parts = 0, list[bytes]()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    await request.app(scope, receive, send)
    return b"".join(parts).decode() if status == HTTPStatus.OK else ""


def page_router(require_viewer: Callable[..., object] | None = None) -> APIRouter:
    """A router for pages; with a dependency, for those of people who are signed in."""
    required = [] if require_viewer is None else [Depends(require_viewer)]
    return APIRouter(
        prefix=HOME, route_class=PageRoute, include_in_schema=False, dependencies=required
    )


def _own_path(url: str) -> str:
    """The path and query of one of our own pages; that of the first page for any other URL."""
    parts = urlsplit(url)
    if not parts.path.startswith(f"{HOME}/"):
        return HOME
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


@dataclass(eq=False)
class Site:
    """Pages of one process."""

    _read_viewer: ReadViewer
    now: Clock

    def page_around(
        self, template: str, viewer: Viewer, **values: object
    ) -> Callable[[object], bytes]:
        """Renders a page around a view of the ledger, wherever that is read.

        Args:
            values: Values that the template shows beside the view; they can be pickled.
        """
        return page_around(template, **self._template_values(template, viewer, values))

    async def html(
        self, template: str, viewer: Viewer, *, status: int = 200, **values: object
    ) -> Response:
        """A page, rendered off the event loop."""
        shown = self._template_values(template, viewer, values)
        return html_response(await run_in_threadpool(pages.render, template, shown), status)

    def _template_values(
        self, template: str, viewer: Viewer, values: Mapping[str, object]
    ) -> dict[str, object]:
        """The values of a template; its section of the menu is its own name where none is given."""
        section = template.partition(".")[0]
        return {"viewer": viewer, "now": self.now(), "section": section, **values}

    async def require_viewer(self, request: Request) -> None:
        """A dependency of pages: somebody is signed in, and forms come from our own pages."""
        if request.method not in SAFE_METHODS:
            check_source(request)
        viewer = await self._read_viewer(request)
        if viewer is None:
            query = f"?{request.url.query}" if request.url.query else ""
            raise _SignInRequired(f"{request.url.path}{query}")
        request.state.viewer = viewer


@dataclass(eq=False)
class Pages:
    """Pages of one part of the menu: methods that are marked by `route` or `form`."""

    site: Site

    def router(self) -> APIRouter:
        """The routes of the pages, for people who are signed in."""
        routes = page_router(self.site.require_viewer)
        for method, options in marked_routes(self):
            routes.add_api_route(endpoint=method, **options)
        return routes


def form(
    path: str, back: str = ""
) -> Callable[
    [Callable[[P, Viewer, FormFields], Awaitable[object]]],
    Callable[[P, Request, Viewer], Awaitable[Response]],
]:
    """Has a method take a form, after which the browser is sent to the page ``back``.

    A page that the method returns is shown instead.
    """

    def decorate(
        submit: Callable[[P, Viewer, FormFields], Awaitable[object]],
    ) -> Callable[[P, Request, Viewer], Awaitable[Response]]:
        @route("POST", path)
        async def take(self: P, request: Request, viewer: SignedIn) -> Response:
            page = await submit(self, viewer, await form_fields(request))
            return page if isinstance(page, Response) else redirect(back)

        return take

    return decorate


def html_response(html: str | bytes, status: int = 200) -> Response:
    """A page with the headers of all pages."""
    return HTMLResponse(html, status, headers=HEADERS)


def redirect(path: str) -> Response:
    """A redirect to a path below ``/admin``."""
    return RedirectResponse(HOME + path, 303, headers=HEADERS)


def validated_request(kind: type[R], /, **fields: object) -> R:
    """A request of the API, made of a form's fields; raises CallerError with all their faults."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise _FormFaults(
            [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}." for detail in error.errors()]
        ) from None


def static_router() -> APIRouter:
    """The routes of files that pages load: stylesheets, scripts, the icon."""
    routes = APIRouter()

    @routes.get(f"{HOME}/")
    async def overview_with_slash() -> Response:
        """The first page, whose path ends in no slash."""
        return redirect("")

    @routes.get(f"{HOME}/static/{{name}}")
    async def static_file(request: Request, name: str) -> Response:
        """A file of the pages, compressed where the browser takes that."""
        file = await run_in_threadpool(_static_file, name)
        if file is None:
            raise CallerError("There is no such file.", code="not_found", status=404)
        content, zipped, media_type, etag = file
        headers = {**HEADERS, "vary": "accept-encoding", "etag": etag}
        headers["cache-control"] = _ASK_AGAIN
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        if zipped and _takes_gzip(request):
            content, headers["content-encoding"] = zipped, "gzip"
        return Response(content, media_type=media_type, headers=headers)

    return routes


def add_sign_in_redirect(app: FastAPI) -> None:
    """Has whoever is not signed in sent to the form, and from there to the page they wanted."""

    async def send_to_form(_request: Request, error: Exception) -> Response:
        assert isinstance(error, _SignInRequired)  # noqa: S101 - registered for no other
        query = "" if error.path == HOME else f"?next={quote(error.path, safe='')}"
        return redirect(f"/sign-in{query}")

    app.add_exception_handler(_SignInRequired, send_to_form)


@lru_cache(maxsize=32)
def _static_file(name: str) -> tuple[bytes, bytes, str, str] | None:
    """A file's bytes, the same compressed (b"" for small ones), its media type and ETag."""
    if name not in pages.static_files():
        return None
    content = resources.files("dashboards").joinpath("static", name).read_bytes()
    media_type = next((_MEDIA_TYPES[end] for end in _MEDIA_TYPES if name.endswith(end)), "")
    zipped = _zip(content) if len(content) > _MIN_ZIPPED_BYTES else b""
    etag = f'"{pages.static_files()[name]}"'
    return content, zipped, media_type or "application/octet-stream", etag
