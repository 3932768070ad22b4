"""Calls, newest first, and one call's whole story: ``/api/v1/calls``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """The end of one call, and the cost of all its attempts.

    Attributes:
        started: Arrival, in seconds since the epoch.
        user: Keyed hash of the end user; "" for none.
        model: The model that answered, or was tried last.
        route: The route tried last; "" where it was refused before.
        outcome: ``answered``, ``refused``, ``failed``, ``broken`` or ``hung_up``.
        cost_nanos: Effective cost of all attempts; null where one is unknown.
        prompt_tokens: Tokens of the prompt; null where unknown. They are the last attempt's, as all
            that follows.
        cache_read_tokens: Those of them read from a cache.
        generated_tokens: Tokens of the answer.
        ttft: Seconds to the first content byte; null without one.
        duration: Seconds to the end.
        miss: Reason for a cache miss; "" for none.
        miss_nanos: Cost of it; null where unknown.
        reroute_reason: Reason that another route answered; "" where it did not.
        served_by: ``cache``, ``small``, ``large`` or ``draft``; "" without the fast path.
    """

    call_id: str
    started: float
    team: str
    team_name: str
    key: str
    feature: str
    user: str
    requested: str
    model: str
    route: str
    attempts: int
    status: int
    outcome: str
    error: str
    streamed: bool
    cost_nanos: int | None
    prompt_tokens: int | None
    cache_read_tokens: int | None
    generated_tokens: int | None
    ttft: float | None
    duration: float
    miss: str
    miss_nanos: int | None
    reroute_reason: str
    served_by: str


CallSort = Literal["time", "cost", "prompt", "answer", "ttft", "duration"]
"""The order of calls: the newest first, or those with most of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsView:
    """A page of calls.

    Attributes:
        calls: The calls in the order asked for; may be fewer than asked for, or none, although
            there are more.
        next: Cursor of the next page; null where there is none, and in orders other than by time.
        searched_from: Arrival of the oldest call that was looked at; null where none was.
        is_cut: True if older calls of the period were not looked at.
        searched_prompts: Kept prompts in which a text was looked for; null without a text.
    """

    calls: Sequence[CallRow]
    next: str | None
    searched_from: float | None
    is_cut: bool = False
    searched_prompts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One line of an attempt's cost.

    Attributes:
        bucket: Kind of tokens, or ``other`` for what they do not account for.
        tokens: Tokens; 0 for ``other``.
        nanos_per_million: Published price of a million; null where unknown.
        nanos: Cost, in nano-dollars; null where unknown.
    """

    bucket: str
    tokens: int
    nanos_per_million: int | None
    nanos: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSize:
    """A segment of a prompt, in the order in which it was sent.

    Attributes:
        slot: ``stable``, ``semi-stable`` or ``variable``.
        start: Tokens of the prompt before it.
        read: Tokens of it that the cache held; null where unknown, as the next two.
        written: Tokens of it that were stored in a cache.
        new: All others.
    """

    slot: str
    start: int
    tokens: int
    read: int | None
    written: int | None
    new: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPlace:
    """A cache mark in a prompt.

    Attributes:
        tokens: Tokens of the prompt up to the mark.
        lifetime: The lifetime asked for; "" for the provider's own.
    """

    tokens: int
    lifetime: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPrompt:
    """The segments of a prompt and its cache marks, without a word of it.

    Attributes:
        total: Tokens of all segments.
        segments: The segments, those without tokens left out.
        marks: The marks, in order.
        read: Tokens from its beginning that the cache held; null where unknown.
        written: Tokens behind these that were stored in a cache; null where unknown.
    """

    total: int
    segments: Sequence[SegmentSize]
    marks: Sequence[MarkPlace]
    read: int | None
    written: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStory:
    """One attempt of a call.

    Attributes:
        number: 0 for the first.
        is_final: True if its outcome is the call's.
        route: The route that was tried; "" where there was none.
        model: The model that the route leads to.
        upstream_error: Words of the upstream or the system on its failure; "" where none came.
        started: Arrival of the call, in seconds since the epoch.
        ttft: Seconds to the first content byte; null without one.
        duration: Seconds to the end.
        overhead: Seconds in the gateway.
        phases: Names and seconds of an engine's phases; empty where it reported none.
        cost_lines: Lines that add up to the list cost where it is known.
        facts: All else that its receipt says, as names and values.
        prompt_tokens: Tokens of the prompt; null where unknown, as the next two.
        cache_read_tokens: Those of them read from a cache.
        generated_tokens: Tokens of the answer.
        decision: Sentences on why this route.
        cache: Sentences on what its cache was expected to hold, and held.
        compaction: Sentences on what compaction did.
        prompt: Segments and marks of the prompt as it was sent; null where it was not planned.
    """

    number: int
    is_final: bool
    route: str
    upstream: str
    model: str
    status: int
    outcome: str
    error: str
    upstream_error: str
    started: float
    ttft: float | None
    duration: float
    overhead: float
    phases: Sequence[tuple[str, float]]
    list_nanos: int | None
    cost_nanos: int | None
    cost_lines: Sequence[CostLine]
    prompt_tokens: int | None
    cache_read_tokens: int | None
    generated_tokens: int | None
    facts: Sequence[tuple[str, str]]
    decision: Sequence[str]
    cache: Sequence[str]
    compaction: Sequence[str]
    prompt: SentPrompt | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStory:
    """All that is known of a call.

    Attributes:
        user: Keyed hash of the end user; "" for none.
        tags: Keys of its metadata that its team named, with their values.
        endpoint: Path below ``/v1/``.
        cost_nanos: Effective cost of all attempts; null where one is unknown.
        direct_nanos: Estimated cost of the same call sent directly: with what planning, compaction
            and the fast path saved; null where it is unknown or another model answered.
        first_failure: The upstream's words, or the error's code, by which the first route failed,
            as another one answered after that; "" for none known.
        fails_directly: True where the same call sent directly would have failed so, too.
    """

    call_id: str
    team: str
    team_name: str
    key: str
    feature: str
    user: str
    tags: Mapping[str, str]
    endpoint: str
    requested: str
    cost_nanos: int | None
    direct_nanos: int | None
    first_failure: str
    fails_directly: bool
    attempts: Sequence[AttemptStory]
    keeps_prompt: bool
