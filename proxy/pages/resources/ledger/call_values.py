"""Turns the receipts of a call into the details of its page: costs, attempts, prompt, misses."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from dashboards.views.calls import (
    AttemptStory,
    CallStory,
    CostLine,
    MarkPlace,
    SegmentSize,
    SentPrompt,
)
from dashboards.views.code_words import code_words
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route
from proxy.fast_path.attempt_text import fast_path_text
from proxy.pages.board_data import receipt_facts
from proxy.pages.viewing import view_of
from proxy.prefix.explain.reasons import CacheMiss, MissReason, explanation_lines
from proxy.records.receipt import Outcome, Receipt, answering_model, recall_text, total_nanos
from proxy.services.compaction.reason_texts import PASSTHROUGH_TEXTS, reason_text
from slo.price import call_pricing
from slo.usage import Usage

_PHASES: Final = ("queue", "prefill", "decode", "transfer")
#: Facts of a receipt that its story says elsewhere.
_TOLD_FACTS: Final = frozenset(
    {"team", "key_id", "feature", "user", "tags", "endpoint", "model", "route", "upstream",
     "status", "outcome", "error", "upstream_error", "unplanned_why", "compaction_why", "started",
     "final", "streamed", "segments"}
)  # fmt: skip
#: Beginnings of a refusal by a limit.
_LIMITS: Final = ("The budget `", "The ceiling `")
#: The code of an upstream to which no connection was made.
_UNREACHABLE: Final = "upstream_unreachable"


def call_story(
    receipts: Sequence[Receipt], names: Mapping[str, str], catalog: Catalog
) -> CallStory:
    """All that is known of a call.

    Args:
        receipts: Those of its attempts, in order; at least one.
        names: Names of teams by their ids.
        catalog: The catalog in force, for prices.
    """
    first = receipts[0]
    return CallStory(
        call_id=first.call_id,
        team=first.team,
        team_name=names.get(first.team, first.team),
        key=first.key_id,
        feature=first.feature,
        user=first.user,
        tags=dict(first.tags),
        endpoint=first.endpoint,
        requested=first.model,
        cost_nanos=total_nanos(receipt.spent_nanos for receipt in receipts),
        direct_nanos=_direct_nanos(receipts),
        first_failure=_first_failure(receipts),
        fails_directly=_fails_directly(receipts[0]),
        attempts=[_attempt_story(receipt, catalog) for receipt in receipts],
        keeps_prompt=any(receipt.prompt is not None for receipt in receipts),
    )


def _direct_nanos(receipts: Sequence[Receipt]) -> int | None:
    """Estimated cost of a call sent directly; None where a cost is unknown or it was rerouted."""
    if any(receipt.reroute_reason for receipt in receipts):
        return None
    spent = total_nanos(receipt.spent_nanos for receipt in receipts)
    if spent is None:
        return None
    return spent + sum(
        (receipt.planning_nanos or 0)
        + (receipt.compaction_nanos or 0)
        + (receipt.fast_path_nanos or 0)
        for receipt in receipts
    )


def _first_failure(receipts: Sequence[Receipt]) -> str:
    """The words or code by which the first route failed a call that another answered; "" for none.

    A route that was left because it was late would perhaps have answered.
    """
    first, last = receipts[0], receipts[-1]
    has_failed = first.outcome is Outcome.FAILED and not first.reroute_reason
    if not has_failed or last.outcome is not Outcome.ANSWERED or first.route == last.route:
        return ""
    return first.upstream_error or (first.error if first.error == _UNREACHABLE else "")


def _fails_directly(receipt: Receipt) -> bool:
    """True where an attempt failed by a fault of the upstream that its own request has no part in.

    Other failures may be of the gateway's key, its quota or what it sent.
    """
    is_modified = receipt.arm == "treated" or receipt.layout or receipt.compacted
    is_fault = receipt.error == _UNREACHABLE or receipt.upstream_error.startswith("5")
    return is_fault and not is_modified


def _attempt_story(receipt: Receipt, catalog: Catalog) -> AttemptStory:
    phases = [
        (phase, seconds) for phase in _PHASES if (seconds := getattr(receipt, phase)) is not None
    ]
    usage = receipt.usage
    return view_of(
        AttemptStory,
        receipt,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        cache_read_tokens=None if usage is None else usage.cache_read,
        generated_tokens=None if usage is None else usage.generated_tokens,
        number=receipt.attempt,
        is_final=receipt.final,
        model=answering_model(receipt.route, receipt.model),
        outcome=receipt.outcome.value,
        phases=phases,
        cost_lines=cost_lines(receipt, catalog),
        facts=[fact for fact in receipt_facts(receipt) if fact[0] not in _TOLD_FACTS],
        decision=list(_decision(receipt)),
        cache=list(_cache(receipt)),
        compaction=list(_compaction(receipt)),
        prompt=_sent_prompt(receipt),
    )


def _sent_prompt(receipt: Receipt) -> SentPrompt | None:
    """Segments and marks of the prompt; None where its receipt keeps none."""
    prompt = receipt.segments
    if prompt is None:
        return None
    usage, segments, start = receipt.usage, [], 0
    for slot, tokens in prompt.sizes():
        if tokens:
            read, written, new = _billed_tokens(usage, start, start + tokens)
            segments.append(
                SegmentSize(
                    slot=slot, start=start, tokens=tokens, read=read, written=written, new=new
                )
            )
        start += tokens
    return SentPrompt(
        total=start,
        segments=segments,
        marks=[MarkPlace(tokens=mark.tokens, lifetime=mark.lifetime) for mark in prompt.marks],
        read=None if usage is None else usage.cache_read,
        written=None if usage is None else usage.cache_write_tokens,
    )


def _billed_tokens(usage: Usage | None, start: int, end: int) -> tuple[int | None, ...]:
    """Tokens read, written and new between two places of a prompt, which caches take in order."""
    if usage is None:
        return (None, None, None)
    read = max(min(end, usage.cache_read) - start, 0)
    stored = max(min(end, usage.cache_read + usage.cache_write_tokens) - start, 0)
    return (read, stored - read, end - start - stored)


def cost_lines(receipt: Receipt, catalog: Catalog) -> list[CostLine]:
    """The list cost by kind of token, at the catalog's prices of when the call was made.

    A receipt keeps the sum alone. Terms that it does not keep, and prices that changed since, make
    a difference to it, which is a line of its own.
    """
    if receipt.usage is None:
        return []
    tokens = {name: n for name, n in msgspec.structs.asdict(receipt.usage).items() if n}
    route = _route(receipt, catalog)
    tariff = None if route is None else route.tariff
    usage = receipt.usage
    pricing = None if tariff is None else call_pricing(usage, tariff, receipt.started)
    lines = []
    for name, count in tokens.items():
        rate = "output" if name == "reasoning" else name
        price = None if pricing is None else getattr(pricing.rates, rate)
        cost = None if pricing is None else pricing.cost(Usage(**{name: count}))
        nanos = None if cost is None else cost.list_nanos
        lines.append(CostLine(bucket=name, tokens=count, nanos_per_million=price, nanos=nanos))
    rest = (receipt.list_nanos or 0) - sum(line.nanos or 0 for line in lines)
    if receipt.list_nanos is not None and rest:
        lines.append(CostLine(bucket="other", tokens=0, nanos_per_million=None, nanos=rest))
    return lines


def _route(receipt: Receipt, catalog: Catalog) -> Route | None:
    model = catalog.find(answering_model(receipt.route, receipt.model))
    routes = () if model is None else model.routes
    return next((route for route in routes if route.name == receipt.route), None)


def _decision(receipt: Receipt) -> Iterator[str]:
    """Sentences on why this route."""
    if receipt.outcome is Outcome.REFUSED and receipt.error:
        yield f"Nothing was sent: {_refusal_sentence(receipt)}"
    elif not receipt.route:
        yield "The gateway sent it nowhere."
    elif receipt.reroute_reason:
        why = receipt.reroute_reason
        yield f"It went to {receipt.route} instead of the route asked for: {why}."
    else:
        yield f"It went to {receipt.route}, the route of the model asked for."
    if text := fast_path_text(receipt):
        yield text
    notes = (note for note in receipt.notes if note != _refusal_sentence(receipt))
    yield from (f"Note: {note}." for note in notes)


def _refusal_sentence(receipt: Receipt) -> str:
    """The refusal as the caller got it; of one that no receipt keeps, its error."""
    refusals = (note for note in receipt.notes if note.startswith(_LIMITS))
    return next(refusals, f"{code_words(receipt.error)}.")


def _cache(receipt: Receipt) -> Iterator[str]:
    """Sentences on planning, and on what the cache held."""
    if not receipt.conversation:
        reason = PASSTHROUGH_TEXTS.get(receipt.unplanned_why, receipt.unplanned_why)
        why = f": {reason}" if reason else ""
        yield f"It was not planned{why}."
    else:
        layout = f"layout {receipt.layout}" if receipt.layout else "no layout"
        how = "sent unmodified, to compare with" if receipt.arm == "control" else f"with {layout}"
        yield f"Conversation {receipt.conversation}: {how}."
    yield from explanation_lines(_miss(receipt), receipt.expected_read, receipt.usage)


def _miss(receipt: Receipt) -> CacheMiss | None:
    """The miss of a receipt; None where there is none, or its reason is of an older version."""
    if receipt.miss not in set(MissReason):
        return None
    return CacheMiss(
        reason=MissReason(receipt.miss),
        detail=receipt.miss_detail,
        tokens=receipt.miss_tokens or 0,
        nanos=receipt.miss_nanos,
    )


def _compaction(receipt: Receipt) -> Iterator[str]:
    """Sentences on what compaction did."""
    if not receipt.compaction:
        return
    why = f": {reason_text(receipt.compaction_why)}" if receipt.compaction_why else ""
    if receipt.compacted:
        yield (
            f"Compaction ({receipt.compaction}) sent {receipt.tokens_after or 0:,} of"
            f" {receipt.tokens_before or 0:,} tokens{why}."
        )
    else:
        yield f"Compaction ({receipt.compaction}) sent it unmodified{why}."
    if receipt.recalls:
        yield f"The model {recall_text(receipt)} of what was compacted."
    if receipt.reset:
        yield "It was the first call after a compaction, so its prefix moved."
