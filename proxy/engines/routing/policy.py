"""The numbers of replica routing, in one place, each with its reason."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingPolicy:
    """The numbers of a decision; those without a source were measured, see `tests/bench/README.md`.

    Attributes:
        prefill_tokens_per_s: Tokens of prompts that a replica reads in a second, until measured.
        run_s: Seconds that a call runs after its first token, until measured.
        slots: Calls that a replica runs at once, where its engine does not say it.
        rare_weight: Worth of a second of prefill that another replica could spare, of a prefix
            that few calls have. Far above 1: to read it again delays all later calls, and pushes
            out other prefixes. One that all replicas get anyway has none.
        full_share: Share of what a replica would get of evenly spread calls, from which on a
            prefix is too common to be kept at one. Half: the other half are calls without it.
        decode_share: Share of its own time that a call takes longer in a full batch. Less leaves
            agents' calls where they are while other replicas have far fewer.
        slow_ratio: A replica whose calls begin so many times later than predicted, beside those of
            the others, counts as so many times slower. Less is noise of a busy replica.
        load_gate_s: A replica whose queue is so much longer than the shortest is tried last.
        max_kv_usage: Fullness of the KV cache from which on a replica is tried last. Source:
            beyond it vLLM begins to preempt running calls (2026-11).
        evict_weight: Worth of a second of prefill whose blocks have to push others out: cold
            prompts go where there is room, such as to a replica that was just started.
        home_credit: Seconds that a home is forgiven for each of its prefill, times the share of
            load that other gateways send. Above 1, as `rare_weight` is: the prefix that they may
            have warmed there would be read again elsewhere.
        tie_s: Costs that differ by less are equal; of equal replicas the one that holds most of the
            prompt is tried first, then the home.
        home_tokens: First tokens of a prompt without a conversation, which choose its home.
        explore_share: Share of calls that try the second best. Source: llm-d, 1 % (2026-08).
        explore_limit_s: No exploration where the second best costs so much more.
        other_region_s: Penalty of a replica outside the preferred region, besides its round trip.
        stale_s: Older load reports are left out. Source: engines are polled each 1 to 2 seconds.
    """

    prefill_tokens_per_s: float = 10_000.0
    run_s: float = 2.0
    slots: int = 64
    rare_weight: float = 20.0
    full_share: float = 0.5
    decode_share: float = 0.5
    slow_ratio: float = 3.0
    load_gate_s: float = 20.0
    max_kv_usage: float = 0.95
    evict_weight: float = 1.0
    home_credit: float = 4.0
    tie_s: float = 0.02
    home_tokens: int = 2_048
    explore_share: float = 0.01
    explore_limit_s: float = 1.0
    other_region_s: float = 0.25
    stale_s: float = 5.0


DEFAULT_POLICY: Final = RoutingPolicy()
