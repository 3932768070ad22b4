"""The app while the gateway starts: probes are answered, calls are refused until it is ready."""

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.api.passthrough import error_response
from proxy.errors import Unready

#: The trouble that ``/readyz`` names until the gateway is ready.
STARTING: Final = "the database has not been reached since the gateway started; its log says why"
#: Note of ``/readyz`` while known keys are served until the database is available.
OFFLINE: Final = (
    "the database has not been reached since the gateway started: calls of the keys known last are"
    " answered,"
    " neither planned nor compacted; calls of other keys are refused"
)
_RETRY_AFTER_S: Final = 5.0


class SwitchableApp:
    """Passes requests to an app that can be replaced while the server runs.

    Attributes:
        app: Answers requests from now on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one request."""
        return self.app(scope, receive, send)


def starting_app(request_id: Callable[[], str]) -> ASGIApp:
    """An app that is alive, not ready, and refuses everything else with 503."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":
            response: Response = JSONResponse({"status": "ok"})
        elif scope["path"] == "/readyz":
            response = JSONResponse({"status": "not ready", "troubles": [STARTING]}, 503)
        else:
            response = error_response(scope, _starting_error(), request_id())
        await response(scope, receive, send)

    return answer


def _starting_error() -> Unready:
    return Unready(
        "The gateway is starting and waits for its database. Try again in a moment.",
        code="database_unavailable",
        retry_after=_RETRY_AFTER_S,
    )
