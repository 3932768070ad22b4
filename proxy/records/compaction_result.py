"""The result of compaction for one attempt's prompt, as a value; pure."""

from typing import Final

import msgspec

from compaction.recall.removed_messages import RemovedMessages
from compaction.recall.tool_index import MAX_ROUNDS
from proxy.records.call import Call
from slo.price import BillingTerms, Tariff, call_cost
from slo.usage import Usage

#: Counts under which tokens that no cache knew may be billed.
_WRITTEN: Final = ("write_5m", "write_30m", "write_1h", "write_12h")
#: Tokens from which on every provider's cache keeps a prompt.
#: Source: Anthropic, prompt caching, cache limitations (2026-11): 4,096 at most.
_LEAST: Final = 4_096
#: Reasons for which nothing came of it although it was to be tried: the caller is told in a note.
_TROUBLE: Final = {
    "failed": "compaction failed, so the conversation was sent unmodified",
    "late": "compaction took too long, so the conversation was sent unmodified",
    "busy": "compaction was busy, so the conversation was sent unmodified",
    "invalid": "compaction made something invalid, so the conversation was sent unmodified",
    "refused": "an upstream refused what compaction made, so the conversation was sent unmodified",
    "recall_failed": "the model's recalls went unanswered, so the conversation was sent unmodified",
}
REFUSED: Final = "refused"
RECALL_FAILED: Final = "recall_failed"
"""Reasons to send a conversation unmodified after all: its upstream's, and the gateway's own."""


class CompactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The call that is sent in place of the caller's, or the reason why it is sent unmodified.

    Attributes:
        mode: The feature's mode; "" where compaction has no part in the call.
        why: Code of the reason for compacting at this call or not.
        last_compacted_why: Reason for the latest compaction, here or earlier; "" for none.
        sent: The call as it is sent; None for unmodified.
        is_compacted: True if less is sent than came.
        before: Tokens of the unmodified prompt, by estimate; None where there is none.
        after: Tokens of what is sent, or would be.
        reset: True if the prompt begins otherwise than the call before it did.
        is_warm: True if a cache would have known the unmodified prompt, so far as is known.
        break_even: Calls that pay the compaction back; None where there was none.
        needed: Values of the newest tool calls that stood in what was compacted.
        lost: Number of them that are missing from what is sent.
        messages: Messages that facts stand for in what is sent, 0 where results alone were
            shortened; None where it is sent unmodified.
        removed: Messages that the model may recall with a tool of the gateway; None for none.
        conversation: Identifier of it, as planning names it; b"" where nobody asked.
    """

    mode: str = ""
    why: str = ""
    sent: Call | None = None
    is_compacted: bool = False
    before: int | None = None
    after: int | None = None
    reset: bool = False
    is_warm: bool = True
    break_even: float | None = None
    needed: int = 0
    lost: int = 0
    messages: int | None = None
    last_compacted_why: str = ""
    notes: tuple[str, ...] = ()
    conversation: bytes = b""
    removed: RemovedMessages | None = None

    def call(self, came: Call) -> Call:
        """The call as it is sent."""
        return came if self.sent is None else self.sent

    @property
    def header(self) -> str:
        """The value of the response header; "" where compaction had no part in the call."""
        if not self.mode:
            return ""
        words = [self._outcome, *self._reasons]
        if self.before is not None and self.after is not None:
            words.append(f"tokens={self.before}->{self.after}")
        if self.is_compacted:
            words.append(f"reset={'yes' if self.reset else 'no'}")
        if self.break_even is not None:
            words.append(f"break-even={self.break_even:.1f}")
        return "; ".join(words)

    @property
    def _reasons(self) -> tuple[str, ...]:
        """The reason for the compaction; if decided earlier, also why this call added none."""
        is_earlier = (
            self.is_compacted and self.messages and self.last_compacted_why not in {"", self.why}
        )
        if is_earlier:
            return f"reason={self.last_compacted_why}", f"no-more={self.why}"
        return (f"reason={self.why}",)

    @property
    def _outcome(self) -> str:
        if not self.is_compacted:
            return "unmodified"
        return "trimmed" if self.messages == 0 else "compacted"


NO_COMPACTION: Final = CompactionResult()
"""Compaction has no part in the call."""


def recalls_without_end(error: str, recalls: int) -> bool:
    """True if an attempt's model recalled more often than it may, or its recalls went unanswered.

    Args:
        error: The attempt's.
        recalls: Rounds in which it recalled.
    """
    return error == RECALL_FAILED or recalls > MAX_ROUNDS


def passthrough_result(mode: str, why: str) -> CompactionResult:
    """The result for a call that is sent unmodified although its feature is compacted."""
    note = _TROUBLE.get(why)
    return CompactionResult(mode=mode, why=why, notes=(note,) if note else ())


def compaction_savings(
    result: CompactionResult,
    usage: Usage | None,
    tariff: Tariff | None,
    at: float,
    terms: BillingTerms,
) -> int | None:
    """The savings of a call in 1e-9 US dollars, below 0 where compaction cost more.

    It is compared with the same unmodified prompt. Where a cache was warm, or may have been, it
    would have read all of that: so a reset is charged with what it wrote anew, and nothing is
    claimed that a cache would have given anyway.

    Args:
        at: Time of the call, in seconds since the epoch.
    """
    if not result.is_compacted or usage is None or tariff is None:
        return None
    paid = call_cost(usage, tariff, at, terms)
    unmodified = call_cost(usage_without_compaction(result, usage), tariff, at, terms)
    if unmodified is None:  # where reading a cache has no price, there is none
        cold = msgspec.structs.replace(result, is_warm=False)
        unmodified = call_cost(usage_without_compaction(cold, usage), tariff, at, terms)
    if paid is None or unmodified is None:
        return None
    return unmodified.effective_nanos - paid.effective_nanos


def usage_without_compaction(result: CompactionResult, usage: Usage) -> Usage:
    """The usage that a compacted call would have had unmodified.

    Tokens are scaled to what the provider counted.
    """
    before, after = result.before or 0, result.after or 0
    more = usage.prompt_tokens * (before - after) // after if after else 0
    if result.reset and result.is_warm:
        return Usage(
            cache_read=usage.prompt_tokens + more, output=usage.output, reasoning=usage.reasoning
        )
    # Nothing read of a short prompt is no sign that nothing would have been of a longer one.
    is_read = usage.cache_read or (result.is_warm and usage.prompt_tokens < _LEAST)
    bucket = "cache_read" if is_read else _uncached_bucket(usage)
    return msgspec.structs.replace(usage, **{bucket: getattr(usage, bucket) + more})


def _uncached_bucket(usage: Usage) -> str:
    """The bucket in which uncached tokens are billed, by this call's own usage."""
    written = max(_WRITTEN, key=lambda name: int(getattr(usage, name)))
    return written if getattr(usage, written) else "input"
