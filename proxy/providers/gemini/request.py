"""A chat body as a ``generateContent`` body.

The same body gives the same bytes, and a body with more messages begins with the same contents, so
that Google's implicit cache keeps hitting; an explicit one is named by the caller.

Source: Google, Gemini API, generateContent, caching (2026-11).
"""

from typing import Final

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.chat.chat_options import OWN_FIELDS, refuse_unsupported
from proxy.providers.gemini.body import GeminiChatBody, Json, read_chat
from proxy.providers.gemini.contents import contents, system_instruction
from proxy.providers.gemini.params import generation_config, service_tier
from proxy.providers.gemini.tools import tool_fields

_KNOWN: Final = frozenset(GeminiChatBody.__struct_fields__) | OWN_FIELDS
#: Those of the known fields that this wire has no word for.
_DROPPED: Final = frozenset(
    {"user", "safety_identifier", "cache_control", "context_management", "thinking"}
)
_REFUSED: Final = {
    "compaction": "Ask a Claude model for it, or shorten the conversation yourself.",
}


class GenerateRequest(msgspec.Struct, frozen=True):
    """A request in Google's format."""

    body: bytes
    notes: tuple[str, ...]


def generate_body(body: bytes, route: Route, model: str) -> GenerateRequest:
    """The caller's chat body for this route."""
    request, names = read_chat(body)
    refuse_unsupported(request, names, _REFUSED)
    notes: list[str] = []
    if unknown := sorted((names - _KNOWN) | (names & _DROPPED)):
        notes.append(f"dropped {', '.join(unknown)}: the model has no such parameter")
    fields = _fields(request, route, model, notes)
    return GenerateRequest(msgspec.json.encode(fields), tuple(dict.fromkeys(notes)))


def _fields(request: GeminiChatBody, route: Route, model: str, notes: list[str]) -> Json:
    """The request as it will be written, fields in a fixed order."""
    system, start = system_instruction(request.messages)
    fields: Json = {"systemInstruction": {"parts": system}} if system else {}
    fields |= tool_fields(request, notes)
    fields["contents"] = contents(request.messages, start, notes)
    if config := generation_config(request, route, model, notes):
        fields["generationConfig"] = config
    if request.google.cached_content:
        fields["cachedContent"] = request.google.cached_content
    return fields | service_tier(request, notes)
