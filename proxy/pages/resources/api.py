"""``/api/v1``: the JSON API behind the admin pages, with its OpenAPI document."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Depends, FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboards.access import Role
from proxy.pages.browser_requests import HEADERS
from proxy.pages.viewing import ReadViewer, SignedIn, require_viewer

API_PATH: Final = "/api/v1"
_DESCRIPTION: Final = (
    "What the admin pages show and change. Sign in at /admin; requests carry its session cookie."
    " Money is in nano-dollars (1e-9 US dollars), times are seconds since the epoch (UTC), and"
    " null is unknown. Lists are read page by page: `after` takes the `next` of the page before."
)


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
    """The API, to be mounted at ``API_PATH``.

    Args:
        read_viewer: Finds who sent a request.
        resources: Routes of each resource, with paths below the API's.
        add_error_handlers: Has all errors answered in the error envelope.
    """
    api = FastAPI(
        title="Thriftgate admin API",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    required = [Depends(require_viewer(read_viewer))]
    for resource in (_session_router(), *resources):
        api.include_router(resource, dependencies=required)
    add_error_handlers(api)
    return _WithHeaders(api)


def _session_router() -> APIRouter:
    routes = APIRouter(tags=["session"])

    @routes.get("/session")
    async def session(viewer: SignedIn) -> SessionView:
        """The person who is signed in."""
        teams = None if viewer.teams is None else sorted(viewer.teams)
        return SessionView(name=viewer.name, role=viewer.role, teams=teams)

    return routes


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
