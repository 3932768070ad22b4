"""Decides whether compacting now costs less than sending the conversation unmodified.

Every call reads the conversation from the prompt cache. A compaction makes later calls shorter and
costs once: everything behind the cut is written to the cache anew. All replicas must decide alike,
also after a restart, so the decision depends on the messages and the policy alone. It cannot see a
cold cache, and assumes a warm one.

Sums are in tokens of uncached input.
"""

from enum import StrEnum
from math import inf, sqrt
from typing import Final

import msgspec

from compaction.policy import CompactionPolicy, RelativePrices

#: Minimum calls of a conversation before a compaction is considered: fewer do not show its growth.
MIN_CALLS: Final = 4
#: Minimum ratio of the calls so far to the calls that pay a compaction back. It guards against
#: sessions that end before the compaction is paid back: about 1 in 25 does, and costs more than
#: unmodified. A higher factor saves less and is safer; with 5, AgentDojo's tasks in a row cost up
#: to 2 % more than trimmed alone. Figures by factor: tests/bench/README.md.
SAFETY_FACTOR: Final = 10.0
#: The same for features whose compactions lost what they may: at it none of 51 compacted recorded
#: sessions cost more than unmodified, which is partly luck.
STRICT_SAFETY_FACTOR: Final = 30.0
#: The same where the conversation's savings so far (its bank) cover the compaction. Such a session
#: never costs more than unmodified, but can lose its savings; a lower factor is enough. On 20
#: τ-bench conversations in a row, 5 costs 2 to 3 % less than 0 (Claude, Gemini), and 12 about as
#: much as no compaction. See tests/bench/README.md.
BANK_SAFETY_FACTOR: Final = 5.0
#: Maximum calls that may pay the cut of a shown result back; more where twice as many were made.
#: The bank must cover it even if no other call follows. If 2 % of a prompt may be owed till then,
#: recorded sessions of 15 to 30 calls are up to 9 % shorter still, and two of 20 are 0.5 % dearer.
#: See tests/bench/README.md.
MAX_CUT_PAYBACK_CALLS: Final = 2.0
CUT_SAFETY_FACTOR: Final = 2.0
#: Minimum share of the whole prompt by which a compaction must shorten it; where it is forced
#: without a target, of the conversation alone.
MIN_PROGRESS_SHARE: Final = 0.15
#: Share of the model's window that stays free. The longest answer is subtracted before.
WINDOW_MARGIN_SHARE: Final = 0.05
#: Minimum further calls that must fit into the window; with fewer, the conversation is compacted.
MIN_CALLS_AHEAD: Final = 2
#: Maximum ratio of a built segment's size to its likely size by which the decision stands.
MAX_LIKELY_RATIO: Final = 1.05
#: Minimum growth of a region, as a ratio, before a compaction that shortened nothing is retried.
RETRY_GROWTH_FACTOR: Final = 2


class CompactionReason(StrEnum):
    """The reason why a conversation is compacted, or is not."""

    PAYS = "pays"  #: Calls enough are to be expected.
    BANKED = "banked"  #: What was saved so far pays for it, should no call follow.
    FORCED = "forced"  #: The policy says so.
    WINDOW = "window"  #: It would soon not fit into the model's window.
    NOTHING_TO_COMPACT = (
        "nothing_to_compact"  #: All of it stays: authority, kept turns, open calls.
    )
    NO_PROGRESS = "no_progress"  #: It would hardly be shorter, or was not when last tried.
    SIGNED = "signed"  #: Something signed stands there, before which nothing may change.
    THINKS = "thinks"  #: Answers may be signed; too few came to see that none is sent back.
    BELOW_LEAST = "below_least"  #: It is too short to be worth it, or would be to be cached.
    BELOW_TARGET = "below_target"  #: It is as short as it should become.
    FLOOR = "floor"  #: What cannot be compacted is too long by itself.
    TOO_FEW_CALLS = "too_few_calls"  #: Nothing is known yet of how it goes on.
    COOLING_DOWN = "cooling_down"  #: It was compacted a short while ago.
    TOO_EARLY = "too_early"  #: A larger compaction, later, costs less.
    DOES_NOT_PAY = "does_not_pay"  #: It may end before the compaction is paid back.


class CostInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The token counts of a conversation at a call, from which the decision follows.

    Attributes:
        calls: Calls so far, this one included.
        calls_since: Those since the last compaction; ``calls`` where there was none.
        fixed: Tokens of the system text and the tools.
        earlier_segments: Tokens of the segments that stand.
        region: Tokens of what would be compacted now, as it is sent so far.
        segment: Tokens of what would stand for it, measured or estimated.
        tail: Tokens behind the cut.
        regrowth: Tokens by which the suffix is longer once it stands behind a compaction: what it
            repeats or names is compacted then, and said again.
        fresh: Those of the suffix that no call has sent before: they are written in any case.
        growth: Tokens a call adds, the mean since the last compaction.
        bank: Savings by shortening so far, less its cost.
        failed: Tokens of the region when a compaction was last tried and brought nothing; 0 for
            never.
        adds_tool: True if a tool joins the prompt's with it, so that all of it is written anew.
    """

    calls: int
    calls_since: int
    fixed: int
    earlier_segments: int
    region: int
    segment: int
    tail: int
    growth: float
    fresh: int = 0
    regrowth: int = 0
    bank: float = 0.0
    failed: int = 0
    adds_tool: bool = False

    @property
    def total(self) -> int:
        """Tokens of the prompt as it stands."""
        return self.fixed + self.earlier_segments + self.region + self.tail

    @property
    def gain(self) -> int:
        """Tokens by which a compaction shortens it; below 0 where it would be longer."""
        return self.region - self.segment - self.regrowth


class CompactionDecision(msgspec.Struct, frozen=True):
    """The decision on a conversation, with its reason.

    Attributes:
        is_due: True if it is compacted now.
        break_even: Calls that pay the compaction back, this one included; None where none do.
    """

    is_due: bool
    reason: CompactionReason
    break_even: float | None


def decide_compaction(policy: CompactionPolicy, inputs: CostInputs) -> CompactionDecision:
    """Decides whether the conversation is compacted now."""
    reason = (
        _reason_it_cannot_shorten(inputs)
        or _forced_reason(policy, inputs)
        or _reason_to_wait(policy, inputs)
        or _payment_reason(policy, inputs)
    )
    calls = break_even_calls(policy.prices, inputs)
    return CompactionDecision(
        reason in _COMPACTING_REASONS, reason, None if calls == inf else calls
    )


def decide_by_built_segment(
    policy: CompactionPolicy, inputs: CostInputs, likely: CostInputs
) -> CompactionDecision:
    """Decides with a segment that is built; by its likely size where it is hardly longer.

    Args:
        policy: Limits of compaction; where it sets a target, or forces, no size is likely.
        inputs: Token counts with the segment's size.
        likely: Token counts with its likely size, by which compaction was due.
    """
    is_guess = policy.force or bool(policy.target)
    max_size = MAX_LIKELY_RATIO * (likely.segment + likely.regrowth)
    is_near = not is_guess and inputs.segment + inputs.regrowth <= max_size
    return decide_compaction(policy, likely if is_near else inputs)


_COMPACTING_REASONS: Final = frozenset(
    {
        CompactionReason.PAYS,
        CompactionReason.BANKED,
        CompactionReason.FORCED,
        CompactionReason.WINDOW,
    }
)


def rewrite_cost(prices: RelativePrices, inputs: CostInputs, model_cost: float = 0.0) -> float:
    """The one-time cost of a compaction: segment and suffix are written instead of read.

    Of what stands before the cut, so is whatever is not read by itself.

    Args:
        prices: Relative prices of tokens.
        inputs: State of the conversation.
        model_cost: Cost of the model that wrote the segment; 0 for rules alone.
    """
    anew = (
        inputs.segment
        + inputs.tail
        + inputs.regrowth
        - inputs.fresh
        + _moved_lead_tokens(prices, inputs)
    )
    return max(prices.write - prices.read, 0.0) * anew + model_cost


def break_even_calls(prices: RelativePrices, inputs: CostInputs, model_cost: float = 0.0) -> float:
    """Calls that pay a compaction back, this one included; infinite where it saves nothing.

    Source: N* in the design of compaction, for segments that are only ever appended.
    """
    saved = prices.read * inputs.gain
    return rewrite_cost(prices, inputs, model_cost) / saved if saved > 0 else inf


def repayment_calls(prices: RelativePrices, inputs: CostInputs, model_cost: float = 0.0) -> float:
    """Calls after which the conversation cost no more than unmodified, this one included.

    What the bank holds was saved already and pays first: 0 where it pays all. A bank that owes
    something for earlier compactions is made good too.
    """
    owed = rewrite_cost(prices, inputs, model_cost) - inputs.bank
    saved = prices.read * inputs.gain
    return 0.0 if owed <= 0 else (owed / saved if saved > 0 else inf)


def optimal_period_calls(
    prices: RelativePrices, inputs: CostInputs, model_cost: float = 0.0
) -> float:
    """Calls between two compactions that cost the least together; infinite where waiting is free.

    Rare compactions let the prompt grow, frequent ones write it often: the same balance as between
    storing and ordering goods. Source: F. W. Harris, How many parts to make at once, 1913.
    """
    carried = prices.read * inputs.growth
    return sqrt(2 * rewrite_cost(prices, inputs, model_cost) / carried) if carried > 0 else inf


def high_water_tokens(prices: RelativePrices, inputs: CostInputs, model_cost: float = 0.0) -> float:
    """Prompt tokens at which the next compaction is due: a period's growth above the lowest."""
    low = inputs.total - inputs.gain
    if prices.read <= 0:
        return inf
    return low + sqrt(
        2 * rewrite_cost(prices, inputs, model_cost) * max(inputs.growth, 0.0) / prices.read
    )


def call_savings(prices: RelativePrices, shorter_before: int, shorter_now: int) -> float:
    """The savings that a call adds to the bank.

    Args:
        prices: Relative prices of tokens.
        shorter_before: Tokens by which the part of the prompt that earlier calls had sent is
            shorter than unmodified: each would have been read.
        shorter_now: Tokens by which the new part is shorter: each would have been written.
    """
    return prices.read * shorter_before + prices.write * shorter_now


class ShownCut(msgspec.Struct, frozen=True):
    """The last prompt, if the long results at its end are sent shorter from now on.

    Attributes:
        ahead: Tokens before the first message that was new to it.
        before: Its tokens as it was sent.
        after: Its tokens with those results cut.
    """

    ahead: int
    before: int
    after: int

    def cost(self, prices: RelativePrices) -> float:
        """The one-time cost: the end of the prompt is written instead of read.

        What stands before it was a prompt by itself, so a cache that keeps whole prompts has it.
        """
        lost = 0
        if prices.block:
            lost = _uncached_lead_tokens(prices, self.ahead) - self.before % prices.block
        return max(prices.write - prices.read, 0.0) * max(self.after - self.ahead + lost, 0)

    def pays(self, prices: RelativePrices, bank: float, calls: int) -> bool:
        """True if the next calls pay it back, and what was saved so far does if there are none.

        Args:
            prices: Relative prices of tokens.
            bank: Savings so far.
            calls: Calls so far; as many are expected.
        """
        gain, cost = prices.read * (self.before - self.after), self.cost(prices)
        max_calls = max(MAX_CUT_PAYBACK_CALLS, calls / CUT_SAFETY_FACTOR)
        return 0 < gain >= cost / max_calls and bank + gain >= cost


def ceiling_tokens(window: int, growth: float) -> float:
    """Tokens of a prompt that leave room for the answer and calls to come; else infinite."""
    return window * (1 - WINDOW_MARGIN_SHARE) - MIN_CALLS_AHEAD * growth if window else inf


def _moved_lead_tokens(prices: RelativePrices, inputs: CostInputs) -> int:
    """Tokens before a cut that are written anew: all of them where a tool joins the others."""
    ahead = inputs.fixed + inputs.earlier_segments
    return ahead if inputs.adds_tool else _uncached_lead_tokens(prices, ahead)


def _uncached_lead_tokens(prices: RelativePrices, ahead: int) -> int:
    """Tokens before a cut that are written anew with what follows."""
    return ahead if ahead < prices.least or not prices.block else ahead % prices.block


def _reason_it_cannot_shorten(inputs: CostInputs) -> CompactionReason | None:
    """The reason why compaction could not shorten it, or None."""
    if inputs.region <= 0:
        return CompactionReason.NOTHING_TO_COMPACT
    return CompactionReason.NO_PROGRESS if inputs.gain <= 0 else None


def _forced_reason(policy: CompactionPolicy, inputs: CostInputs) -> CompactionReason | None:
    """The reason to compact whether that pays or not, or why that would be in vain."""
    if policy.force:
        least = 0 if policy.target else MIN_PROGRESS_SHARE * (inputs.region + inputs.tail)
        is_vain = inputs.gain < least
        return CompactionReason.NO_PROGRESS if is_vain else CompactionReason.FORCED
    ceiling = ceiling_tokens(policy.window, inputs.growth)
    if inputs.total < ceiling:
        return None
    if inputs.total - inputs.gain >= ceiling:
        return CompactionReason.FLOOR
    return CompactionReason.NO_PROGRESS if _brings_too_little(inputs) else CompactionReason.WINDOW


def _brings_too_little(inputs: CostInputs) -> bool:
    """True if a compaction brings too little, or the same part brought nothing before."""
    return (
        inputs.gain < MIN_PROGRESS_SHARE * inputs.total
        or inputs.region < RETRY_GROWTH_FACTOR * inputs.failed
    )


def _reason_to_wait(policy: CompactionPolicy, inputs: CostInputs) -> CompactionReason | None:
    """The reason to wait, whatever the prices."""
    if inputs.total < policy.least or inputs.total - inputs.gain < policy.prices.least:
        return CompactionReason.BELOW_LEAST
    if policy.target and inputs.total <= policy.target:
        return CompactionReason.BELOW_TARGET
    if policy.target and inputs.fixed + inputs.earlier_segments + inputs.tail >= policy.target:
        return CompactionReason.FLOOR
    if _brings_too_little(inputs):
        return CompactionReason.NO_PROGRESS
    return CompactionReason.TOO_FEW_CALLS if inputs.calls < MIN_CALLS else None


def _payment_reason(policy: CompactionPolicy, inputs: CostInputs) -> CompactionReason:
    """The reason that follows from the prices: it pays now, later, or perhaps never.

    A conversation that had many calls has many to come: as many again, by experience with
    whatever ends without notice (Lindy). What the bank holds may be spent even on a compaction that
    later calls might not pay back, but not where they hardly could.
    """
    prices = policy.prices
    if (
        inputs.calls_since < inputs.calls
        and inputs.calls_since < optimal_period_calls(prices, inputs) / 2
    ):
        return CompactionReason.COOLING_DOWN
    if inputs.total < high_water_tokens(prices, inputs):
        return CompactionReason.TOO_EARLY
    calls = repayment_calls(prices, inputs)
    is_banked = calls == 0 < rewrite_cost(prices, inputs)
    if is_banked and inputs.calls < BANK_SAFETY_FACTOR * break_even_calls(prices, inputs):
        return CompactionReason.DOES_NOT_PAY
    if inputs.calls < (policy.safety or SAFETY_FACTOR) * calls:
        return CompactionReason.DOES_NOT_PAY
    return CompactionReason.BANKED if is_banked else CompactionReason.PAYS
