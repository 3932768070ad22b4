"""Answers of Google's API, in as few words as a story needs."""

from typing import Any

import orjson

from proxy.catalog.entries import Route, Upstream

Json = dict[str, Any]
USAGE: Json = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 109,
}


def gemini_route(**fields: Any) -> Route:
    """A route of an upstream that speaks ``generateContent``."""
    base_url = "https://generativelanguage.googleapis.com/v1beta"
    upstream = Upstream(name="g", kind="gemini", base_url=base_url, provider="google")
    return Route(name="g/gemini-x", upstream=upstream, **{"model": "gemini-3.8-flash"} | fields)


def answer(*parts: Json, finish: str | None = None, usage: Json | None = None) -> Json:
    """An answer, or a piece of a stream, with one candidate."""
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": [*parts]}}
    if finish is not None:
        candidate["finishReason"] = finish
    document: Json = {"responseId": "r-1", "modelVersion": "gemini-x", "candidates": [candidate]}
    return document if usage is None else document | {"usageMetadata": usage}


def call(name: str = "weather", signature: str = "", **more: Any) -> Json:
    """A part that calls a function."""
    part: Json = {"functionCall": {"name": name, "args": {"city": "Bern"}, **more}}
    return part | {"thoughtSignature": signature} if signature else part


def event_stream(*pieces: Json) -> bytes:
    """A stream of these pieces; Google's end without a word."""
    return b"".join(b"data: " + orjson.dumps(piece) + b"\r\n\r\n" for piece in pieces)
