"""A scripted model behind the three APIs, on a real socket: each answer is what a script says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from compaction.recall.tool_index import TOOL_NAME
from proxy.tools.simulator.server import serving
from tests.fakes.model_wires import (
    Json,
    ModelTurn,
    chat_chunks,
    chat_completion,
    message,
    message_events,
    response,
    response_events,
)

Script = Callable[[Json], ModelTurn]
Whole = Callable[[Json, ModelTurn, int], Json]
Events = Callable[[Json, ModelTurn, int], Iterator[bytes]]
#: Answers by the last part of the path.
_WIRES: Final[Mapping[str, tuple[Whole, Events]]] = {
    "completions": (chat_completion, chat_chunks),
    "messages": (message, message_events),
    "responses": (response, response_events),
}
_REFUSAL: Final = {"message": "no", "type": "invalid_request_error", "code": None}


@dataclass
class RecallingModel:
    """The model; it remembers the bodies that it was sent.

    Attributes:
        script: Returns the answer to a body.
        go_on: Set to have answers that wait go on.
    """

    script: Script
    bodies: list[Json] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI application."""
        if scope["type"] != "http":
            return
        body = orjson.loads(await Request(scope, receive).body())
        self.bodies.append(body)
        turn = self.script(body)
        if turn.hangs:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        whole, events = _WIRES[scope["path"].rpartition("/")[2]]
        if turn.status != 200:
            error = {"type": "error", "error": _REFUSAL}
            await _send(send, turn.status, "application/json", [orjson.dumps(error)])
        elif body.get("stream"):
            pieces = list(events(body, turn, len(self.bodies)))
            gate = self.go_on if turn.waits else None
            await _send(send, 200, "text/event-stream", pieces, breaks=turn.breaks, gate=gate)
        else:
            answer = orjson.dumps(whole(body, turn, len(self.bodies)))
            pieces = [answer[: len(answer) // 2]] if turn.breaks else [answer]
            await _send(send, 200, "application/json", pieces, breaks=turn.breaks)


@asynccontextmanager
async def serving_model(script: Script) -> AsyncIterator[tuple[RecallingModel, str]]:
    """The model on a socket, and its base URL."""
    model = RecallingModel(script)
    async with serving(model) as url:
        yield model, url


async def _send(
    send: Any,
    status: int,
    media: str,
    pieces: Sequence[bytes],
    *,
    breaks: bool = False,
    gate: asyncio.Event | None = None,
) -> None:
    head = [(b"content-type", media.encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    for piece in pieces:
        if gate is not None and TOOL_NAME.encode() in piece and b'"response":{' not in piece:
            await gate.wait()
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    if breaks:
        raise ConnectionResetError
    await send({"type": "http.response.body", "body": b"", "more_body": False})
