"""A mock upstream with a provider's whole API: checks each request, and answers with an example.

Usage: python -m tests.conformance.upstream --port PORT --log FILE [--sdk anthropic]
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
from tests.conformance.sdks import OPENAI, SDKS, SdkUnderTest

#: What opens the mock; callers of the gateway have another key.
KEY: Final = "sk-mock-upstream"
#: What all paths of bytes answer, as the SDK's tests expect.
CONTENT: Final = b'{"foo": "bar"}'
_TRUE: Final = (True, "true")
_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_BOUNDARY: Final = re.compile(r"boundary=\"?([^\";]+)")
#: Headers that carry the upstream's key.
_KEYS: Final = {"authorization": f"Bearer {KEY}", "x-api-key": KEY}
#: Events that a stream has at certain places, in their order; all others precede them.
_IN_ORDER: Final = (
    "message_start", "content_block_start", "content_block_delta", "content_block_stop",
    "message_delta", "message_stop", "error", "response.completed",
)  # fmt: skip
#: A field whose value is the address of another operation.
_RESULTS: Final = "results_url"


class Invalid(Exception):
    """A request that the API would not take."""


class Mock:
    """Answers each request as the operation it is for.

    Args:
        sdk: The SDK whose API this is.
        log: Where each request's method, path, query and body go, a JSON array each.
    """

    def __init__(self, sdk: SdkUnderTest, log: Path) -> None:
        self._sdk = sdk
        self._known = operations(sdk)
        self._log = log

    async def answer(self, request: Request) -> Response:
        """An example answer, or an error that says what is wrong with the request."""
        body, boundary = await request.body(), _boundary(request)
        path, query = request.url.path.removeprefix("/v1"), request.url.query
        with self._log.open("a", encoding="utf8") as log:
            seen = body.replace(boundary, b"BOUNDARY") if boundary else body
            log.write(json.dumps([request.method, path, query, seen.decode("latin-1")]) + "\n")
        if not any(request.headers.get(name) == value for name, value in _KEYS.items()):
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
        return self._answer(request, one, sent or {})

    def _answer(self, request: Request, one: Operation, sent: dict[str, Any]) -> Response:
        if one.events is not None and _wants_events(request, sent):
            events = stream(one.events, self._sdk.ends_streams)
            return Response(events, media_type="text/event-stream")
        return _whole(request, one)


def _wants_events(request: Request, sent: dict[str, Any]) -> bool:
    accepts_events = request.headers.get("accept") == "text/event-stream"
    return accepts_events or "stream=true" in request.url.query or sent.get("stream") in _TRUE


def stream(kind: Any, end: bytes = OPENAI.ends_streams) -> bytes:
    """A stream of events: each member of a union once, in the order that the API has."""
    members = get_args(get_args(kind)[0]) if get_origin(kind) is not None else (kind,)
    events = [example(member) for member in members or (kind,)]
    place = {name: number for number, name in enumerate(_IN_ORDER)}
    events.sort(key=lambda event: place.get(event.get("type", ""), -1))
    return b"".join(_event(event) for event in events) + end


def _event(event: dict[str, Any]) -> bytes:
    named = event.get("event") or event.get("type")
    data = event["data"] if "event" in event else event
    head = f"event: {named}\n" if named else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _whole(request: Request, one: Operation) -> Response:
    if one.line is not None:
        lines = json.dumps(example(one.line)) + "\n"
        return Response(lines, media_type="application/x-jsonl")
    if one.is_binary:
        return Response(CONTENT, media_type="application/octet-stream")
    if not (get_origin(one.answer) or hasattr(one.answer, "model_fields")):
        is_text = one.answer is str
        return Response("string" if is_text else None, 200, media_type="text/plain")
    return JSONResponse(_with_results(example(one.answer), request))


def _with_results(answer: Any, request: Request) -> Any:
    """The answer with the address at which the results of a batch really are."""
    if isinstance(answer, dict) and _RESULTS in answer:
        results = f"{request.base_url}v1/messages/batches/{answer['id']}/results"
        return answer | {_RESULTS: results}
    return answer


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
    parts: dict[str, Any] = {}
    for part in read.walk():
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str):
            parts[name.partition("[")[0]] = part.get_payload()
    return parts


def _boundary(request: Request) -> bytes:
    match = _BOUNDARY.search(request.headers.get("content-type", ""))
    return match[1].encode() if match else b""


def _refusal(status: int, message: str) -> JSONResponse:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, status)


def app(log: Path, sdk: SdkUnderTest = OPENAI) -> Starlette:
    """The mock as an ASGI app."""
    mock = Mock(sdk, log)
    return Starlette(routes=[Route("/{path:path}", mock.answer, methods=_METHODS)])


def main() -> None:
    """Answer until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--sdk", choices=SDKS, default=OPENAI.name)
    given = parser.parse_args()
    uvicorn.run(
        app(given.log, SDKS[given.sdk]), host="127.0.0.1", port=given.port, log_level="warning"
    )


if __name__ == "__main__":
    main()
