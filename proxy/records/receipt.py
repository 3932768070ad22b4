"""The record of one attempt to answer a call; ledger, metrics, logs and pages all read it."""

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from proxy.records.prompt_segments import PromptSegments
from slo.usage import Usage

#: Names of routes with models that are remembered.
_MAX_CACHED_NAMES: Final = 1024


@lru_cache(maxsize=_MAX_CACHED_NAMES)
def answering_model(route: str, requested: str) -> str:
    """The public name of the model that a route leads to.

    It is the model that was asked for where the route is a pattern's, or serves no model alone.

    Args:
        route: The route's name, ``upstream/model`` or ``upstream/model#name``.
    """
    model = route.partition("/")[2].partition("#")[0]
    return requested if not model or "*" in model else model


#: The team of ledger rows that no team caused: idle time of replicas that are paid by the hour.
IDLE_TEAM: Final = "(engines)"
#: Features and routes of such rows begin with it.
IDLE_PREFIX: Final = "idle:"


class Outcome(StrEnum):
    """The outcome of an attempt."""

    ANSWERED = "answered"  #: The whole answer was handed to the caller.
    REFUSED = "refused"  #: The gateway would not send it.
    FAILED = "failed"  #: The upstream failed before the first content byte.
    BROKEN = "broken"  #: The upstream failed after it; the caller got a part and an error event.
    HUNG_UP = "hung_up"  #: The caller left.


class PhasesFrom(StrEnum):
    """The source of an attempt's phases."""

    NOBODY = ""  #: They are unknown.
    ENGINE = "engine"  #: The engine reported queue, prefill and decode.
    BOTH = "engine+gateway"  #: It reported prefill and decode; the queue is the rest of the wait.


#: An upstream's words before its message.
_STATUS_WORDS: Final = re.compile(r"it answered \d{3}(?: [\w.-]{1,64}){0,2}(?= ['\"]|$)")
#: Reasons for a reroute begin with it where a ceiling chose a cheaper model, as its policy says;
#: others but those of the fast path are fallbacks: the model failed, or missed an objective.
CEILING_REROUTE: Final = "the ceiling "
#: Begins the note of a call that a budget has no room for.
BUDGET_REFUSAL: Final = "The budget `{}` of "
#: Error code on the receipt of a draft that the answer overtook.
DRAFT_ENDED: Final = "draft_ended"


class ServedBy(StrEnum):
    """The part of the fast path that served an attempt."""

    NOBODY = ""  #: None: it went to the model that was asked for, or to its fallback.
    CACHE = "cache"  #: An answer given before, or one shared with an equal call under way.
    SMALL = "small"  #: A smaller model that was chosen, or whose answer passed the checks.
    LARGE = "large"  #: The model that was asked for, after the smaller one was weighed or tried.
    DRAFT = "draft"  #: A smaller model that drafted while the answer was made.


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of one attempt: its request, its time, its usage and cost.

    A call has one receipt per attempt; exactly one of them is ``final``. Each field is a column of
    the ledger, in this order: a new one comes last, with a default and a migration.

    Attributes:
        call_id: Sorts by time; shown to the caller as ``x-request-id``.
        attempt: 0 for the first route tried.
        final: True if this attempt's outcome is the call's.
        started: Arrival of the call, in seconds since the epoch (UTC).
        feature: Part of the caller's product that asked; "" where it was not given.
        user: Keyed hash of the opaque end user; "" where it was not given.
        endpoint: The path below /v1/, such as ``chat/completions``.
        model: The public name the caller asked for; "" where the call names none.
        route: The route tried; "" when refused before one was chosen.
        streamed: True if the caller asked for a stream.
        status: The HTTP status the attempt ended in; what the caller saw, if final.
        error: The error's code; "" when answered.
        usage: Tokens by bucket; None for calls that use none.
        estimated: True if the usage was counted here because the upstream did not say.
        list_nanos: Cost at published prices in 1e-9 US dollars; None when the price is unknown.
        cost_nanos: The same after the route's discount.
        ttft: Seconds from arrival to the first content byte; None when there was none.
        duration: Seconds from arrival to the end.
        overhead: Seconds of it that were not spent waiting for the upstream or the caller.
        fingerprint: Keyed hash of the prompt's bytes.
        upstream_id: The provider's own id of its answer.
        notes: Changes and omissions of the gateway, in short sentences.
        prompt: The caller's body, only where the team keeps prompts.
        conversation: Keyed hash of the conversation in hex; "" where planning was off.
        arm: ``treated`` if it was planned, ``control`` if it was sent unmodified, ``released`` if
            planned after its conversation was; "" where planning was off.
        layout: The version of the layout applied; 0 for none.
        expected_read: Tokens the cache should have known; None where it is unknown.
        miss: Reason that it knew fewer; "" where it did not.
        miss_detail: The evidence, in a short sentence.
        miss_tokens: Tokens that were not read and should have been.
        miss_nanos: Cost of that in 1e-9 US dollars; None when the price is unknown.
        reroute_reason: Reason that it went to another route than the one asked for:
            ``chat-ttft: fallback level 1``; "" where it did not.
        compaction: The mode of compaction; "" where it had no part in the call.
        compaction_why: Code of the reason for compacting it or not.
        compacted: True if less was sent than came.
        tokens_before: Tokens of the prompt unmodified, by estimate; None where there is none.
        tokens_after: Tokens of what was sent, or would have been.
        reset: True if it was the first call after a compaction, so that its prefix moved.
        compaction_nanos: Savings by compaction in 1e-9 US dollars, below 0 where it cost more; None
            where unknown.
        needed: Values of its newest tool calls that stood in what was compacted.
        lost: Number of them that were missing from what was sent.
        compacted_messages: Messages that facts stood for in what was sent, 0 where results alone
            were shortened; None where it went unmodified, and in receipts older than this field.
        planning_nanos: Savings of it by planning in 1e-9 US dollars: its cost had all calls been
            unmodified, by what caches should hold, less its bill; None where unknown.
        upstream_request_id: The provider's own id of the request, from its answer's headers; ""
            where it gave none.
        unplanned_why: Reason for sending it unmodified, as a code or a sentence; "" where it was
            planned, and where it was refused before.
        queue: Seconds until the engine began to work on it; None, as all phases, where its
            engine reported none.
        prefill: Seconds in which the engine read the prompt, up to the first token.
        decode: Seconds from the engine's first token to its last.
        transfer: Seconds since it was sent that are none of these, nor the gateway's.
        phases_from: Who measured them.
        draft_tokens: Tokens that a draft model or an n-gram proposed; None where unknown.
        accepted_tokens: Those of them that the model took.
        gpu_seconds: Its share of its engine's GPU seconds; None where no GPU price is set.
        read_saved_nanos: Amount that tokens read from a cache cost less than they would as plain
            input, at published prices in 1e-9 US dollars; None where unknown.
        write_extra_nanos: Amount that tokens written to a cache cost more than plain input.
        segments: Sizes of the segments of its prompt, and its cache marks; None where it was not
            planned, and in receipts older than this field.
        recalls: Rounds in which the model recalled messages that compaction took out.
        recalled_tokens: Tokens of what it recalled.
        served_by: The part of the fast path that served it.
        fast_path_nanos: Savings of it by the fast path in 1e-9 US dollars, below 0 where it cost
            more, such as a check of an answer; None where it had no part or the price is unknown.
        tags: Keys of the caller's metadata that its team named, with their values.
        upstream_error: Words of the upstream or the system on its failure, at most 400 characters
            without secrets, for people who run the gateway; "" where none came. Of a message that
            may quote the call, only status, type and code, unless its team keeps prompts.
    """

    call_id: str
    attempt: int = 0
    final: bool = True
    started: float
    team: str
    key_id: str
    feature: str = ""
    user: str = ""
    endpoint: str
    model: str = ""
    route: str = ""
    upstream: str = ""
    streamed: bool = False
    status: int
    outcome: Outcome
    error: str = ""
    usage: Usage | None = None
    estimated: bool = False
    list_nanos: int | None = None
    cost_nanos: int | None = None
    ttft: float | None = None
    duration: float
    overhead: float = 0.0
    fingerprint: str = ""
    upstream_id: str = ""
    notes: tuple[str, ...] = ()
    prompt: str | None = None
    conversation: str = ""
    arm: str = ""
    layout: int = 0
    expected_read: int | None = None
    miss: str = ""
    miss_detail: str = ""
    miss_tokens: int | None = None
    miss_nanos: int | None = None
    reroute_reason: str = ""
    compaction: str = ""
    compaction_why: str = ""
    compacted: bool = False
    tokens_before: int | None = None
    tokens_after: int | None = None
    reset: bool = False
    compaction_nanos: int | None = None
    needed: int = 0
    lost: int = 0
    compacted_messages: int | None = None
    planning_nanos: int | None = None
    upstream_request_id: str = ""
    unplanned_why: str = ""
    queue: float | None = None
    prefill: float | None = None
    decode: float | None = None
    transfer: float | None = None
    phases_from: PhasesFrom = PhasesFrom.NOBODY
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    gpu_seconds: float | None = None
    read_saved_nanos: int | None = None
    write_extra_nanos: int | None = None
    segments: PromptSegments | None = None
    recalls: int = 0
    recalled_tokens: int = 0
    served_by: ServedBy = ServedBy.NOBODY
    fast_path_nanos: int | None = None
    tags: tuple[tuple[str, str], ...] = ()
    upstream_error: str = ""

    @property
    def spent_nanos(self) -> int | None:
        """Its cost in nano-dollars: 0 where it used nothing, None where it is unknown."""
        is_nothing = self.usage is None and self.ttft is None
        return 0 if self.cost_nanos is None and is_nothing else self.cost_nanos


def words_without_message(words: str) -> str:
    """The status, type and code of an upstream's words; "" where they hold none."""
    known = _STATUS_WORDS.match(words)
    return "" if known is None else known[0]


def recall_text(receipt: Receipt) -> str:
    """The recalls of an attempt: ``recalled 2 times, 1,340 tokens``."""
    times = "once" if receipt.recalls == 1 else f"{receipt.recalls} times"
    return f"recalled {times}, {receipt.recalled_tokens:,} tokens"


class PendingAttempt(msgspec.Struct, frozen=True, array_like=True):
    """The facts of an attempt under way that its receipt needs, should the process be killed.

    Attributes:
        prompt_bytes: Size of the body without its encoded images and files.
        output: Tokens that it is likely to generate.
    """

    call_id: str
    attempt: int
    started: float
    team: str
    key_id: str
    endpoint: str
    route: str
    upstream: str
    streamed: bool
    prompt_bytes: int
    output: int
    model: str = ""
    feature: str = ""
    user: str = ""
    tags: tuple[tuple[str, str], ...] = ()


def total_nanos(costs: Iterable[int | None]) -> int | None:
    """The sum of costs; None where one of them is unknown."""
    total = 0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


def dollars(nanos: int) -> str:
    """Nano-dollars as US dollars, in full and without an exponent."""
    whole, part = divmod(nanos, 1_000_000_000)
    return f"{whole}.{part:09d}".rstrip("0").rstrip(".")
