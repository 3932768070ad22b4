"""The numbers of replica routing, in one place, each with its reason."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingPolicy:
    """The numbers of a decision; those without a source were measured, see `tests/bench/README.md`.

    Attributes:
        prefill_tokens_per_s: Tokens of prompts that a replica reads in a second, until measured.
        prefill_weight: Worth of a second of own prefill beside a second of waiting. Far above 1:
            a prompt that is read again delays all later calls.
        rare_match_weight: More of it, times the share of the cache that was used since the longest
            match was last read. A prefix that is read all the time is soon worth a second copy;
            that of a single conversation is not, and a copy pushes out others.
        decode_s: Seconds that each running call adds, as decoding shares batches with prefill.
        min_match_share: Matches of a smaller share of the prompt count as none: where all prompts
            begin alike, cold ones would gather where that beginning is.
        load_gate_s: A replica whose queue is so much longer than the shortest is tried last.
        max_kv_usage: Fullness of the KV cache from which on a replica is tried last. Source:
            beyond it vLLM begins to preempt running calls (2026-11).
        evict_weight: Worth of a second of prefill whose blocks have to push others out: cold
            prompts go where there is room, such as to a replica that was just started.
        home_credit: Share of its prefill that a home is forgiven, times the share of load that
            other gateways send: they may have warmed it for this prompt.
        tie_s: Costs that differ by less are equal; of equal replicas the home is tried first.
        home_tokens: First tokens of a prompt without a conversation, which choose its home.
        explore_share: Share of calls that try the second best. Source: llm-d, 1 % (2026-08).
        explore_limit_s: No exploration where the second best costs so much more.
        other_region_s: Penalty of a replica outside the preferred region, besides its round trip.
        stale_s: Older load reports are left out. Source: engines are polled each 1 to 2 seconds.
    """

    prefill_tokens_per_s: float = 10_000.0
    prefill_weight: float = 20.0
    rare_match_weight: float = 50.0
    decode_s: float = 0.02
    min_match_share: float = 0.1
    load_gate_s: float = 20.0
    max_kv_usage: float = 0.95
    evict_weight: float = 1.0
    home_credit: float = 0.6
    tie_s: float = 0.2
    home_tokens: int = 2_048
    explore_share: float = 0.01
    explore_limit_s: float = 1.0
    other_region_s: float = 0.25
    stale_s: float = 5.0


DEFAULT_POLICY: Final = RoutingPolicy()
