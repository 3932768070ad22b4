"""``thriftgate explain CALL_ID``: one call's story."""

import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from compaction.policy import CompactionMode
from proxy.cli.storage_checks import SIMULATED_FOLDER, is_simulated
from proxy.cli.terminal import Terminal, feature_name, format_time
from proxy.fast_path.attempt_text import fast_path_text
from proxy.prefix.explain.reasons import CacheMiss, MissReason, explanation_lines
from proxy.records.amounts import money, quantity
from proxy.records.receipt import (
    DRAFT_ENDED,
    Outcome,
    PhasesFrom,
    Receipt,
    ServedBy,
    dollars,
    recall_text,
)

if TYPE_CHECKING:  # it takes longer to import than the command takes to run
    from proxy.store.store import Store

#: By its text: the ledger may hold one of another version.
_REASONS: Final = {reason.value: reason for reason in MissReason}
#: Endings of an upstream's part in an attempt.
_OUTCOMES: Final = {
    Outcome.ANSWERED: "answered it",
    Outcome.FAILED: "failed",
    Outcome.BROKEN: "broke off its answer",
}
_PHASES: Final = ("gateway", "queue", "prefill", "decode", "transfer")
#: With which a provider's own compaction was asked for.
_PROVIDER_ASKED: Final = "asked"
_TRIMMED_TEXT: Final = "Trimmed, tool results alone and without loss"
_RESULTS_ALONE_TEXT: Final = "Trimmed, tool results alone"
#: Of receipts that are older than the count of compacted messages.
_SHORTER_TEXT: Final = "Sent shorter, compacted earlier or tool results alone"


def explain(terminal: Terminal) -> Callable[..., None]:
    """The command."""

    def explain_command(
        call_id: Annotated[str, typer.Argument(help="The call's id, call_….")],
    ) -> None:
        """Explain one call: cost, what its cache gave and could have given, and why not more."""
        with terminal.store() as store:
            names = terminal.names(store)
            receipts = store.ledger.attempts(call_id)
            if not receipts:
                terminal.fail(_unknown_call_text(call_id, store))
        for receipt in receipts:
            terminal.say(*attempt_lines(receipt, names.get(receipt.team, receipt.team)))

    return explain_command


def _unknown_call_text(call_id: str, store: "Store") -> str:
    """The ledger that lacks a call, and where it may be instead."""
    simulated = store.journal.folder.parent / SIMULATED_FOLDER
    elsewhere = (
        " `thriftgate serve --simulated` keeps its calls apart; for one of them run"
        f" THRIFTGATE_DATABASE_URL= THRIFTGATE_FOLDER={simulated} thriftgate explain {call_id}."
        if is_simulated(simulated)
        else " THRIFTGATE_FOLDER or THRIFTGATE_DATABASE_URL names the ledger of the gateway that"
        " took it."
    )
    return f"There is no call with the id {call_id} in the ledger {store.address}.{elsewhere}"


def attempt_lines(receipt: Receipt, team: str) -> Iterator[str]:
    """One attempt in lines."""
    yield (
        f"{_attempt_name(receipt)} of {receipt.call_id}, {format_time(receipt.started)}:"
        f" team {team}, feature {feature_name(receipt.feature)},"
        f" {receipt.model or receipt.endpoint}."
    )
    if receipt.served_by is ServedBy.CACHE:
        yield fast_path_text(receipt)
    else:
        yield from _sent_lines(receipt)
    if receipt.segments is not None:
        yield from receipt.segments.lines()
    yield from _compaction_lines(receipt)
    yield from _time_lines(receipt)
    yield from _cache_lines(receipt)
    if receipt.miss == MissReason.DIVERGED.value:
        words = shlex.join(("thriftgate", "layout", "show", team, receipt.feature))
        yield f"What is proposed for the feature: `{words}`."
    for note in receipt.notes:
        yield f"Note: {note}."


def _sent_lines(receipt: Receipt) -> Iterator[str]:
    """The lines on where an attempt was sent, and how it was planned."""
    cost = "at no known price" if receipt.cost_nanos is None else f"${dollars(receipt.cost_nanos)}"
    how = f" ({receipt.error})" if receipt.error else ""
    if receipt.outcome is Outcome.REFUSED:
        yield f"The gateway refused it with {receipt.status}{how}, and sent it nowhere."
    else:
        by = ", by estimate: no upstream reported its tokens" if receipt.estimated else ""
        yield f"{_outcome_text(receipt)} with {receipt.status}{how}; {cost}{by}."
    if receipt.upstream_error:
        yield f"Of the upstream: {receipt.upstream_error}."
    if receipt.upstream_request_id:
        yield f"The provider's request id is {receipt.upstream_request_id}."
    if receipt.reroute_reason:
        yield f"It went there in place of what it asked for: {receipt.reroute_reason}."
    if text := fast_path_text(receipt):
        yield text
    yield _planning_line(receipt)


def _attempt_name(receipt: Receipt) -> str:
    """The attempt by its number; a draft has none in the order of attempts."""
    is_draft = receipt.served_by is ServedBy.DRAFT
    return "The draft" if is_draft else f"Attempt {receipt.attempt + 1}"


def _outcome_text(receipt: Receipt) -> str:
    route = receipt.route or "An upstream"
    if receipt.outcome is Outcome.HUNG_UP:
        is_draft = receipt.served_by is ServedBy.DRAFT and receipt.error == DRAFT_ENDED
        end = "The answer began" if is_draft else "The caller hung up"
        return f"{end} before {receipt.route or 'an upstream'} was done,"
    return f"{route} {_OUTCOMES.get(receipt.outcome, receipt.outcome)}"


def _time_lines(receipt: Receipt) -> Iterator[str]:
    """The lines on its time by phase, its draft tokens and its GPU seconds, where known."""
    phases = (receipt.queue, receipt.prefill, receipt.decode, receipt.transfer)
    if all(seconds is not None for seconds in phases):
        named = zip(_PHASES, (receipt.overhead, *phases), strict=True)
        times = ", ".join(f"{name} {_milliseconds(seconds or 0.0)}" for name, seconds in named)
        by = (
            ""
            if receipt.phases_from is PhasesFrom.ENGINE
            else "; the queue is what the gateway saw"
        )
        yield f"Time {_milliseconds(receipt.duration)}: {times}{by}."
    elif receipt.ttft is not None:
        rest = _milliseconds(receipt.duration - receipt.ttft)
        yield (
            f"Time {_milliseconds(receipt.duration)}: first content after"
            f" {_milliseconds(receipt.ttft)}, the rest in {rest}, as the gateway saw it."
        )
    if drafted := receipt.draft_tokens:
        accepted = receipt.accepted_tokens or 0
        share = f"{accepted / drafted:.0%}"
        yield f"Speculation: {accepted:,} of {drafted:,} draft tokens were accepted ({share})."
    if receipt.gpu_seconds is not None:
        yield f"Its share of the engine: {receipt.gpu_seconds:.3f} GPU seconds."


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


def _planning_line(receipt: Receipt) -> str:
    from proxy.services.compaction.reason_texts import PASSTHROUGH_TEXTS

    if not receipt.conversation:
        why = PASSTHROUGH_TEXTS.get(receipt.unplanned_why, receipt.unplanned_why)
        return f"It was not planned{f': {why}' if why else ''}."
    if receipt.arm == "control":
        return f"Conversation {receipt.conversation} is sent unmodified, to compare with."
    layout = f"layout {receipt.layout}" if receipt.layout else "no layout"
    return f"Conversation {receipt.conversation} is planned, with {layout}."


def _compaction_lines(receipt: Receipt) -> Iterator[str]:
    """The lines on compaction; none where the call's conversation was not to be compacted."""
    if not receipt.compaction:
        return
    if receipt.compacted:
        yield from _shortened_lines(receipt)
    else:
        yield from _unmodified_lines(receipt)
    if receipt.recalls:
        yield f"The model {recall_text(receipt)} of what was compacted; the cost has all rounds."
    if receipt.compaction_nanos is not None:
        yield f"Saved by that, resets paid for: {money(receipt.compaction_nanos)}."
    if receipt.needed:
        kept_facts = receipt.needed - receipt.lost
        these = f"{kept_facts:,} of them are"
        if receipt.needed == 1:
            these = "it is" if kept_facts else "it is not"
        yield (
            f"Its last tool calls needed {quantity(receipt.needed, 'value')} of what was compacted:"
            f" {these} in what is sent."
        )


def _shortened_lines(receipt: Receipt) -> Iterator[str]:
    """The lines on how much shorter it was sent, and why no more of it was compacted."""
    from proxy.services.compaction.reason_texts import COMPACTED_CODES, reason_text

    why, messages = receipt.compaction_why, receipt.compacted_messages
    if receipt.compaction == CompactionMode.TRIM:
        what, more = _TRIMMED_TEXT, ""
    elif messages == 0:
        what, more = _RESULTS_ALONE_TEXT, f"No message was compacted: {reason_text(why)}."
    elif why in COMPACTED_CODES:
        what, more = f"Compacted{_messages_text(messages)}", f"Why: {reason_text(why)}."
    else:
        is_compacted = messages or receipt.needed
        what = f"Compacted{_messages_text(messages)}" if is_compacted else _SHORTER_TEXT
        more = f"No more was compacted at this call: {reason_text(why)}."
    began = "; it was the first call after a compaction" if receipt.reset else ""
    yield (
        f"{what} (mode {receipt.compaction}): about {receipt.tokens_before or 0:,} tokens came,"
        f" {receipt.tokens_after or 0:,} were sent{began}."
    )
    if more:
        yield more


def _messages_text(messages: int | None) -> str:
    """Number of messages facts stand for; "" where the receipt does not tell."""
    if not messages:
        return ""
    return f", {quantity(messages, 'message')} as facts"


def _unmodified_lines(receipt: Receipt) -> Iterator[str]:
    from proxy.services.compaction.reason_texts import reason_text

    before, after = receipt.tokens_before, receipt.tokens_after
    mode, why = receipt.compaction, receipt.compaction_why
    if (mode, why) == (CompactionMode.NATIVE, _PROVIDER_ASKED):
        yield "Its provider was asked to compact it (mode native)."
        return
    yield f"Compaction (mode {mode}) left it unmodified: {reason_text(why)}."
    if before is not None and after is not None and after < before:
        yield f"Of about {before:,} tokens it would have sent {after:,}."


def _cache_lines(receipt: Receipt) -> Iterator[str]:
    """The lines on the cache: what it should have held, and the reason of a miss."""
    reason = _REASONS.get(receipt.miss)
    tokens, nanos = receipt.miss_tokens or 0, receipt.miss_nanos
    miss = None
    if reason is not None:
        miss = CacheMiss(reason=reason, detail=receipt.miss_detail, tokens=tokens, nanos=nanos)
    yield from explanation_lines(miss, receipt.expected_read, receipt.usage)
    if receipt.miss and reason is None:
        yield f"Why not more: {receipt.miss}: {receipt.miss_detail}."
