"""A mock upstream with the whole OpenAI API: checks each request, and answers with an example.

Usage: python -m tests.conformance.upstream --port PORT --log FILE
"""

import argparse
import json
import re
from email import message_from_bytes
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.conformance.examples import example
from tests.conformance.operations import Operation, operations

#: What opens the mock; callers of the gateway have another key.
KEY: Final = "sk-mock-upstream"
#: What all paths of bytes answer, as the SDK's tests expect.
CONTENT: Final = b'{"foo": "bar"}'
_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_BOUNDARY: Final = re.compile(r"boundary=\"?([^\";]+)")
#: The last event of a stream of responses, without which it counts as cut off.
_LAST: Final = "response.completed"
_WRONG: Final = "error"


class Invalid(Exception):
    """A request that the API would not take."""


class Mock:
    """Answers each request as the operation it is for.

    Args:
        known: All operations.
        log: Where each request's method, path, query and body go, a JSON array each.
    """

    def __init__(self, known: list[Operation], log: Path) -> None:
        self._known = known
        self._log = log

    async def answer(self, request: Request) -> Response:
        """An example answer, or an error that says what is wrong with the request."""
        body, boundary = await request.body(), _boundary(request)
        path, query = request.url.path.removeprefix("/v1"), request.url.query
        with self._log.open("a", encoding="utf8") as log:
            seen = body.replace(boundary, b"BOUNDARY") if boundary else body
            log.write(json.dumps([request.method, path, query, seen.decode("latin-1")]) + "\n")
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return _refusal(401, "The key is not the upstream's.")
        one = next((o for o in self._known if o.matches(request.method, path, query)), None)
        if one is None:
            return _refusal(404, f"There is no operation {request.method} {path}.")
        try:
            sent = _fields(request, body, boundary)
        except Invalid as error:
            return _refusal(422, f"{request.method} {path}: {error}")
        if sent is not None and (problem := one.problem(frozenset(sent))):
            return _refusal(422, f"{request.method} {path}: {problem}")
        return _answer(request, one, sent or {})


def _answer(request: Request, one: Operation, sent: dict[str, Any]) -> Response:
    accepts_events = request.headers.get("accept") == "text/event-stream"
    is_stream = "stream=true" in request.url.query or sent.get("stream") in {True, "true"}
    if one.events is not None and (is_stream or accepts_events):
        return Response(stream(one.events), media_type="text/event-stream")
    return _whole(one)


def stream(kind: Any) -> bytes:
    """A stream of events: each member of a union, with errors and what ends a stream last."""
    members = get_args(get_args(kind)[0]) if get_origin(kind) is not None else (kind,)
    events = [example(member) for member in members or (kind,)]
    events.sort(key=lambda event: (event.get("type") == _LAST, event.get("type") == _WRONG))
    return b"".join(_event(event) for event in events) + b"data: [DONE]\n\n"


def _event(event: dict[str, Any]) -> bytes:
    named = event.get("event") or event.get("type")
    data = event["data"] if "event" in event else event
    head = f"event: {named}\n" if named else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _whole(one: Operation) -> Response:
    if one.is_binary:
        return Response(CONTENT, media_type="application/octet-stream")
    if not (get_origin(one.answer) or hasattr(one.answer, "model_fields")):
        is_text = one.answer is str
        return Response("string" if is_text else None, 200, media_type="text/plain")
    return JSONResponse(example(one.answer))


def _fields(request: Request, body: bytes, boundary: bytes) -> dict[str, Any] | None:
    """The top-level fields of a body; None where it is neither JSON nor multipart.

    Raises:
        Invalid: If it cannot be read as its content type says.
    """
    if not body:
        return {}
    if boundary:
        if not body.rstrip().endswith(b"--" + boundary + b"--"):
            raise Invalid("the multipart body does not end")
        return _parts(request.headers["content-type"].encode(), body)
    if request.headers.get("content-type") != "application/json":
        return None
    try:
        read = json.loads(body)
    except ValueError as error:
        raise Invalid(f"the body is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise Invalid("the body is no object")
    return read


def _parts(content_type: bytes, body: bytes) -> dict[str, Any]:
    read = message_from_bytes(b"content-type: " + content_type + b"\r\n\r\n" + body)
    found: dict[str, Any] = {}
    for part in read.walk():
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str):
            found[name.partition("[")[0]] = part.get_payload()
    return found


def _boundary(request: Request) -> bytes:
    found = _BOUNDARY.search(request.headers.get("content-type", ""))
    return found[1].encode() if found else b""


def _refusal(status: int, message: str) -> JSONResponse:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, status)


def app(log: Path) -> Starlette:
    """The mock as an ASGI app."""
    mock = Mock(operations(), log)
    return Starlette(routes=[Route("/{path:path}", mock.answer, methods=_METHODS)])


def main() -> None:
    """Answer until told to stop."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--port", type=int, required=True)
    asked.add_argument("--log", type=Path, required=True)
    given = asked.parse_args()
    uvicorn.run(app(given.log), host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
