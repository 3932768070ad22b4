"""The app while the gateway starts: probes are answered, calls are refused until it is ready."""

from collections.abc import Awaitable, Callable
from typing import Final

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.api.messages_api import speaks_messages
from proxy.api.passthrough import error_answer
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
    """An app that is alive, not ready, and refuses everything else with 503.

    Args:
        request_id: Makes the id of a request that is refused.
    """

    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/healthz":
            await _send_json(send, 200, {"status": "ok"})
        elif path == "/readyz":
            await _send_json(send, 503, {"status": "not ready", "troubles": [STARTING]})
        else:
            await _refuse(send, request_id(), speaks_messages=speaks_messages(scope))

    return answer


async def _refuse(send: Send, request_id: str, *, speaks_messages: bool) -> None:
    error = Unready(
        "The gateway is starting and waits for its database. Try again in a moment.",
        code="database_unavailable",
        retry_after=_RETRY_AFTER_S,
    )
    answer = error_answer(error, request_id.encode(), speaks_messages=speaks_messages)
    await _send(send, *answer)


async def _send_json(send: Send, status: int, content: dict[str, object]) -> None:
    body = orjson.dumps(content)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await _send(send, status, headers, body)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
