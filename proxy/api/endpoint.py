"""The ASGI entry point: calls go straight to the pipeline, everything else to the FastAPI app.

FastAPI's routing, body models and middleware cost more than all of our own work on a call, so calls
bypass them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.api.azure import of_deployment
from proxy.api.call_reading import build_call, check_media, parse_fields, with_tags
from proxy.api.connections.body_limits import BodyMemoryLimit, BodyReservation
from proxy.api.connections.calls_under_way import CallsUnderWay, CallUnderWay, call_ended_error
from proxy.api.isolation import check_isolated
from proxy.api.key_limits import check_model_allowed, expired_error
from proxy.api.messages_api import speaks_messages
from proxy.api.passthrough import Relay, internal_error
from proxy.api.prefill import (
    PREFILL,
    PrefillRequests,
    call_of_prompt,
    engine_dependencies,
    superseded_error,
    until_gone_or_superseded,
)
from proxy.api.prefill_replicas import ReplicaOccupancy, put_calls_first
from proxy.api.refused_keys import RefusedKeyLog, unauthenticated_error
from proxy.api.request import (
    RequestHead,
    json_limit,
    read_body,
    read_head,
    request_token,
)
from proxy.api.request_path import OTHER_SPELLINGS, with_usual_path
from proxy.api.token_counting import COUNT_TOKENS, LocalTokenCounts
from proxy.calls.attempts.failed_attempts import record_refusal
from proxy.calls.deadlines import AwaitedEvent, CallWatchdog, ClientDisconnected, WatchdogTimer
from proxy.calls.pipeline import serve
from proxy.calls.ports import CallContext, Dependencies
from proxy.calls.translation.warming_call import warming_call
from proxy.errors import ProxyError, Unready
from proxy.fast_path.context_references import may_hold_references
from proxy.providers.cache_isolation import add_cache_salt
from proxy.records.body_reader import BodyReader
from proxy.records.call import Call, Key
from proxy.records.timeline import Timeline

_log = logging.getLogger("thriftgate.api")

#: Below /v1/, what the gateway answers itself.
_GATEWAY_PATHS: Final = ("/v1/models", "/v1/thriftgate/")
_MODEL: Final = "/v1/models/"
_STOPPING: Final = "The gateway is stopping. Try again."
#: Seconds a caller has to send its body.
_BODY_TIMEOUT_S: Final = 120.0


class ApiKeyLookup(Protocol):
    """Looks up who may call."""

    @property
    def teams(self) -> int:
        """The number of teams that have a key."""
        ...

    def find(self, token: str) -> Key | None:
        """The key, if it is in memory."""
        ...

    async def fetch(self, token: str) -> Key | None:
        """The key, read from the database if it is not in memory."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDependencies:
    """Everything the endpoint needs to admit a call.

    Attributes:
        capacity_trouble: Returns the reason that no call can be taken; "" if one can.
        call_id: Makes the id of a call that arrives at this time.
        body_memory: Memory that the bodies of calls may take.
        max_calls: Calls in flight at once.
        shared_state: True if teams may share what a provider keeps under its account.
        under_way: The calls in flight, which their keys may end.
    """

    keys: ApiKeyLookup
    capacity_trouble: Callable[[], str]
    now: Callable[[], float]
    ticks: Callable[[], float]
    call_id: Callable[[float], str]
    body_memory: BodyMemoryLimit
    max_calls: int
    shared_state: bool
    under_way: CallsUnderWay = field(default_factory=CallsUnderWay)


class Endpoint:
    """The gateway as one ASGI app."""

    def __init__(self, pages: ASGIApp, deps: Dependencies, admission: EndpointDependencies) -> None:
        self._pages = pages
        self._occupancy = ReplicaOccupancy(admission.ticks)
        self._deps = put_calls_first(deps, self._occupancy)
        self._admission = admission
        self._refused_keys = RefusedKeyLog(admission.ticks)
        self._prefills = PrefillRequests(admission.ticks)
        self._token_counts = LocalTokenCounts()
        self._bodies = BodyReader()
        self._watchdog_timer = WatchdogTimer(deps.tasks.start)

    def update(self, deps: Dependencies) -> None:
        """Use these dependencies for calls that arrive from now on; calls under way keep theirs."""
        self._deps = put_calls_first(deps, self._occupancy)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one request."""
        path = scope.get("path", "")
        if (path.startswith(OTHER_SPELLINGS) or "//" in path) and scope["type"] == "http":
            scope = with_usual_path(scope)
            path = scope["path"]
        if scope["type"] != "http" or not path.startswith("/v1/"):
            return self._pages(scope, receive, send)
        if path.startswith(_GATEWAY_PATHS) and path != f"/v1/{PREFILL}":
            return self._answer_page(scope, receive, send)
        return self._answer(scope, receive, send)

    async def _answer_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request below a path of the gateway's own, which may be for an upstream."""
        is_call = await self._is_of_upstream(scope)
        await (self._answer if is_call else self._pages)(scope, receive, send)

    async def _is_of_upstream(self, scope: Scope) -> bool:
        """True if a model is to be deleted, or to be shown that only an upstream may know."""
        path: str = scope["path"]
        name = path.removeprefix(_MODEL)
        if name == path or not name:
            return False
        catalog = self._deps.catalog
        if catalog.team_aliases and (token := request_token(scope)):
            key = None
            with suppress(Unready):  # the answering code refuses the call for it
                key = self._admission.keys.find(token) or await self._admission.keys.fetch(token)
            catalog = catalog.for_team(key.team_name if key is not None else "")
        is_unlisted = catalog.find(name) is None and catalog.unlisted_model(name) is not None
        return scope["method"] == "DELETE" or (scope["method"] == "GET" and is_unlisted)

    def _new_call_id(self, scope: Scope, arrived: float) -> str:
        """The id of a call that arrived, which tracing follows from here where it is on."""
        call_id = self._admission.call_id(arrived)
        if (tracing := self._deps.tracing) is not None:
            tracing.begin(call_id, scope["headers"])
        return call_id

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        timeline = Timeline(self._admission.ticks)
        arrived = self._admission.now()
        call_id = self._new_call_id(scope, arrived)
        relay = Relay(call_id, receive, send, timeline, speaks_messages=speaks_messages(scope))
        under_way = self._admission.under_way.track(call_id)
        try:
            with (
                CallWatchdog(self._watchdog_timer) as watchdog,
                self._admission.body_memory.reserve() as reservation,
                under_way,
            ):
                head = self._admit(scope, relay)
                key = self._check_key(
                    self._admission.keys.find(head.token)
                    or await self._admission.keys.fetch(head.token),
                    scope,
                    arrived,
                )
                under_way.watch(watchdog, key.id)
                watchdog.set_deadline(AwaitedEvent.BODY, _BODY_TIMEOUT_S)
                with timeline.waiting:
                    sent = await read_body(
                        receive, head.length, reservation, json_limit=json_limit(head)
                    )
                watchdog.watch_caller(relay.wait_until_gone)
                call = build_call(call_id, key, head, sent, arrived, self._deps.pseudonymizer)
                if self._has_references(sent):
                    call = await self._resolve_contexts(call, reservation, timeline)
                await self._serve(call, head, relay, watchdog, timeline)
        except ClientDisconnected:
            await _tell_ended(under_way, relay, scope)
        except asyncio.CancelledError:  # The process stops, and this task ends here anyway.
            await _tell_stopping(relay)
        except ProxyError as error:
            # Its frames have it, and the body: a cycle that would wait for the collector.
            await relay.refuse(error.with_traceback(None))
        except Exception:
            _log.exception("Bug in the gateway on call %s; traceback follows", call_id)
            if relay.is_begun:
                raise
            await relay.refuse(internal_error(call_id))

    def _has_references(self, sent: bytes) -> bool:
        """True if a body may name texts, where a policy lets a team do so."""
        contexts = self._deps.contexts
        return contexts is not None and contexts.is_enabled and may_hold_references(sent)

    async def _resolve_contexts(
        self, call: Call, reservation: BodyReservation, timeline: Timeline
    ) -> Call:
        """The call with texts in place of its references, and a receipt if that is refused."""
        if self._deps.contexts is None:
            return call
        try:
            with timeline.waiting:
                return await self._deps.contexts.resolve(call, reservation.grow_to)
        except ProxyError as refusal:
            record_refusal(call, refusal, self._deps, timeline)
            raise

    async def _serve(
        self,
        call: Call,
        head: RequestHead,
        relay: Relay,
        watchdog: CallWatchdog,
        timeline: Timeline,
    ) -> None:
        if head.endpoint == PREFILL:
            await self._warm(call, head, relay, watchdog, timeline)
        else:
            read = self._parse(call, head, timeline)
            deps = self._deps.for_call(read)
            if read.endpoint != COUNT_TOKENS or not await self._token_counts.answer(
                read, relay, deps, timeline
            ):
                await serve(CallContext(read, relay, deps, watchdog, timeline))

    async def _warm(
        self,
        call: Call,
        head: RequestHead,
        relay: Relay,
        watchdog: CallWatchdog,
        timeline: Timeline,
    ) -> None:
        """Warm a prompt, until a newer one of its conversation comes."""
        prompt_call = call_of_prompt(call)
        head = msgspec.structs.replace(head, endpoint=prompt_call.endpoint)
        read = warming_call(self._parse(prompt_call, head, timeline))
        deps = engine_dependencies(self._deps.for_call(read), read.model)
        with self._prefills.admit(read) as superseded:
            deps = put_calls_first(deps, self._occupancy, superseded)
            watchdog.watch_caller(until_gone_or_superseded(relay.wait_until_gone, superseded))
            watchdog.check()  # it listens from now on, not from its next round on
            try:
                await serve(CallContext(read, relay, deps, watchdog, timeline))
            except ClientDisconnected:
                if not superseded.is_set():
                    raise
                await relay.refuse(superseded_error())

    def _admit(self, scope: Scope, relay: Relay) -> RequestHead:
        """The head of a call that is let in: the gateway can take it, and a key came with it."""
        head = read_head(scope)
        relay.wants_trailer = head.wants_trailer
        if self._admission.body_memory.calls > self._admission.max_calls:
            raise Unready(
                "The gateway has as many calls in flight as it takes. Try again shortly.",
                code="too_many_calls",
                retry_after=1.0,
            )
        if trouble := self._admission.capacity_trouble():
            raise Unready(trouble, code="ledger_unavailable", retry_after=5.0)
        if not head.token:
            raise self._refused_keys.refuse(scope, unauthenticated_error(""))
        return head

    def _check_key(self, key: Key | None, scope: Scope, arrived: float) -> Key:
        """The key that came with the call, if it opens anything."""
        if key is None or key.revoked:
            raise self._refused_keys.refuse(scope, unauthenticated_error(request_token(scope)))
        if key.has_expired(arrived):
            raise self._refused_keys.refuse(scope, expired_error(key))
        return key

    def _parse(self, call: Call, head: RequestHead, timeline: Timeline) -> Call:
        """The call with its body read, and a receipt for it if it is refused."""
        try:
            check_media(head)
            call = of_deployment(call, head.deployment) if head.deployment else call
            call = parse_fields(call, head, self._bodies)
            if self._deps.tags:
                call = with_tags(call, head, self._deps.tags)
            if call.key.models is not None:
                check_model_allowed(call, self._deps.for_call(call).catalog)
            if not self._admission.shared_state:
                teams = self._admission.keys.teams
                check_isolated(call, teams)
                call = add_cache_salt(call, teams, self._deps.pseudonymizer)
        except ProxyError as refusal:
            record_refusal(call, refusal, self._deps, timeline)
            raise
        return call


async def _tell_ended(under_way: CallUnderWay, relay: Relay, scope: Scope) -> None:
    """Tell the caller of a call that its key ended; nobody where the caller left."""
    if under_way.is_ended:
        await relay.end_call(scope["path"], call_ended_error())


async def _tell_stopping(relay: Relay) -> None:
    """Refuse a call because the gateway stops, unless its answer has begun."""
    if not relay.is_begun:
        await relay.refuse(Unready(_STOPPING, code="gateway_stopping", retry_after=1.0))
