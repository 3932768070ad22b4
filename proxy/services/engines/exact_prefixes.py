"""Exact prefixes: a prompt in its engine's tokens beside what replicas say that they hold."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from proxy.calls.messages_on_chat import chat_translation
from proxy.catalog.entries import Route
from proxy.engines.routing.decision import RoutingRequest
from proxy.engines.routing.prompt_chain import chain_of_token_ids, chain_root
from proxy.engines.routing.router import ReplicaRouter
from proxy.errors import CallerError
from proxy.providers.cache_isolation import isolate_cache
from proxy.records.call import MESSAGES, Call
from proxy.records.request_fields import raw_field
from proxy.services.engines.kv_event_reader import KvEventReader
from proxy.services.engines.prompt_tokens import MAX_BODY_BYTES, PromptTokenizer
from proxy.services.engines.replica_monitor import ReplicaStatus

_SALT: Final = "cache_salt"
#: Messages calls from this size on are said in chat on a thread: it takes half a millisecond.
_MIN_THREADED_BODY_BYTES: Final = 64 * 1024


class ExactPrefixes:
    """Adds a prompt's tokens to a question for the router, where events of replicas are read.

    Args:
        reader: Reads the events.
        tokenizer: Knows the tokens of prompts.
    """

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
        indexes = {each.base_url: self._reader.index(each.name) for each in statuses}
        for url, index in indexes.items():
            router.read_events(url, index)
        healthy = [each.base_url for each in statuses if each.is_healthy]
        block = max((each.block_size for each in indexes.values() if each is not None), default=0)
        if not block or len(healthy) < 2:
            return request
        sent = await _as_sent(call, route)
        found = await self._tokenizer.token_bytes(sent, route, healthy[0])
        if found is None:
            return request
        root = chain_root(route.model or call.model, _salt(sent, route))
        return replace(request, token_chain=chain_of_token_ids(root, found, block))


async def _as_sent(call: Call, route: Route) -> Call:
    """The call in the API in which its engine gets it; as it is where it cannot be said in that."""
    if call.endpoint != MESSAGES or len(call.body) > MAX_BODY_BYTES:
        return call
    try:
        if len(call.body) < _MIN_THREADED_BODY_BYTES:
            translated = chat_translation(call, route)
        else:
            translated = await asyncio.to_thread(chat_translation, call, route)
    except CallerError:
        return call  # the attempt says what is wrong with it
    return call if translated is None else translated.call


def _salt(call: Call, route: Route) -> str:
    """The salt that the engine gets with the call; "" for none."""
    fields = isolate_cache(call.body, call.endpoint, route, call.salt).fields
    raw = fields.get(_SALT) or raw_field(call.body, _SALT)
    try:
        found = msgspec.json.decode(raw) if raw else ""
    except msgspec.DecodeError:
        return ""
    return found if isinstance(found, str) else ""
