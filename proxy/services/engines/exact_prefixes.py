"""Exact prefix matches: compares a prompt's tokens with the blocks that its replicas hold."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from proxy.calls.translation.converted_calls import convert_messages
from proxy.catalog.entries import Route
from proxy.engines.routing.decision import RoutingRequest
from proxy.engines.routing.prompt_chain import chain_of_token_ids, chain_root
from proxy.engines.routing.router import ReplicaRouter
from proxy.errors import CallerError
from proxy.providers.cache_isolation import isolate_cache
from proxy.providers.responses.request import chat_body
from proxy.records.call import MESSAGES, Call
from proxy.records.request_fields import raw_field
from proxy.services.engines.kv_event_reader import KvEventReader
from proxy.services.engines.prompt_tokens import MAX_BODY_BYTES, PromptTokenizer
from proxy.services.engines.replica_monitor import ReplicaStatus

_SALT: Final = "cache_salt"
_CHAT: Final = "chat/completions"
#: Calls from this size on are said in chat on a thread: it takes half a millisecond.
_MIN_THREADED_BODY_BYTES: Final = 64 * 1024


class _Typed(msgspec.Struct):
    type: str | None = None


class _ResponsesBody(msgspec.Struct):
    input: str | list[_Typed] | None = None
    tools: list[_Typed] | None = None


_decode_responses: Final = msgspec.json.Decoder(_ResponsesBody).decode


class ExactPrefixes:
    """Adds a prompt's tokens to a question for the router, where events of replicas are read."""

    def __init__(self, reader: KvEventReader, tokenizer: PromptTokenizer) -> None:
        self._reader = reader
        self._tokenizer = tokenizer

    async def add(
        self,
        call: Call,
        route: Route,
        statuses: Sequence[ReplicaStatus],
        request: RoutingRequest,
        router: ReplicaRouter,
    ) -> RoutingRequest:
        """The question with the prompt's tokens; as it is where it has only one answer."""
        indexes = {status.base_url: self._reader.index(status.name) for status in statuses}
        for url, index in indexes.items():
            router.read_events(url, index)
        healthy = [status.base_url for status in statuses if status.is_healthy]
        block = max(
            (index.block_size for index in indexes.values() if index is not None), default=0
        )
        if not block or len(healthy) < 2:
            return request
        chat = await _in_chat(call, route)
        token_bytes = await self._tokenizer.token_bytes(chat, route, healthy[0])
        if token_bytes is None:
            return request
        root = chain_root(route.model or call.model, _salt(chat, route))
        return replace(request, token_chain=chain_of_token_ids(root, token_bytes, block))


async def _in_chat(call: Call, route: Route) -> Call:
    """The chat call whose prompt has the same tokens at the engine; the call itself for none."""
    in_chat = _IN_CHAT.get(call.endpoint)
    if in_chat is None or len(call.body) > MAX_BODY_BYTES:
        return call
    try:
        if len(call.body) < _MIN_THREADED_BODY_BYTES:
            return in_chat(call, route)
        return await asyncio.to_thread(in_chat, call, route)
    except (CallerError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return call  # the attempt says what is wrong with it


def _messages_in_chat(call: Call, route: Route) -> Call:
    translated = convert_messages(call, route)
    return call if translated is None else translated.call


def _responses_in_chat(call: Call, route: Route) -> Call:
    """The call in chat, as vLLM itself lays out its items, tools and instructions.

    It puts reasoning of earlier turns into the prompt, and knows tools of free text there: chat has
    neither.

    Source: vLLM 0.32.0, /v1/responses/render beside /tokenize.
    """
    request = _decode_responses(call.body)
    items = request.input if isinstance(request.input, list) else []
    has_reasoning = any(item.type == "reasoning" for item in items)
    if has_reasoning or any(tool.type != "function" for tool in request.tools or ()):
        return call
    body = chat_body(call.body).body
    return msgspec.structs.replace(call, endpoint=_CHAT, body=body)


_IN_CHAT: Final[Mapping[str, Callable[[Call, Route], Call]]] = {
    MESSAGES: _messages_in_chat,
    "responses": _responses_in_chat,
}


def _salt(call: Call, route: Route) -> str:
    """The salt that the engine gets with the call; "" for none."""
    fields = isolate_cache(call.body, call.endpoint, route, call.salt).fields
    raw = fields.get(_SALT) or raw_field(call.body, _SALT)
    try:
        salt = msgspec.json.decode(raw) if raw else ""
    except msgspec.DecodeError:
        return ""
    return salt if isinstance(salt, str) else ""
