"""One ASGI connection, as a server would hold it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp, Message, Scope


class AsgiConnection:
    """Plays a request's messages to an app and remembers what it answers."""

    def __init__(
        self, pieces: Sequence[bytes | None] = (b"",), *, leaves_after: float | None = None
    ) -> None:
        """Send these pieces of a body.

        Args:
            pieces: The body; None stands for silence that lasts.
            leaves_after: Seconds from the end of the body to the caller's leaving; None for never.
        """
        self._pieces = list(pieces)
        self._leaves_after = leaves_after
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        if self._pieces:
            piece = self._pieces.pop(0)
            if piece is None:
                await asyncio.get_running_loop().create_future()
            return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}
        if self._leaves_after is None:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self._leaves_after or 0.0)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        assert not self.is_ended, "an answer has one end"
        assert (message["type"] == "http.response.start") == (not self.sent)
        self.sent.append(message)
        await asyncio.sleep(0)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        """The answer's headers, each of which stands there once; of cookies the first."""
        pairs = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in self.sent[0]["headers"]]
        single = [name for name, _ in pairs if name != "set-cookie"]
        assert len(set(single)) == len(single)
        assert not any(set(value) & set("\r\n\0") for _, value in pairs)
        return dict(reversed(pairs))

    @property
    def cookies(self) -> list[str]:
        """Names and values of the cookies that the answer sets."""
        headers = self.sent[0]["headers"]
        texts = [value.decode("latin-1") for name, value in headers if name == b"set-cookie"]
        return [text.partition(";")[0] for text in texts]

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])

    @property
    def is_ended(self) -> bool:
        return len(self.sent) > 1 and not self.sent[-1].get("more_body", False)


def scope(
    path: str = "/v1/chat/completions",
    method: str = "POST",
    headers: dict[str, str] | None = None,
    query: str = "",
    raw: str | None = None,
) -> Scope:
    """A request's head."""
    all_headers = {
        "content-type": "application/json",
        "authorization": "Bearer tg-1",
        **(headers or {}),
    }
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": (raw or path).encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "headers": [
            (name.encode(), value.encode("latin-1")) for name, value in all_headers.items() if value
        ],
    }


async def answer_of_app(
    app: ASGIApp, head: Scope, connection: AsgiConnection | None = None
) -> AsgiConnection:
    """The connection once the app has answered on it."""
    connection = connection or AsgiConnection()
    await app(head, connection.receive, connection.send)
    return connection


async def nothing(_scope: Scope, _receive: Any, send: Any) -> None:
    """An app behind which there is nothing."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"pages"})


def refusal(connection: AsgiConnection) -> dict[str, Any]:
    """The error an answer holds; every refusal of the gateway has this form."""
    assert connection.is_ended
    assert connection.headers["content-type"] == "application/json"
    assert connection.headers["content-length"] == str(len(connection.body))
    assert connection.headers["x-request-id"]
    document = json.loads(connection.body)
    assert set(document) == {"error"}
    error: dict[str, Any] = document["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert all(isinstance(error[name], str) and error[name] for name in ("message", "type", "code"))
    assert error["param"] is None or isinstance(error["param"], str)
    assert connection.headers.get("x-should-retry", "false") in {"true", "false"}
    return error
