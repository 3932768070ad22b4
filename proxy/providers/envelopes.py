"""The errors in what an upstream sent, in whatever envelope: as objects with a message."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from proxy.providers.lenient import NEAR_JSON_STARTS, to_strict_json

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
#: Longest body that is read for an error.
_MAX_BODY_BYTES: Final = 256 * 1024
#: Complaints of a list that are told, at most.
_MAX_COMPLAINTS: Final = 8


def envelope_of(body: bytes) -> Mapping[str, Any]:
    """The error object of an error body; empty if it is in no envelope that we know.

    ::

        {"error": {…}} | [{"error": {…}}]             OpenAI, Anthropic | Gemini
        {"message": "…", "type": …, "code": …}        Mistral, SGLang, vLLM
        {"detail": "…" | [{"loc": […], "msg": "…"}]}  FastAPI; Mistral has it in its message
        {"error": "…"}

    Source: Gemini, OpenAI compatibility; Mistral, API errors; FastAPI, handling errors (2026-11).
    """
    said = _decode(body)
    if isinstance(said, list) and said:
        said = said[0]
    if not isinstance(said, dict) or isinstance(said.get("error"), dict):
        return _error_of(said)
    told = (_words(said.get(place)) for place in ("message", "detail", "error"))
    words = next(filter(None, told), "")
    named = {name: said[name] for name in ("type", "code", "param") if name in said}
    return {**named, "message": words} if words else {}


def error_in(event: bytes) -> Mapping[str, Any]:
    """The error in an event of a stream; empty if there is none."""
    return _error_of(_decode(event)) or _of_responses(event)


def is_answer(body: bytes) -> bool:
    """True if a body has some field of an answer, whatever else it has.

    A response that failed is one: OpenAI's SDK gives it to its caller as such.

    Source: OpenAI API reference, the response object (2026-11).
    """
    try:
        said = msgspec.json.decode(body, type=_Answered)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return said.output is not None or bool(said.choices or said.content or said.data)


def is_object(body: bytes) -> bool:
    """True if a body is one JSON object from its first byte to its last."""
    try:
        _decode_members(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def text(value: object) -> str:
    """A string as it is, a number in digits (some upstreams give the code so), else ""."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _error_of(said: object) -> Mapping[str, Any]:
    """The ``error`` of an object; empty where there is none."""
    error = said.get("error") if isinstance(said, dict) else None
    if isinstance(error, str):
        return {"message": error}
    return error if isinstance(error, dict) else {}


def _words(said: object) -> str:
    """The message of an envelope that has no error object; "" for none."""
    if isinstance(said, dict):
        said = said.get("detail") or said.get("message")
    if isinstance(said, list):
        return "; ".join(filter(None, map(_field_complaint, said[:_MAX_COMPLAINTS])))
    return said if isinstance(said, str) else ""


def _field_complaint(said: object) -> str:
    """FastAPI's complaint about a field, with its name, or the line itself; "" for others."""
    if isinstance(said, str):
        return said
    if not isinstance(said, dict) or not isinstance(said.get("msg"), str):
        return ""
    place = said.get("loc")
    where = ".".join(map(text, place)) if isinstance(place, list) else ""
    return f"{where}: {said['msg']}" if where else str(said["msg"])


def _decode(body: bytes) -> object:
    """Decode a JSON body; None if it is too long or none.

    What is only nearly JSON is read, too: an error may hold what the model generated.
    """
    if len(body) > _MAX_BODY_BYTES:
        return None
    try:
        return msgspec.json.decode(body)
    except UnicodeDecodeError:
        return None
    except (msgspec.DecodeError, RecursionError):
        strict = to_strict_json(body) if body.lstrip().startswith(NEAR_JSON_STARTS) else None
        return None if strict is None else msgspec.json.decode(strict)


def _of_responses(data: bytes) -> Mapping[str, Any]:
    """The error in an event of a Responses stream; empty if there is none.

    Source: OpenAI API reference, streaming events: error, response.failed (2026-11).
    """
    try:
        said = msgspec.json.decode(data, type=_Told)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if said.type == "response.failed" and said.response is not None:
        return said.response.error or {}
    if said.type != "error":
        return {}
    return {"code": said.code, "message": said.message, "param": said.param}


class _Answered(msgspec.Struct):
    """The fields that answers have: Responses, chat and completions, Messages, embeddings."""

    output: list[msgspec.Raw] | None = None
    choices: list[msgspec.Raw] | None = None
    content: list[msgspec.Raw] | None = None
    data: list[msgspec.Raw] | None = None


class _Failed(msgspec.Struct):
    error: dict[str, Any] | None = None


class _Told(msgspec.Struct):
    """An event of a Responses stream, as far as it may hold an error."""

    type: str = ""
    code: str | None = None
    message: str | None = None
    param: str | None = None
    response: _Failed | None = None
