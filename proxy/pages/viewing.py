"""The viewer of pages and of their API, as dependencies of routes."""

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Request

from dashboards.access import Action, Viewer
from proxy.errors import CallerError
from proxy.pages.browser_requests import check_source
from proxy.store.sql.access.audit_log import AuditedChange

V = TypeVar("V")

ReadViewer = Callable[[Request], Awaitable[Viewer | None]]
"""Finds who sent a request by its session; None for nobody."""

RecordChange = Callable[[AuditedChange], Awaitable[None]]
"""Writes a change to the audit log that no change of the store writes by itself."""

Clock = Callable[[], float]
"""The time of now, in seconds since the epoch."""

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def require_viewer(read: ReadViewer) -> Callable[[Request], Awaitable[None]]:
    """A dependency of a router: somebody is signed in, and changes come from our own pages."""

    async def check(request: Request) -> None:
        if request.method not in _SAFE_METHODS:
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
