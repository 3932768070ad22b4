"""Calls from browsers: which pages of other origins may read the gateway's answers."""

from collections.abc import Sequence
from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.api.azure import AZURE_PREFIX

#: Paths of calls; the pages below /admin are for no other origin.
_PATHS: Final = ("/v1/", AZURE_PREFIX)
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Seconds a browser may remember that it may ask; browsers cap it themselves.
_MAX_AGE_S: Final = 7200


def with_cors(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The app with CORS headers on every answer to a call, errors and preflights included.

    Cookies are never allowed: a call is authenticated by its key alone.

    Source: Fetch standard, CORS protocol (2026-11).

    Args:
        origins: Origins such as ``https://app.example.com``, or ``*``; with none the app itself is
            returned, so that calls pay nothing for it.
    """
    if not origins:
        return app
    opened = CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=_METHODS,
        allow_headers=("*",),
        expose_headers=("*",),
        max_age=_MAX_AGE_S,
    )

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        is_call = scope.get("path", "").startswith(_PATHS)
        await (opened if is_call else app)(scope, receive, send)

    return endpoint
