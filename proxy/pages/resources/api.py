"""``/api/v1``: the JSON API behind the admin pages, with its OpenAPI document."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboards.access import Role
from proxy.pages.viewing import HEADERS, ReadViewer, SignedIn, marked_routes, require_viewer, route

API_PATH: Final = "/api/v1"
_DESCRIPTION: Final = (
    "What the admin pages show and change. Sign in at /admin; requests carry its session cookie."
    " Money is in nano-dollars (1e-9 US dollars), times are seconds since the epoch (UTC), and"
    ' null is unknown. A team and a key are named by their ids, and a feature is "" for calls that'
    " name none. Lists are read page by page: `after` takes the `next` of the page before."
)


_CAUSES: Final = {
    HTTPStatus.BAD_REQUEST: "What is asked for does not exist, or contradicts itself.",
    HTTPStatus.UNAUTHORIZED: "Nobody is signed in, or the session has ended.",
    HTTPStatus.FORBIDDEN: "The role may not do this, or another site sent the request.",
    HTTPStatus.NOT_FOUND: "Nothing that the viewer may see has this name or id.",
    HTTPStatus.CONFLICT: "The name is taken, or the present state does not allow the change.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A parameter or the body is invalid; `param` names it.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The database did not answer in time; see `retry-after`.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFacts:
    """An error, as calls have it, too.

    Attributes:
        message: Cause, and what to do.
        type: Its kind, as OpenAI names them.
        param: The parameter that is wrong; null for none.
        code: A word that programs can rely on.
    """

    message: str
    type: str
    param: str | None
    code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDocument:
    """The body of an answer to a request that could not be fulfilled."""

    error: ErrorFacts


class Resource:
    """Methods that the API answers with and pages call, each marked by its route.

    All of them raise ``CallerError`` for what a viewer may not do, and ``Unready`` where they need
    the database and it does not answer in time.
    """

    tag = ""

    def router(self) -> APIRouter:
        """The routes of the marked methods, in their order."""
        routes = APIRouter(tags=[self.tag])
        for method, options in marked_routes(self):
            description = inspect.cleandoc(method.__doc__ or "").partition("\n\nRaises:")[0]
            errors: dict[int | str, dict[str, Any]] = {
                status.value: {"model": ErrorDocument, "description": _CAUSES[status]}
                for status in _possible_errors(method, options)
            }
            routes.add_api_route(
                endpoint=method, description=description, responses=errors, **options
            )
        return routes


def _possible_errors(method: Callable[..., Any], options: dict[str, Any]) -> Iterator[HTTPStatus]:
    """The statuses of errors that a route may answer with."""
    yield HTTPStatus.UNAUTHORIZED
    yield HTTPStatus.FORBIDDEN
    yield HTTPStatus.SERVICE_UNAVAILABLE
    if set(inspect.signature(method).parameters) - {"viewer"}:
        yield HTTPStatus.BAD_REQUEST
        yield HTTPStatus.NOT_FOUND
        yield HTTPStatus.UNPROCESSABLE_ENTITY
    if options["methods"] != ["GET"]:
        yield HTTPStatus.CONFLICT


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """The person who is signed in.

    Attributes:
        teams: Ids of the teams they may see; null for all.
    """

    name: str
    role: Role
    teams: list[str] | None


def api_app(
    read_viewer: ReadViewer,
    resources: Iterable[APIRouter],
    add_error_handlers: Callable[[FastAPI], None],
) -> ASGIApp:
    """The API of some resources, to be mounted at ``API_PATH``."""
    api = FastAPI(
        title="Thriftgate admin API",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    required = [Depends(require_viewer(read_viewer))]
    for resource in (_Session().router(), *resources):
        api.include_router(resource, dependencies=required)
    add_error_handlers(api)
    return _WithHeaders(api)


class _Session(Resource):
    """The session of a viewer."""

    tag = "session"

    @route("GET", "/session")
    async def session(self, viewer: SignedIn) -> SessionView:
        """The person who is signed in."""
        teams = None if viewer.teams is None else sorted(viewer.teams)
        return SessionView(name=viewer.name, role=viewer.role, teams=teams)


@dataclass(eq=False)
class _WithHeaders:
    """An app whose answers all carry the headers of the admin pages."""

    _app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
