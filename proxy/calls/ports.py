"""The ports of the pipeline: everything that answering a call needs from outside."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from proxy.calls.answer_cache_port import AnswerCachePort
from proxy.calls.deadlines import CallWatchdog, NoWatchdog
from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.replica_costs import ReplicaCosts
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.route_choice import RouteChoice, RoutingDecision
from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route
from proxy.prefix.explain.reasons import CacheMiss, ProviderReason
from proxy.prefix.planned import Passthrough, Planned
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call
from proxy.records.compaction_result import CompactionResult
from proxy.records.receipt import PendingAttempt, Receipt
from proxy.records.timeline import Timeline
from proxy.upstream.port import Transport
from slo.objectives.latency_target import LatencyTarget
from slo.policies.drafts import DraftRule
from slo.policies.reports import TagRule
from slo.policies.residency import Residency
from slo.policies.stream_continuation import StreamContinuation
from slo.usage import Usage


class Head(msgspec.Struct, frozen=True):
    """The status and headers of an answer, as its upstream gave them.

    Attributes:
        headers: All of the upstream's, and those that the gateway adds.
        model: The public name of the model that answered; "" where the call names none.
        notes: Changes and omissions of the gateway, in short sentences.
    """

    status: int
    headers: Mapping[str, str]
    model: str
    notes: tuple[str, ...]


class Caller(Protocol):
    """The caller's side of a call."""

    def begin(self, head: Head) -> Awaitable[None]:
        """Send the head of an answer that follows in pieces."""
        ...

    def send(self, piece: bytes) -> Awaitable[None]:
        """Send a piece; waits while the caller is slow."""
        ...

    def end(self, piece: bytes) -> Awaitable[None]:
        """Send the last piece, which may be empty."""
        ...

    async def send_whole(self, head: Head, body: bytes, receipt: Receipt) -> None:
        """Send an answer that is complete, with what it used and cost in its head."""
        ...

    def closing_event(self, receipt: Receipt) -> bytes:
        """The event that ends a stream with its cost; b"" where the caller did not ask."""
        ...

    def note_attempt(self, receipt: Receipt) -> None:
        """Note another attempt of the call, whose cost is part of the call's."""
        ...

    async def wait_until_gone(self) -> None:
        """Return once the caller has left."""
        ...


class ReceiptSink(Protocol):
    """Takes receipts."""

    def keep(self, receipt: Receipt) -> None:
        """Keep the receipt; once this returns, the process may die and it is not lost."""
        ...


class SentAttemptSink(Protocol):
    """Takes notes of attempts under way, which outlive a kill of the process."""

    def begin(self, pending: PendingAttempt) -> None:
        """Note an attempt that is sent now, until its receipt is kept."""
        ...


class Estimator(Protocol):
    """Counts what an upstream did not."""

    async def usage(self, call: Call, route: Route, meter: Meter | None) -> Usage:
        """Tokens of the prompt and of what was delivered, counted off the event loop."""
        ...

    def learn(self, call: Call, route: Route, usage: Usage) -> None:
        """Note how the provider's count compares with ours, some other time."""
        ...

    def usual_output(self, call: Call, route: Route) -> int | None:
        """Output tokens that 19 of 20 such answers stay below; None where little is learned."""
        ...

    def average_output(self, call: Call, route: Route) -> int | None:
        """Output tokens that such answers have on average; None where little is learned."""
        ...


class PlanningPort(Protocol):
    """Puts prompts into the form that caches read most of."""

    async def plan(self, call: Call, route: Route) -> Planned | Passthrough:
        """The prompt for this route, or the reason that it is sent unmodified; never raises."""
        ...

    def note_answer_started(self, planned: Planned | Passthrough) -> None:
        """Note that the answer begins: other calls may read what this one wrote."""
        ...

    def note_attempt_ended(self, planned: Planned | Passthrough) -> None:
        """Note that the attempt is over, however it ended; called once for each planned call."""
        ...

    def note_refusal(self, planned: Planned) -> None:
        """Note that an upstream refused a planned prompt, and accepted it unmodified."""
        ...

    async def wait_until_stored(self, planned: Planned | Passthrough) -> None:
        """Wait until what was decided for the call's conversation is kept, not for long."""
        ...

    def settle(
        self, planned: Planned | Passthrough, usage: Usage | None, reason: ProviderReason | None
    ) -> CacheMiss | None:
        """Learn from the call's usage; returns its cache miss, if there is one, and why."""
        ...


class CompactionPort(Protocol):
    """Shortens long conversations."""

    def has_part(self, call: Call) -> bool:
        """True if it may have to do with the call: the call or its feature asks, or did lately."""
        ...

    async def compact(self, call: Call, route: Route) -> CompactionResult:
        """The prompt for this route, or the reason that it is sent unmodified; never raises."""
        ...

    async def track_unmodified(self, call: Call, result: CompactionResult) -> CompactionResult:
        """The result of a call that is sent unmodified; notes it where the one before was not."""
        ...

    def record_refusal(self, call: Call, result: CompactionResult) -> None:
        """Note that an upstream refused a compacted call, and accepted it unmodified."""
        ...


class Admitted(msgspec.Struct, frozen=True):
    """An attempt that may go.

    Attributes:
        prepared: Its request, with less to generate where a ceiling asks for that.
        headers: Response headers with the caller's limits.
        notes: Changes made, in short sentences.
    """

    prepared: PreparedRequest
    headers: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()


class CheaperRoute(msgspec.Struct, frozen=True):
    """A model on which a call fits that is too expensive for this one.

    Attributes:
        model: Its public name.
    """

    model: str
    why: str


class SpendingLimits(Protocol):
    """Holds of every budget what an attempt may use of it, and keeps calls below their ceilings."""

    async def admit(
        self, attempt: AttemptInfo, prepared: PreparedRequest, fits: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        """Reserve what the attempt may use, or return the route on which it fits.

        Args:
            fits: Returns True if a model of the catalog can answer the call.

        Raises:
            CallerError: It does not fit.
            Unready: It is unknown whether it fits.
        """
        ...

    async def admit_free(self, attempt: AttemptInfo) -> Mapping[str, str]:
        """Reserve one request of a call that uses nothing else; returns headers for its answer.

        Raises:
            CallerError: It does not fit.
            Unready: It is unknown whether it fits.
        """
        ...


class TracingPort(Protocol):
    """Follows calls in the traces that they are part of."""

    def begin(self, call_id: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Take the trace that a request's headers name, or begin one."""
        ...

    def propagate(self, attempt: AttemptInfo, prepared: PreparedRequest) -> PreparedRequest:
        """The request of an attempt that is sent now, with its place in the trace."""
        ...


class ContextsPort(Protocol):
    """Puts stored texts and fetched pages in place of the references in calls."""

    @property
    def is_enabled(self) -> bool:
        """True if any team may name texts or pages."""
        ...

    async def resolve(self, call: Call, reserve: Callable[[int], None]) -> Call:
        """The call with texts in place of its references; the same where it has none.

        Args:
            reserve: Reserves memory for a body of so many bytes; raises where there is none.

        Raises:
            CallerError: If a reference cannot be resolved.
            Unready: If the texts cannot be read just now.
        """
        ...


class SmallFirstPort(Protocol):
    """Sends calls to a small model first, as far as the loss by it is proved small."""

    def decide(self, call: Call, decision: RoutingDecision) -> RoutingDecision:
        """The routes of a call, those of a small model before the others where it is to answer."""
        ...

    def note_answer(self, call: Call, meter: Meter) -> None:
        """Note that a call is answered: its answer may be compared in the background."""
        ...


class RoutingPort(Protocol):
    """Moves calls to other routes while objectives are missed."""

    def decide(self, call: Call, requested: tuple[RouteChoice, ...]) -> RoutingDecision:
        """The routes a call takes.

        Raises:
            ProxyError: It is not to be sent anywhere just now.
        """
        ...


class ReplicaOrder(msgspec.Struct, frozen=True):
    """The replicas of an engine for one call.

    Attributes:
        ready: Those that can serve it, in the order in which to try them.
        unready: Those that cannot just now; they are tried after every other route.
    """

    ready: tuple[RouteChoice, ...]
    unready: tuple[RouteChoice, ...] = ()


class ReplicaPort(Protocol):
    """Sends each call to the replica of an engine that has its prefix and time for it."""

    async def order(self, call: Call, choices: tuple[RouteChoice, ...]) -> ReplicaOrder:
        """The order of a model's replicas; never raises.

        Args:
            choices: Replicas that serve one model, at least one.
        """
        ...


class BackgroundTaskGroup(Protocol):
    """The group of background tasks that shutdown waits for."""

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Start a task in the group."""
        ...

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Start an endless task: where it fails, it begins again after a rest."""
        ...

    def end(self, *tasks: asyncio.Task[None]) -> None:
        """Cancel tasks of the group until they have ended; returns at once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Everything that answering calls needs from outside; one for the process."""

    catalog: Catalog
    transport: Transport
    ledger: ReceiptSink
    estimator: Estimator
    planning: PlanningPort
    pseudonymizer: Pseudonymizer
    retry_policy: RetryPolicy
    tasks: BackgroundTaskGroup
    route_health: RouteHealthRegistry = field(default_factory=RouteHealthRegistry)
    limits: SpendingLimits | None = None
    router: RoutingPort | None = None
    compaction: CompactionPort | None = None
    replica_costs: ReplicaCosts = field(default_factory=ReplicaCosts)
    replicas: ReplicaPort | None = None
    latency_target: Callable[[Call], LatencyTarget | None] | None = None
    residency: tuple[Residency, ...] = ()
    stream_continuation: tuple[StreamContinuation, ...] = ()
    tracing: TracingPort | None = None
    sent: SentAttemptSink | None = None
    contexts: ContextsPort | None = None
    answers: AnswerCachePort | None = None
    small_first: SmallFirstPort | None = None
    drafts: tuple[DraftRule, ...] = ()
    tags: tuple[TagRule, ...] = ()

    def for_call(self, call: Call) -> "Dependencies":
        """The same with the model aliases of the call's team; as they are for a model in a path.

        What a path names is retrieved or deleted at its provider, so no alias stands for it.
        """
        if not self.catalog.team_aliases or call.path_model:
            return self
        catalog = self.catalog.for_team(call.key.team_name)
        return self if catalog is self.catalog else replace(self, catalog=catalog)


class CallContext(msgspec.Struct, frozen=True):
    """The context of one call: its request, caller, dependencies, watchdog and timeline."""

    call: Call
    caller: Caller
    deps: Dependencies
    watchdog: CallWatchdog | NoWatchdog
    timeline: Timeline
