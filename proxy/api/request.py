"""Reads a request: the fields of its head, and its body within the limits."""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import msgspec
from starlette.types import Receive, Scope

from proxy.api.azure import DEPLOYMENT
from proxy.api.connections.body_limits import BodyReservation
from proxy.api.isolation import websocket_refusal
from proxy.api.request_path import endpoint_of
from proxy.calls.deadlines import ClientDisconnected
from proxy.calls.eligibility.retry_policy import GENERATING_ENDPOINTS
from proxy.errors import CallerError
from proxy.providers.json_size import (
    MAX_CONVERSATION,
    MAX_REQUEST,
    SMALL_BYTES,
    ArrivingText,
    JsonSize,
)

#: The caller's headers that are for the upstream. Its key, cookies and addresses are not.
_FORWARDED: Final = {
    name.encode(): name
    for name in (
        "accept",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "idempotency-key",
        "openai-beta",
        "openai-organization",
        "openai-project",
        "x-client-request-id",
        "x-llm-d-inference-objective",
        "x-llm-d-slo-tpot-ms",
        "x-llm-d-slo-ttft-ms",
    )
}
_KEY_HEADERS: Final = (b"authorization", b"api-key", b"x-api-key")
#: Callers' words for us.
_GATEWAY_HEADERS: Final = frozenset(
    {
        b"cache-control",
        b"x-thriftgate-cache-tags",
        b"x-thriftgate-compaction",
        b"x-thriftgate-conversation",
        b"x-thriftgate-draft",
        b"x-thriftgate-feature",
        b"x-thriftgate-region",
        b"x-thriftgate-slots",
        b"x-thriftgate-tags",
        b"x-thriftgate-trailer",
    }
)
#: In which agents and proxies name the session or thread that a call is part of. Names of single
#: requests, and of windows, which change within a session, are none of them.
#: Source: captured calls of Claude Code 2.1 and Codex 0.169; Helicone, sessions (2026-11); xAI,
#: prompt caching (2026-11); Fireworks, prompt caching (2026-11).
_SESSION_HEADERS: Final = frozenset(
    {
        b"helicone-session-id",
        b"session-id",
        b"session_id",
        b"thread-id",
        b"thread_id",
        b"x-claude-code-session-id",
        b"x-grok-conv-id",
        b"x-session-affinity",
        b"x-session-id",
    }
)
#: Endpoints whose lists hold messages and tools; those of others hold numbers, too.
_CONVERSATIONS: Final = ("chat/completions", "responses")
#: The same of Anthropic's API, whose batches hold many conversations.
_MESSAGES: Final = frozenset({"messages", "messages/count_tokens"})
_MAX_FEATURE_CHARS: Final = 128
#: Bytes of a session's name that count.
_MAX_SESSION_BYTES: Final = 256
#: In every WebSocket's handshake. Source: RFC 6455, section 4.1 (2011-12).
_WEBSOCKET_HEADER: Final = b"sec-websocket-key"
_READ_HEADERS: Final = frozenset(
    {
        *_FORWARDED,
        *_KEY_HEADERS,
        *_GATEWAY_HEADERS,
        *_SESSION_HEADERS,
        _WEBSOCKET_HEADER,
        b"content-encoding",
        b"content-length",
        b"user-agent",
    }
)
_MAX_LENGTH_DIGITS: Final = 19
#: Media types that are remembered; most callers send the same few.
_MAX_CACHED_MEDIA_TYPES: Final = 64


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a request.

    Attributes:
        token: The key that came with it; "" for none.
        forwarded: Headers for the upstream, names in lower case.
        feature: From ``x-thriftgate-feature``; "" for none.
        conversation: From ``x-thriftgate-conversation``; "" for none.
        session: A hash of what other headers name its session; "" for none.
        slots: From ``x-thriftgate-slots``; "" for none.
        compaction: From ``x-thriftgate-compaction``; "" for none.
        draft: From ``x-thriftgate-draft``; "" for none.
        cache_control: From ``cache-control``; "" for none.
        cache_tags: From ``x-thriftgate-cache-tags``; "" for none.
        tags: From ``x-thriftgate-tags``; "" for none.
        regions: From ``x-thriftgate-region``; None for anywhere.
        wants_trailer: True if a stream is to end with a comment of what it cost.
        length: Bytes of the body, as announced; 0 where it is not.
        media: The body's media type, without parameters.
        encoding: The body's content coding; "" for none.
        user_agent: From ``user-agent``; "" for none.
        deployment: The model that an Azure client's path names; "" for none.
    """

    method: str
    endpoint: str
    query: str
    token: str
    forwarded: dict[str, str]
    feature: str = ""
    conversation: str = ""
    session: str = ""
    slots: str = ""
    compaction: str = ""
    draft: str = ""
    cache_control: str = ""
    cache_tags: str = ""
    tags: str = ""
    regions: frozenset[str] | None = None
    wants_trailer: bool = False
    length: int
    media: str
    encoding: str
    user_agent: str = ""
    deployment: str = ""


def read_head(scope: Scope) -> RequestHead:
    """The head of this request.

    Raises:
        CallerError: If the path leaves ``/v1/``, or it asks for a WebSocket.
    """
    forwarded: dict[str, str] = {}
    values: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in _READ_HEADERS:
            values[name] = text = (
                _decode_header(value) if name in _GATEWAY_HEADERS else value.decode("latin-1")
            )
            if name in _FORWARDED:
                forwarded[_FORWARDED[name]] = text
    if _WEBSOCKET_HEADER in values:
        raise websocket_refusal()
    length = values.get(b"content-length", "0")
    coding = values.get(b"content-encoding", "")
    head = RequestHead(
        method=scope["method"],
        endpoint=endpoint_of(scope.get("raw_path") or scope["path"].encode()),
        query=scope["query_string"].decode("latin-1"),
        token=_token(values),
        forwarded=forwarded,
        session=_session_hash(values),
        length=int(length) if length.isdecimal() and len(length) < _MAX_LENGTH_DIGITS else 0,
        media=_media_type(values.get(b"content-type", "")),
        encoding=coding and coding.strip().lower().replace("identity", ""),
        user_agent=values.get(b"user-agent", ""),
        deployment=scope.get(DEPLOYMENT, ""),
    )
    return head if _GATEWAY_HEADERS.isdisjoint(values) else _with_gateway_headers(head, values)


def _with_gateway_headers(head: RequestHead, values: Mapping[bytes, str]) -> RequestHead:
    """The head with what its caller says to the gateway."""
    return msgspec.structs.replace(
        head,
        feature=values.get(b"x-thriftgate-feature", ""),
        conversation=values.get(b"x-thriftgate-conversation", ""),
        slots=values.get(b"x-thriftgate-slots", ""),
        compaction=values.get(b"x-thriftgate-compaction", ""),
        draft=values.get(b"x-thriftgate-draft", "").strip(),
        cache_control=values.get(b"cache-control", ""),
        cache_tags=values.get(b"x-thriftgate-cache-tags", ""),
        tags=values.get(b"x-thriftgate-tags", ""),
        regions=_regions(values.get(b"x-thriftgate-region", "")),
        wants_trailer=values.get(b"x-thriftgate-trailer") == "1",
    )


def json_limit(head: RequestHead) -> JsonSize | None:
    """The most JSON that a body may have; None where it is not going to be parsed."""
    if head.endpoint.startswith(_CONVERSATIONS) or head.endpoint in _MESSAGES:
        return MAX_CONVERSATION
    is_json = head.endpoint in GENERATING_ENDPOINTS or head.media == "application/json"
    return MAX_REQUEST if is_json else None


async def read_body(
    receive: Receive,
    length: int,
    reservation: BodyReservation,
    *,
    json_limit: JsonSize | None = None,
) -> bytes:
    """The request's body.

    A body of JSON is measured while it arrives, so that one which takes too long to parse is never
    put together. Its caller is refused once all has arrived: who is refused earlier and closes the
    connection loses the answer.

    Raises:
        CallerError: If it is longer than one may be; nothing more of it is read. Or if it has too
            many JSON keys or values.
        Unready: If there is no room for it; nothing more of it is read.
        ClientDisconnected: If the caller left before its end.
    """
    reservation.grow_to(length)
    pieces: list[bytes] = []
    size, more, is_over = 0, True, False
    text: ArrivingText | None = None
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        piece = message.get("body", b"")
        size += len(piece)
        more = message.get("more_body", False)
        if size > length:
            reservation.grow_to(size)
        if is_over:
            continue
        pieces.append(piece)
        if json_limit is not None and size >= SMALL_BYTES:
            text = text or ArrivingText(json_limit, pieces)
            is_over = await _exceeds(text)
            if is_over:
                pieces.clear()
    if is_over and json_limit is not None:
        raise _too_many_values(json_limit)
    return b"".join(pieces)


async def _exceeds(text: ArrivingText) -> bool:
    """True if a text is over the limit with its newest piece; other calls run in between."""
    for is_over in text.exceeds():
        if is_over:
            return True
        await asyncio.sleep(0)
    return False


def _too_many_values(limit: JsonSize) -> CallerError:
    return CallerError(
        f"The body has more than {limit.keys:,} JSON keys, or more than"
        f" {limit.values:,} JSON values. Send fewer, or send data as text in one string.",
        code="too_many_json_values",
        status=413,
    )


def request_token(scope: Scope) -> str:
    """The key that came with a request; "" for none."""
    return _token({name: value.decode("latin-1") for name, value in scope["headers"]})


def feature_label(text: str) -> tuple[str, tuple[str, ...]]:
    """A feature label that is safe to store and show; and the note about one that is too long."""
    if not text:
        return "", ()
    is_cut = len(text) > _MAX_FEATURE_CHARS
    notes = (f"the feature's name is cut to {_MAX_FEATURE_CHARS} characters",) if is_cut else ()
    text = text[:_MAX_FEATURE_CHARS]
    if not text.isprintable():
        text = "".join(c for c in text if c.isprintable())
    return text.strip(), notes


def _decode_header(value: bytes) -> str:
    """A header's value as people wrote it: UTF-8, else Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _regions(text: str) -> frozenset[str] | None:
    """The regions of a header; None where it names none."""
    return (frozenset(filter(None, map(str.strip, text.split(",")))) or None) if text else None


def _session_hash(values: Mapping[bytes, str]) -> str:
    """A hash of the names that session headers give; "" where there are none."""
    if _SESSION_HEADERS.isdisjoint(values):
        return ""
    named = sorted(name for name in _SESSION_HEADERS & values.keys() if values[name])
    if not named:
        return ""
    names = [(name.decode(), values[name][:_MAX_SESSION_BYTES]) for name in named]
    return blake2b(msgspec.json.encode(names), digest_size=16).hexdigest()


@lru_cache(maxsize=_MAX_CACHED_MEDIA_TYPES)
def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _token(values: dict[bytes, str]) -> str:
    for name in _KEY_HEADERS:
        value = values.get(name, "").strip()
        scheme, _, rest = value.partition(" ")
        if key := rest.strip() if scheme.lower() == "bearer" else value:
            return key
    return ""
