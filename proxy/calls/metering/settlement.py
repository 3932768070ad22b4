"""An attempt, its outcome and its cost; pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from proxy.calls.eligibility.request_traits import request_traits
from proxy.calls.metering.recall_tally import RecallTally
from proxy.calls.metering.replica_costs import ReplicaUse
from proxy.calls.translation.converted_calls import ConvertedCall
from proxy.catalog.entries import Route
from proxy.errors import ProxyError, UpstreamError
from proxy.prefix.explain.reasons import CacheMiss
from proxy.prefix.planned import Passthrough, Planned
from proxy.providers.answers.engine_timings import EngineTimings
from proxy.providers.failures import redact
from proxy.providers.kinds import WIRES
from proxy.records.call import Call
from proxy.records.compaction_result import (
    NO_COMPACTION,
    CompactionResult,
)
from proxy.records.receipt import Outcome, ServedBy
from proxy.records.timeline import Timeline
from proxy.tokens.text_size import text_tokens
from slo.budgets.counter import MAX_AMOUNT
from slo.price import STANDARD_TERMS, BillingTerms, CallCost, call_cost
from slo.replica_cost import CostShare
from slo.usage import Usage

_NO_COST = CallCost(0, 0)
#: Characters that a receipt keeps of an upstream's words on its failure.
_MAX_ERROR_CHARS = 400


class AttemptInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One try at one route; ``route`` is None for a call refused before one was chosen.

    ``compaction`` is its result; ``headers`` tell the caller what its limits leave it;
    ``reroute_reason`` says why it is not the route that was asked for, "" where it is;
    ``upstream_request_id`` is the provider's own name of the request, "" until it answered;
    ``sent_at`` is the timeline's clock when it was sent, None before that; ``replica_use`` is its
    use of a replica that is paid by the hour, ``replica`` the chosen one and why, "" for none;
    ``translated`` is the call in the API of the route's upstream, None where that is the caller's;
    ``recall`` counts rounds of recall; ``continued`` is the call with the answer's beginning;
    ``instead_of`` is the route of the model asked for, in whose place a small model's is taken.
    """

    call: Call
    route: Route | None = None
    number: int = 0
    notes: tuple[str, ...] = ()
    planned: Planned | Passthrough = Passthrough()
    compaction: CompactionResult = NO_COMPACTION
    headers: Mapping[str, str] = {}
    reroute_reason: str = ""
    upstream_request_id: str = ""
    sent_at: float | None = None
    replica_use: ReplicaUse | None = None
    replica: str = ""
    translated: ConvertedCall | None = None
    recall: RecallTally | None = None
    continued: Call | None = None
    served_by: ServedBy = ServedBy.NOBODY
    instead_of: Route | None = None

    @property
    def asked_call(self) -> Call:
        """The call with all of its prompt, in the API that the route takes it in."""
        return self.call if self.translated is None else self.translated.call

    @property
    def sent_call(self) -> Call:
        """The call as it is sent, shorter where it was compacted."""
        if self.continued is not None:
            return self.continued
        call = self.call if self.translated is None else self.translated.call
        return call if self.compaction is NO_COMPACTION else self.compaction.call(call)


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an attempt.

    Attributes:
        usage: Tokens used; None where none were, or unknown.
        estimated: True if we counted them ourselves.
        terms: On what terms the attempt was served, as far as they change its price.
        final: True if the call ended with it.
        miss: Reason for a smaller cache read than possible; None where unknown.
        timings: The report of a self-hosted engine; None where there is none, or no end.
        share: Its share of a replica that is paid by the hour; None of any other upstream.
        upstream_error: The upstream's own words on its failure, as `upstream_words` has them.
    """

    outcome: Outcome
    status: int
    error: str = ""
    usage: Usage | None = None
    estimated: bool = False
    upstream_id: str = ""
    terms: BillingTerms = STANDARD_TERMS
    final: bool = True
    miss: CacheMiss | None = None
    timings: EngineTimings | None = None
    share: CostShare | None = None
    upstream_error: str = ""


def upstream_words(reason: ProxyError | None, call: Call) -> str:
    """The words of an upstream or the system on a failure, without secrets; "" where none came.

    A message that may quote the call is left out, unless its team keeps prompts.
    """
    if not isinstance(reason, UpstreamError):
        return ""
    words = reason.detail
    if not call.key.keeps_prompts:
        words = reason.detail_without_message or words
    return redact(words)[:_MAX_ERROR_CHARS]


def attempt_cost(attempt: AttemptInfo, end: AttemptOutcome) -> CallCost | None:
    """The attempt's cost at the prices valid when the call was made; None if unknown or absurd.

    What only reads or deletes (all but POST) costs nothing anywhere. Without a price per token, it
    is the share of a replica that is paid by the hour.
    """
    if attempt.call.method != "POST":
        return _NO_COST
    if attempt.route is None:
        return None
    if attempt.route.tariff is None and end.share is not None:
        nanos = end.share.nanos
        return None if nanos is None else CallCost(nanos, nanos)
    if attempt.route.tariff is None or end.usage is None:
        return None
    cost = call_cost(end.usage, attempt.route.tariff, attempt.call.arrived, end.terms)
    return cost if cost is None or cost.list_nanos <= MAX_AMOUNT else None


def settle_share(
    attempt: AttemptInfo,
    timeline: Timeline,
    usage: Usage | None,
    timings: EngineTimings | None,
) -> CostShare | None:
    """The share of its replica that an attempt pays, now that it ended; None where it pays none."""
    use = attempt.replica_use
    return None if use is None else use.settle(timeline, attempt.sent_at, usage, timings)


def billing_terms(attempt: AttemptInfo, tier: str, usage: Mapping[str, Any]) -> BillingTerms:
    """The billing terms of an attempt, by the answer, else by the request.

    Args:
        tier: The answer's own service tier; "" where it names none.
        usage: The answer's usage object; empty where there was none.
    """
    call, route = attempt.call, attempt.route
    if route is None:
        return STANDARD_TERMS
    requested_tier = (call.fields.service_tier if call.fields is not None else None) or ""
    return WIRES[route.upstream.kind].terms(requested_tier, tier, usage, route.upstream.region)


def likely_prompt_tokens(call: Call) -> int:
    """Tokens of the call's prompt by its length alone, without images and files."""
    return text_tokens(call.body, has_parts=request_traits(call).vision)


def estimate_from_length(call: Call, delivered: str, route: Route | None = None) -> Usage:
    """Estimate usage from lengths alone, without waiting: four letters are about a token.

    Args:
        route: Route of the call: no prompt is longer than its window.
    """
    tokens = likely_prompt_tokens(call)
    if route is not None and route.window is not None:
        tokens = min(tokens, route.window)
    output = text_tokens(delivered.encode(errors="replace"), has_parts=False)
    return Usage(input=tokens, output=output)
