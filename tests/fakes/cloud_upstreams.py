"""Bedrock and Vertex AI before a simulated Claude: they take requests in their own form alone.

Each checks the proof of whose a request is, puts the body into Anthropic's form, has the simulator
answer it, and says the answer in its own form. What the real ones refuse is refused.
"""

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote
from zlib import crc32

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.providers.sse import EventFramer, parse_events

Json = dict[str, Any]
REGION: Final = "us-east-1"
#: Beta features that the fake Bedrock knows.
KNOWN_BETAS: Final = frozenset({"context-management-2025-06-27", "interleaved-thinking-2025-05-14"})
#: Fields that it refuses as unknown.
UNKNOWN_FIELDS: Final = ("model", "stream", "service_tier", "speed", "cache_control", "diagnostics")
_AWS_TYPES: Final = {
    400: "ValidationException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    500: "InternalServerException",
    529: "ServiceUnavailableException",
}
_AWS_STATUSES: Final = {529: 503}


@dataclass
class CloudUpstream:
    """The parts that both have.

    Attributes:
        simulator: Answers ``/v1/messages``.
        heard: The path, headers and body of each request that was let in.
        refused: Reasons of those that were not.
    """

    simulator: ASGIApp
    heard: list[tuple[str, dict[str, str], Json]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def ask(self, path: str, body: Json, betas: str, receive: Receive, send: Send) -> None:
        """Have the simulator answer a body in Anthropic's own form."""
        headers = [
            (b"x-api-key", b"simulator-key"),
            (b"anthropic-version", b"2023-06-01"),
            (b"content-type", b"application/json"),
            (b"anthropic-beta", betas.encode()),
        ]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "server": ("simulator", 80),
        }
        events = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

        async def hear() -> Any:
            return events.pop() if events else await receive()

        await self.simulator(scope, hear, send)


@dataclass
class BedrockUpstream(CloudUpstream):
    """Bedrock's runtime; ``accounts`` are the keys it lets in, ``expired`` those it did once.

    Attributes:
        accounts: Secret keys by access key.
        tokens: Session tokens by access key, where it needs one.
        api_keys: Bearer tokens that it lets in.
        expired: Access keys that have expired.
    """

    accounts: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    api_keys: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    damages_frames: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = await Request(scope, receive).body()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        path = scope["raw_path"].decode()
        if problem := self._problem(scope, headers, raw):
            self.refused.append(problem)
            await _answer(send, 403, {"message": problem}, (ERROR, problem.partition(" ")[0]))
            return
        _, _, model, way = path.split("/")
        body = json.loads(raw)
        self.heard.append((path, headers, body))
        if way == "count-tokens":
            body = json.loads(b64decode(body["input"]["invokeModel"]["body"]))
        if wrong := _wrong_field(body):
            await _answer(send, 400, {"message": wrong}, (ERROR, "ValidationException:http://x/"))
            return
        if way == "count-tokens":
            send = _BedrockCount(send)
        else:
            send = _BedrockFrames(send, damages=self.damages_frames)
        await self._invoke(unquote(model), way, body, receive, send)

    async def _invoke(self, model: str, way: str, body: Json, receive: Receive, send: Send) -> None:
        fields = {name: value for name, value in body.items() if not name.startswith("anthropic_")}
        fields |= {"model": model.partition("anthropic.")[2] or model}
        betas = ",".join(body.get("anthropic_beta", []))
        if way == "count-tokens":
            await self.ask("/v1/messages/count_tokens", fields, betas, receive, send)
            return
        fields["stream"] = way == "invoke-with-response-stream"
        await self.ask("/v1/messages", fields, betas, receive, send)

    def _problem(self, scope: Scope, headers: Mapping[str, str], raw: bytes) -> str:
        """Reason that a request is not let in, as Bedrock words it; "" where it is."""
        authorization = headers.get("authorization", "")
        if authorization.startswith("Bearer "):
            has_api_key = authorization.removeprefix("Bearer ") in self.api_keys
            return "" if has_api_key else "AccessDeniedException API key"
        parts = dict(part.split("=", 1) for part in authorization.partition(" ")[2].split(", "))
        account, _, region, service, _ = parts["Credential"].split("/")
        if account in self.expired:
            return "ExpiredTokenException The security token included in the request is expired"
        is_known = account in self.accounts and (region, service) == (REGION, "bedrock")
        if not is_known or self.tokens.get(account) != headers.get("x-amz-security-token"):
            return "UnrecognizedClientException The security token is invalid."
        names = parts["SignedHeaders"].split(";")
        assert {"host", "x-amz-date"} <= set(names)
        url = f"http://{headers['host']}{scope['raw_path'].decode()}"
        request = AWSRequest("POST", url, {name: headers[name] for name in names}, raw)
        request.context["timestamp"] = headers["x-amz-date"]
        signer = SigV4Auth(Credentials(account, self.accounts[account]), "bedrock", REGION)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        right = signer.signature(text, request) == parts["Signature"]
        return "" if right else "InvalidSignatureException The signature does not match."


ERROR: Final = "x-amzn-errortype"


class _BedrockFrames:
    """Says the simulator's answer as Bedrock does; a stream in binary frames."""

    def __init__(self, send: Send, *, damages: bool) -> None:
        self._send = send
        self._framer = EventFramer()
        self._is_stream = self._is_error = False
        self._status = 200
        self._damages = damages
        self._headers: list[tuple[bytes, bytes]] = []

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self._is_stream:
            run = self._framer.feed(message.get("body", b""))
            frames = b"".join(map(_frame_of, parse_events(run)))
            if self._damages and frames:
                frames = frames[:-1] + bytes([frames[-1] ^ 1])
            await self._send({**message, "body": frames})
        elif self._is_error:
            message_text = json.loads(message["body"])["error"]["message"]
            body = json.dumps({"message": message_text}).encode()
            length = (b"content-length", str(len(body)).encode())
            head = {"status": self._status, "headers": [*self._headers, length]}
            await self._send({"type": "http.response.start", **head})
            await self._send({**message, "body": body})
        else:
            await self._send(message)

    async def _start(self, message: Any) -> None:
        own_headers = dict(message["headers"])
        status = message["status"]
        named = (b"x-amzn-requestid", b"11111111-2222-3333-4444-555555555555")
        self._is_stream = own_headers[b"content-type"].startswith(b"text/event-stream")
        self._is_error = status != 200
        if self._is_error:
            kind = _AWS_TYPES.get(status, "ModelErrorException").encode()
            self._status = _AWS_STATUSES.get(status, status)
            again = [(name, own_headers[name]) for name in (b"retry-after",) if name in own_headers]
            self._headers = [named, (ERROR.encode(), kind), *again]
            return
        passed_names = {b"content-type", b"content-length"}
        headers = [
            named,
            *((name, value) for name, value in own_headers.items() if name in passed_names),
        ]
        if self._is_stream:
            headers = [named, (b"content-type", b"application/vnd.amazon.eventstream")]
        await self._send({**message, "headers": headers})


class _BedrockCount:
    """Says the simulator's count of tokens as Bedrock does."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, message: Any) -> None:
        if message["type"] != "http.response.start":
            document = json.loads(message["body"])
            await _answer(self._send, 200, {"inputTokens": document["input_tokens"]})


@dataclass
class VertexUpstream(CloudUpstream):
    """Vertex AI, with the place where Google's tokens are got, under ``/token``.

    Attributes:
        tokens: Those that are let in; each that is got is another.
        lifetime_s: Seconds that a token is said to live.
    """

    tokens: list[str] = field(default_factory=list)
    lifetime_s: int = 3_600

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = await Request(scope, receive).body()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if scope["path"] == "/token":
            assert parse_qs(raw.decode())["assertion"]
            self.tokens.append(f"ya29.{len(self.tokens)}")
            token = {"access_token": self.tokens[-1], "expires_in": self.lifetime_s}
            await _answer(send, 200, {**token, "token_type": "Bearer"})
            return
        if headers.get("authorization") not in {f"Bearer {token}" for token in self.tokens}:
            self.refused.append(headers.get("authorization", ""))
            error = {"code": 401, "message": "Invalid credentials", "status": "UNAUTHENTICATED"}
            await _answer(send, 401, {"error": error})
            return
        body = json.loads(raw)
        path = scope["raw_path"].decode()
        self.heard.append((path, headers, body))
        model, _, way = path.rpartition("/")[2].partition(":")
        assert body.pop("anthropic_version") == "vertex-2023-10-16"
        counts = model == "count-tokens"
        assert counts == ("model" in body)
        fields = {**body, "model": (body["model"] if counts else unquote(model)).partition("@")[0]}
        assert (way == "streamRawPredict") == bool(body.get("stream"))
        there = "/v1/messages/count_tokens" if counts else "/v1/messages"
        await self.ask(there, fields, headers.get("anthropic-beta", ""), receive, send)


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A message of an AWS event stream."""
    named = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value))
        + value.encode()
        for name, value in headers.items()
    )  # fmt: skip
    prelude = struct.pack("!II", 16 + len(named) + len(payload), len(named))
    message = prelude + struct.pack("!I", crc32(prelude)) + named + payload
    return message + struct.pack("!I", crc32(message))


def chunk_frame(event: bytes) -> bytes:
    """The frame of an event of the Messages API."""
    payload = json.dumps({"bytes": b64encode(event).decode(), "p": "abcdefgh"}).encode()
    return frame({":event-type": "chunk", ":message-type": "event"}, payload)


def exception_frame(kind: str, **fields: Any) -> bytes:
    """The frame of an exception of this type."""
    headers = {":exception-type": kind, ":message-type": "exception"}
    return frame(headers, json.dumps(fields).encode())


def _frame_of(event: Any) -> bytes:
    """The frame of an event; errors are exceptions there."""
    document = json.loads(event.data) if event.name == "error" else {}
    if not document:
        return chunk_frame(event.data)
    return exception_frame("serviceUnavailableException", message=document["error"]["message"])


def _wrong_field(body: Json) -> str:
    """Bedrock's words about what it does not take in a body; "" for nothing."""
    if body.get("anthropic_version") != "bedrock-2023-05-31":
        return "anthropic_version: Field required"
    if unknown := [name for name in UNKNOWN_FIELDS if name in body]:
        return f"{unknown[0]}: Extra inputs are not permitted"
    return "" if KNOWN_BETAS.issuperset(body.get("anthropic_beta", ())) else "invalid beta flag"


async def _answer(send: Send, status: int, body: Json, *headers: tuple[str, str]) -> None:
    raw = json.dumps(body).encode()
    answer_headers = [
        ("content-type", "application/json"),
        ("content-length", str(len(raw))),
        *headers,
    ]
    named = [(name.encode(), value.encode()) for name, value in answer_headers]
    await send({"type": "http.response.start", "status": status, "headers": named})
    await send({"type": "http.response.body", "body": raw, "more_body": False})
