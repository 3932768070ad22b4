"""The OpenAI wire: forwards the caller's bytes unmodified, but for the model's upstream name.

Cache markers that the route's cache would refuse or not see are said in its words or taken off,
and where there are several teams each says whose cache it is to meet.

A chat or completions stream is asked for its usage, so that it can be priced; the chunk that
carries it is taken out again where the caller did not ask for it.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import UpstreamError
from proxy.providers.answers.tiers import price_tier
from proxy.providers.answers.usage import openai_usage
from proxy.providers.anthropic.passthrough import foreign_upstream, upstream_path
from proxy.providers.cache_isolation import CacheIsolation, isolate_cache
from proxy.providers.failures import openai_failure
from proxy.providers.fitting.chat_schemas import fit_body_schemas
from proxy.providers.fitting.unseen_parts import UNSEEN_NOTE, without_unseen_parts
from proxy.providers.multipart import is_form, with_model
from proxy.providers.openai.chat_marks import TranslatedMarks, translate_marks
from proxy.providers.port import PreparedRequest
from proxy.providers.readers import PassthroughReader
from proxy.providers.responses.reader import responses_reader
from proxy.providers.responses.request import chat_body
from proxy.providers.sse import parse_events
from proxy.records.call import MESSAGES, Call
from proxy.records.request_fields import raw_field, replace_fields
from slo.price import BillingTerms
from slo.usage import Usage

#: Endpoints whose streams carry usage only when asked. Source: OpenAI API reference (2026-11).
_ASKED: Final = frozenset({"chat/completions", "completions"})
_CHAT: Final = "chat/completions"
#: Endpoints whose bodies may carry cache markers.
_MARKED: Final = frozenset({_CHAT, "responses"})
#: Providers that leave reasoning out of the generated tokens, and count it in the total alone.
#: Source: xAI, chat completions, usage; Google, OpenAI compatibility, usage (2026-11).
_REASONING_APART: Final = frozenset({"xai", "google"})
#: Ends of events, each behind its own blank line.
_EVENT_ENDS: Final = re.compile(rb"(?<=\n\n)|(?<=\n\r\n)|(?<=\r\r)")
_USAGE: Final = re.compile(rb'"usage"\s*:\s*\{')
_NO_CHOICES: Final = re.compile(rb'"choices"\s*:\s*\[\s*\]')


class OpenAIWire:
    """Any upstream that speaks the OpenAI API.

    Source: OpenAI API reference, authentication (2026-11).
    """

    key_header = "authorization"

    def request(self, call: Call, route: Route) -> PreparedRequest:
        """The caller's own bytes; only what must differ is replaced."""
        if call.endpoint == MESSAGES or call.endpoint.startswith(f"{MESSAGES}/"):
            raise foreign_upstream(call, route)
        seen = without_unseen_parts(call, route) if call.endpoint in _MARKED else call
        prepared = self._request(seen, route)
        if seen is call:
            return prepared
        return msgspec.structs.replace(prepared, notes=(*prepared.notes, UNSEEN_NOTE))

    def _request(self, call: Call, route: Route) -> PreparedRequest:
        if call.endpoint == "responses" and not route.upstream.serves_responses:
            return _as_chat_request(call, route)
        fields = self._fields(call, route)
        marked, isolation = _adapt_to_cache(call, call.body, call.endpoint, route)
        fields |= isolation.fields
        return PreparedRequest(
            method=call.method,
            path=upstream_path(call, route),
            headers={**call.headers, **isolation.headers} if isolation.headers else call.headers,
            body=_with_fields(call, marked.body, fields) if fields else marked.body,
            reader=UsageChunkFilter() if "stream_options" in fields else None,
            notes=marked.notes,
        )

    def usage(self, reported: Mapping[str, Any], provider: str = "") -> Usage | None:
        """The usage object in disjoint buckets; its prompt tokens include cached ones."""
        return openai_usage(reported, reasoning_apart=provider in _REASONING_APART)

    def terms(
        self, requested: str, answered: str, usage: Mapping[str, Any], region: str
    ) -> BillingTerms:
        """The answer's own tier goes before the one asked for.

        Source: OpenAI API reference, service_tier (2026-11).
        """
        return BillingTerms(service_tier=price_tier(answered or requested), region=region)

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Translate an OpenAI-type error into the caller's."""
        return openai_failure(status, headers, body)

    def _fields(self, call: Call, route: Route) -> dict[str, bytes]:
        fields: dict[str, bytes] = {}
        if call.fields is None:
            return fields
        if route.model and route.model != call.fields.model:
            fields["model"] = msgspec.json.encode(route.model)
        asks = route.upstream.asks_usage and call.endpoint in _ASKED
        if asks and call.is_streaming and not call.fields.wants_usage:
            given = call.fields.stream_options is not None
            options = raw_field(call.body, "stream_options") if given else None
            fields["stream_options"] = replace_fields(options or b"{}", {"include_usage": b"true"})
        return fields


class UsageChunkFilter(PassthroughReader):
    """Passes a stream on without the usage chunk that only we asked for."""

    def feed(self, piece: bytes) -> bytes:
        """The run of events without the one that has usage and no choices."""
        if _USAGE.search(piece) is None or _NO_CHOICES.search(piece) is None:
            return piece
        return b"".join(event for event in _EVENT_ENDS.split(piece) if not _is_usage(event))


def _with_fields(call: Call, body: bytes, fields: Mapping[str, bytes]) -> bytes:
    """The body with these fields; of a form none but the model is ever another."""
    content_type = call.headers.get("content-type", "")
    if not is_form(content_type):
        return replace_fields(body, fields)
    return with_model(body, content_type, msgspec.json.decode(fields["model"], type=str))


def _as_chat_request(call: Call, route: Route) -> PreparedRequest:
    """A Responses call as a chat completion, and the way back."""
    translated = chat_body(call.body, drops_hosted=route.upstream.drops_server_tools)
    marked, isolation = _adapt_to_cache(call, translated.body, _CHAT, route)
    model = {"model": msgspec.json.encode(route.model)} if route.model else {}
    schemas, schema_notes = fit_body_schemas(marked.body, route)
    fields = {**model, **isolation.fields, **schemas}
    reader = responses_reader(PassthroughReader(), call.body, call.is_streaming, call.arrived)
    return PreparedRequest(
        method="POST",
        path=f"/{_CHAT}",
        headers={**call.headers, **isolation.headers},
        body=replace_fields(marked.body, fields) if fields else marked.body,
        reader=reader,
        notes=("translated to chat completions", *translated.notes, *marked.notes, *schema_notes),
    )


def _adapt_to_cache(
    call: Call, body: bytes, endpoint: str, route: Route
) -> tuple[TranslatedMarks, CacheIsolation]:
    """The body as the route's cache takes it; what keeps it in its own team's part of that."""
    if call.fields is None:
        return TranslatedMarks(body), CacheIsolation()
    marked = translate_marks(body, route.regime) if endpoint in _MARKED else TranslatedMarks(body)
    return marked, isolate_cache(body, endpoint, route, call.salt)


def _is_usage(event: bytes) -> bool:
    """True if this is the closing chunk: top-level usage, no choices and no error."""
    if _USAGE.search(event) is None or _NO_CHOICES.search(event) is None:
        return False
    try:
        chunks = [
            msgspec.json.decode(chunk_event.data, type=_Chunk)
            for chunk_event in parse_events(event)
        ]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return all(c.choices == [] and c.usage is not None and c.error is None for c in chunks)


class _Chunk(msgspec.Struct):
    choices: list[msgspec.Raw] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
