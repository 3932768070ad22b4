"""A scripted model behind a chat API, on a real socket: each answer is what a script says."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from proxy.tools.simulator.server import serving

Json = dict[str, Any]
#: Words of a streamed answer in one chunk.
_CHUNK_WORDS = 3
_CREATED = 1_790_000_000


@dataclass(frozen=True, kw_only=True)
class ModelTurn:
    """One answer of the model.

    Attributes:
        calls: Names and arguments of the tools it calls, after its text.
        status: The status; any but 200 is an error.
        breaks: True if the connection breaks before the end.
        hangs: True if nothing comes, ever.
    """

    text: str = ""
    calls: Sequence[tuple[str, Json]] = ()
    status: int = 200
    breaks: bool = False
    hangs: bool = False


Script = Callable[[Json], ModelTurn]


@dataclass
class RecallingModel:
    """The model; it remembers the bodies that it was sent.

    Attributes:
        script: Returns the answer to a body.
    """

    script: Script
    bodies: list[Json] = field(default_factory=list)

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one request, as an ASGI application."""
        if scope["type"] != "http":
            return
        raw = b""
        while True:
            event = await receive()
            raw += event.get("body", b"")
            if not event.get("more_body"):
                break
        body = orjson.loads(raw)
        self.bodies.append(body)
        answer = self.script(body)
        if answer.hangs:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if answer.status != 200:
            error = {"error": {"message": "no", "type": "invalid_request_error", "code": None}}
            await _send(send, answer.status, "application/json", [orjson.dumps(error)])
        elif body.get("stream"):
            pieces = list(_chunks(body, answer, len(self.bodies)))
            await _send(send, 200, "text/event-stream", pieces, breaks=answer.breaks)
        else:
            whole = orjson.dumps(_completion(body, answer, len(self.bodies)))
            pieces = [whole[: len(whole) // 2]] if answer.breaks else [whole]
            await _send(send, 200, "application/json", pieces, breaks=answer.breaks)


@asynccontextmanager
async def serving_model(script: Script) -> AsyncIterator[tuple[RecallingModel, str]]:
    """The model on a socket, and its base URL."""
    model = RecallingModel(script)
    async with serving(model) as url:
        yield model, url


async def _send(
    send: Any, status: int, media: str, pieces: Sequence[bytes], *, breaks: bool = False
) -> None:
    head = [(b"content-type", media.encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    if breaks:
        raise ConnectionResetError
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _usage(body: Json, answer: ModelTurn) -> Json:
    prompt = len(orjson.dumps(body["messages"])) // 4
    generated = len(answer.text) // 4 + 10
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
    }


def _tool_calls(answer: ModelTurn, number: int) -> Iterator[Json]:
    for place, (name, arguments) in enumerate(answer.calls):
        function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
        yield {"id": f"call_{number}_{place}", "type": "function", "function": function}


def _completion(body: Json, answer: ModelTurn, number: int) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = list(_tool_calls(answer, number))
    finish = "tool_calls" if answer.calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": _usage(body, answer),
    }


def _chunks(body: Json, answer: ModelTurn, number: int) -> Iterator[bytes]:
    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({**opening, "choices": [choice]})

    opening = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": body["model"],
    }
    yield chunk({"role": "assistant", "content": ""})
    words = answer.text.split(" ") if answer.text else []
    for start in range(0, len(words), _CHUNK_WORDS):
        text = " ".join(words[start : start + _CHUNK_WORDS])
        yield chunk({"content": text if start == 0 else f" {text}"})
    for place, call in enumerate(_tool_calls(answer, number)):
        arguments = call["function"]["arguments"]
        begun = {**call, "index": place, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        for start in range(0, len(arguments), 7):
            part = {"index": place, "function": {"arguments": arguments[start : start + 7]}}
            yield chunk({"tool_calls": [part]})
    if answer.breaks:
        return
    yield chunk({}, "tool_calls" if answer.calls else "stop")
    yield _event({**opening, "choices": [], "usage": _usage(body, answer)})
    yield b"data: [DONE]\n\n"


def _event(value: Json) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
