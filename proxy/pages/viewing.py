"""Requests of viewers: who sent them, from which site, and their forms."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, Field, StringConstraints
from starlette.requests import ClientDisconnect

from dashboards.access import Action, Viewer
from proxy.errors import CallerError
from proxy.store.sql.access.audit_log import AuditedChange

M = TypeVar("M", bound=Callable[..., object])
V = TypeVar("V")

ReadViewer = Callable[[Request], Awaitable[Viewer | None]]
"""Finds who sent a request by its session; None for nobody."""

RecordChange = Callable[[AuditedChange], Awaitable[None]]
"""Writes a change to the audit log that no change of the store writes by itself."""

Clock = Callable[[], float]
"""The time of now, in seconds since the epoch."""

#: The attribute of a method that has its route.
_ROUTE: Final = "_route"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
#: Bytes and fields of a form.
_MAX_FORM_BYTES: Final = 16_384
_MAX_FORM_FIELDS: Final = 64
#: Seconds in which it has to come.
_FORM_TIMEOUT_S: Final = 10.0
_UPLOAD_TIMEOUT_S: Final = 60.0
#: The boundary of a multipart form, and the name of a file in the head of a part.
_BOUNDARY: Final = re.compile(r'multipart/form-data;.*boundary="?([^";,]{1,70})')
_FILE_NAME: Final = re.compile(rb'filename="([^"\r\n]*)"')
#: Values of ``Sec-Fetch-Site`` for a request made by one of our own pages, or by its user.
_OWN_SITES: Final = frozenset({"same-origin", "none"})
NOT_IN_FORCE: Final = "not_in_force"
"""Code of the error of a change that is kept, and not yet in force."""
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; connect-src 'self';"
    " img-src 'self' data:; style-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    # With no-referrer a browser's forms would say they came from nowhere.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every page and of every answer of its API."""


def require_viewer(read: ReadViewer) -> Callable[[Request], Awaitable[None]]:
    """A dependency of a router: somebody is signed in, and changes come from our own pages."""

    async def check(request: Request) -> None:
        if request.method not in SAFE_METHODS:
            check_source(request)
        viewer = await read(request)
        if viewer is None:
            raise CallerError(
                "Sign in at /admin first: this needs its session. Keys of callers open nothing"
                " here.",
                code="not_signed_in",
                status=401,
            )
        request.state.viewer = viewer

    return check


def _viewer(request: Request) -> Viewer:
    viewer: Viewer = request.state.viewer
    return viewer


SignedIn = Annotated[Viewer, Depends(_viewer)]
"""The viewer, in the signature of a route whose router requires one."""


def route(method: str, path: str, **options: Any) -> Callable[[M], M]:  # noqa: ANN401 - as FastAPI takes them
    """Marks a method as the answer to requests for a path, below that of its pages or its API."""

    def mark(answer: M) -> M:
        setattr(answer, _ROUTE, {"methods": [method], "path": path, **options})
        return answer

    return mark


def marked_routes(owner: object) -> Iterator[tuple[Callable[..., Any], dict[str, Any]]]:
    """The marked methods of an object, in their order, each with what FastAPI is to know of it."""
    for name, method in vars(type(owner)).items():
        if (options := getattr(method, _ROUTE, None)) is not None:
            yield getattr(owner, name), options


def check_allowed(viewer: Viewer, action: Action, team: str | None = None) -> None:
    """Checks that a viewer may do something, to the team with this id where one is given.

    Raises:
        CallerError: They may not.
    """
    if not viewer.may(action, team):
        where = "" if team is None else " of this team"
        raise CallerError(
            f"The role {viewer.role} may not {action}{where}; ask an admin.",
            code="not_allowed",
            status=403,
        )


def view_of(kind: type[V], *sources: object, **values: object) -> V:
    """A view of these values, whose other fields are those of the sources by the same names."""
    names = [field.name for field in fields(kind) if field.name not in values]  # type: ignore[arg-type]
    shared: dict[str, Any] = {
        name: next(getattr(source, name) for source in sources if hasattr(source, name))
        for name in names
    }
    return kind(**shared, **values)


def is_secure(request: Request) -> bool:
    """True if the browser spoke https, to us or to a proxy before us.

    The proxy's word may be anybody's, but all it does is keep a cookie off http.
    """
    before = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    return "https" in (request.url.scheme, before)


def base_url(request: Request) -> str:
    """The gateway's URL as the browser has it."""
    scheme = "https" if is_secure(request) else "http"
    return f"{scheme}://{request.headers.get('host', '127.0.0.1')}"


def check_source(request: Request) -> None:
    """Accepts requests of our own pages only, as browsers say which those are.

    What is no browser says neither, and has no cookie that somebody else could use.

    Raises:
        CallerError: If another site sent it.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    is_ours = site in _OWN_SITES if site is not None else origin is None or _is_own(request, origin)
    if not is_ours:
        raise CallerError(
            "Another site sent this request; open /admin itself.", code="cross_site", status=403
        )


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has characters that do not print")
    return text


Label = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=128), AfterValidator(_check_printable)
]
"""A short text that people choose; it may be empty."""
Name = Annotated[Label, Field(min_length=1)]
"""The same, not empty."""


class FormFields(dict[str, str]):
    """Fields of a form; one that was not sent is ""."""

    def __missing__(self, name: str) -> str:
        return ""


async def form_fields(request: Request) -> FormFields:
    """The fields of a submitted form, stripped; of a name that comes twice the last.

    They stay with the request, from which a form with faults is filled in again.

    Raises:
        CallerError: If it is no form, did not come whole, or is too long for one.
    """
    sent = await _read_form(request, _MAX_FORM_BYTES, _FORM_TIMEOUT_S)
    try:
        fields = parse_qsl(
            sent.decode(errors="replace"), keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS
        )
    except ValueError:
        raise unknown_form_error() from None
    read = FormFields((name, value.strip()) for name, value in fields)
    request.state.form_fields = read
    return read


async def uploaded_file(request: Request, most: int) -> tuple[str, bytes]:
    """Name and bytes of the file that a multipart form of at most so many bytes begins with.

    Raises:
        CallerError: If it has none, did not come whole, or is longer.
    """
    boundary = _BOUNDARY.search(request.headers.get("content-type", ""))
    if boundary is None:
        raise unknown_form_error()
    sent = await _read_form(request, most, _UPLOAD_TIMEOUT_S)
    delimiter = b"--" + boundary[1].encode()
    begin, end = sent.find(b"\r\n\r\n"), sent.rfind(b"\r\n" + delimiter)
    name = _FILE_NAME.search(sent, 0, max(begin, 0))
    if not sent.startswith(delimiter) or name is None or end < begin + 4:
        raise unknown_form_error()
    if not name[1]:
        raise CallerError("Choose a file first.", code="no_file", status=422)
    return name[1].decode(errors="replace"), bytes(memoryview(sent)[begin + 4 : end])


async def _read_form(request: Request, most: int, timeout_s: float) -> bytearray:
    """The bytes of a form; raises CallerError if it did not come whole, or is longer."""
    sent = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for piece in request.stream():
                sent += piece
                if len(sent) > most:
                    raise CallerError(
                        f"A form has at most {most:,} bytes.", code="form_too_large", status=413
                    )
    except (ClientDisconnect, TimeoutError):
        raise unknown_form_error() from None
    return sent


def unknown_form_error() -> CallerError:
    """The refusal of what is no form of ours, or has been cut."""
    return CallerError("This is no form of these pages.", code="invalid_form")


def invalid_query_error(error: RequestValidationError) -> CallerError:
    """The first fault of a query or body, which names the field."""
    fault = error.errors()[0]
    source, *parts = fault["loc"]
    # Of a parameter of several kinds, the kind follows.
    name = ".".join(map(str, parts[:1] if source == "query" else parts)) or str(source)
    return CallerError(f"{name}: {fault['msg']}.", code="invalid_parameter", param=name, status=422)


def _is_own(request: Request, origin: str) -> bool:
    try:
        return urlsplit(origin).netloc == request.headers.get("host", "")
    except ValueError:
        return False
