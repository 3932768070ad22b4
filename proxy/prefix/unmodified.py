"""The same calls, had they been sent unmodified: what their cache would hold, and what they cost.

::

    expect ── a call that is modified: what it should read if no call ever had been
    trial ─── its marks on paper: what it should read if all calls had theirs
    bet ───── whether some of them are sent; what they may lose is put by until it has ended
    note ──── it was answered: what it cost beside that; judged by its feature's latest calls
    harm ──── whether those are surely dearer

Where a prompt that is not marked costs nothing but its tokens (Anthropic), a mark is a bet:
``marking.earnings`` says when it is made.
"""

from collections.abc import Sequence
from itertools import count
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from proxy.caches.bills import WRITE_PREFIX
from proxy.caches.regime import Regime, prompt_cost, write_surcharge
from proxy.prefix.arrangement import ArrangedPrompt, MarkedPrompt, unmodified_prompt
from proxy.prefix.breakpoints.earnings import MarkEarnings
from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.breakpoints.policies import is_explicit
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.guard import LAYOUT_STAKE, CostComparison, Harm, HarmWatch
from proxy.prefix.planned import Draft, FullyMarkedCall, Planned, PlanningTarget, UnmodifiedCall
from proxy.prefix.prediction.changes import prefix_parameters
from proxy.prefix.prediction.lookups import UnstoredPrefixes, has_stored_nothing
from proxy.prefix.prediction.prefix_chains import PrefixChainIndex, expected_usage
from proxy.prefix.prediction.sent_call import SentCall
from proxy.prefix.prompts.marks import route_marks
from proxy.records.feature_mode import LayoutScope
from proxy.records.lru_cache import LruCache
from slo.usage import Usage

#: Bytes of a feature's earnings, and of the calls that it is judged by.
_EARNINGS_BYTES: Final = 700
_WATCH_BYTES: Final = 5_500
#: The cache in which a provider's own choice of breakpoints can be switched off.
_OPENAI: Final = "openai-breakpoint"
#: The cache in which what no mark ends is not stored, and so costs nothing.
_ANTHROPIC: Final = "anthropic-breakpoint"


class MarkedVariant(NamedTuple):
    """A call with some marks, as it may be sent.

    Attributes:
        sending: Prompt as sent.
        evidence: Facts known about it.
        direct: The same call unmodified; None where that reads the same.
    """

    sending: MarkedPrompt
    evidence: CallEvidence
    direct: UnmodifiedCall | None

    @property
    def is_shared(self) -> bool:
        """True if its marks stand before the conversation, where other conversations read them."""
        sent = self.evidence.sent
        return max(sent.marks, default=-1) < sent.block_ranges.messages.start


class UsageComparison(NamedTuple):
    """Expected usage of a prompt as it is sent, and had it been sent unmodified."""

    sent: Usage
    unmodified: Usage


def compare_usage(planned: Planned, usage: Usage) -> UsageComparison:
    """Compare an answered call's expected usage with that of the unmodified call.

    Both by what their caches should hold: what a provider loses, it would have lost of either. Both
    are what it counted where nothing was modified, or where it stored and found nothing at all.

    Args:
        planned: The call.
        usage: Usage as counted by its provider.
    """
    sent, direct = planned.evidence.sent, planned.direct
    if direct is None:
        return UsageComparison(usage, usage)
    expected = expected_usage(sent, planned.evidence.expected, usage.prompt_tokens)
    if _is_refused(usage, expected, sent.regime):
        return UsageComparison(usage, usage)
    total = usage.prompt_tokens * direct.sent.size // max(1, sent.size)
    return UsageComparison(expected, expected_usage(direct.sent, direct.expected, total))


class UnmodifiedBaseline:
    """Predicts what unmodified calls would have read and cost, beside those that were sent.

    Args:
        credit: Cost that a feature's marks may run up before they earn it; None for one call's.
        unstored: Prefixes that are known not to be stored.

    Attributes:
        indexes: All that is remembered.
    """

    def __init__(
        self, credit: float | None = None, unstored: UnstoredPrefixes | None = None
    ) -> None:
        self._credit = credit
        self._chains = PrefixChainIndex(is_brief=True, unstored=unstored)
        self._trials = PrefixChainIndex(is_brief=True, unstored=unstored)
        self._numbers = count(1)
        self._earnings: LruCache[LayoutScope, MarkEarnings] = LruCache(entry_bytes=_EARNINGS_BYTES)
        #: By place and version of the layout, for each is stopped by itself.
        self._watches: LruCache[tuple[LayoutScope, int], HarmWatch] = LruCache(
            entry_bytes=_WATCH_BYTES
        )
        prefixes = (*self._chains.indexes, *self._trials.indexes)
        self.indexes: Sequence[LruCache[Any, Any]] = (*prefixes, self._earnings, self._watches)

    def unmodified_call(
        self,
        draft: Draft,
        target: PlanningTarget,
        found: ArrangedPrompt,
        sending: MarkedPrompt,
        sent: SentCall,
        now: float,
    ) -> UnmodifiedCall | None:
        """The call as it would have been sent unmodified; None where that reads the same.

        A call that is sent unmodified may still find less where earlier ones were modified.

        Raises:
            Unplannable: If a message cannot be read.
        """
        if sending.body is draft.request.body:
            if target.regime.name != _OPENAI:
                return None
            return UnmodifiedCall(sent=sent, expected=self._chains.expect_read(sent, now))
        prompt = found.prompt
        is_same = prompt.messages == draft.prompt.messages and prompt.tools == draft.prompt.tools
        came = found if is_same else unmodified_prompt(draft, found.plan)
        marks = route_marks(came.given, came.prompt, came.blocks, target.regime)
        explicit = is_explicit(came.prompt, target.regime)
        call = msgspec.structs.replace(sent, marks=marks, explicit=explicit)
        if is_same and sending.prompt.fields == draft.prompt.fields:
            call.__dict__.update(sent.__dict__)  # the same prefixes, hashed once
        else:
            where = prefix_parameters(came.prompt, target.regime, draft.fingerprint, target.model)
            call = msgspec.structs.replace(
                call,
                blocks=came.bare,
                lines=came.lines,
                early=where.early,
                late=where.late,
                tail=0 if not is_same else sent.tail,
            )
        return UnmodifiedCall(sent=call, expected=self._chains.expect_read(call, now))

    def fully_marked_call(self, whole: MarkedVariant) -> FullyMarkedCall | None:
        """The call with all marks that its policy asks for, on paper; None where that is no bet."""
        sent, direct = whole.evidence.sent, whole.direct
        if direct is None or sent.regime.name != _ANTHROPIC or sent.marks == direct.sent.marks:
            return None
        return FullyMarkedCall(
            sent=sent, expected=self._trials.expect_read(sent, whole.evidence.now)
        )

    def record_start(self, where: LayoutScope, sent: SentCall, now: float) -> None:
        """Count a call by all that stands before its conversation."""
        end = sent.block_ranges.messages.start
        life = min(sent.regime.lifetimes.values(), default=0.0)
        self._earnings_of(where).record_start(sent.points[end] if end else 0, now, life)

    def may_bet(self, where: LayoutScope, target: PlanningTarget) -> bool:
        """True if marks are out that a call may read, or the least ones could be paid for."""
        earnings, regime = self._earnings_of(where), target.regime
        stake = regime.least * (float(min(regime.writes.values())) - 1.0) * _token_price(target)
        has_bet = earnings.balance != 0.0 or bool(earnings.stakes)
        return has_bet or earnings.allows_stake(stake, on_credit=self._credit is None)

    def reserve_stake(
        self, where: LayoutScope, target: PlanningTarget, variant: MarkedVariant, *, on_credit: bool
    ) -> int:
        """The number of a bet on a variant of a call; 0 where it is not to be sent.

        Nothing is at stake where the call is cheaper with its marks already. What is, is put by
        until the call has ended.

        Args:
            where: Whose earnings pay for it.
            target: Target of the call.
            variant: The call with some marks.
            on_credit: True if it may be the one that loses more than marks have brought back.
        """
        evidence, direct = variant.evidence, variant.direct
        if direct is None or evidence.sent.marks == direct.sent.marks:
            return 0
        sent, total = evidence.sent, evidence.expected.scale.total
        unmodified = expected_usage(direct.sent, direct.expected, direct.expected.scale.total)
        marked = expected_usage(sent, evidence.expected, total)
        if prompt_cost(marked, sent.regime) < prompt_cost(unmodified, sent.regime):
            return next(self._numbers)
        surcharge = _extra_write_cost(marked, unmodified, sent.regime)
        if not marked.cache_write_tokens and not marked.cache_read:
            # By estimate it is too short to be stored; if it is not, all of it is written.
            surcharge = total * (float(min(sent.regime.writes.values())) - 1.0)
        earnings = self._earnings_of(where)
        stake = max(0.0, surcharge) * max(1.0, earnings.size_ratio) * _token_price(target)
        if not earnings.allows_stake(stake, on_credit=on_credit and self._credit is None):
            return 0
        number = next(self._numbers)
        earnings.reserve_stake(number, stake, evidence.now)
        return number

    def release_stake(self, planned: Planned) -> None:
        """A call has ended, however it did: nothing of it is at stake any more."""
        if planned.trial is not None and planned.trial.number:
            self._earnings_of(planned.place).release_stake(planned.trial.number)

    def record_call(self, planned: Planned, usage: Usage | None, before: int) -> int:
        """Compare an answered call with the same call unmodified.

        Args:
            planned: The call.
            usage: Usage as counted by its provider; None where it did not.
            before: The number of its conversation's call before; 0 for none.

        Returns:
            Its own number while it waits to be judged; 0 where it does not.
        """
        sent, now, direct = planned.evidence.sent, planned.evidence.now, planned.direct
        if usage is None:
            self._chains.record_call(direct.sent if direct is not None else sent, None, now)
            if planned.trial is not None:
                self._trials.record_call(planned.trial.sent, None, now)
                self.release_stake(planned)
            return before
        expected, unmodified = compare_usage(planned, usage)
        self._chains.record_call(direct.sent if direct is not None else sent, unmodified, now)
        if planned.plan.arm is not ExperimentArm.TREATED:
            return 0
        self._record_earnings(planned, usage, unmodified)
        watch = self._watches.get_or_make(
            (planned.place, planned.plan.layout),
            lambda: HarmWatch(LAYOUT_STAKE if planned.plan.layout else inf),
        )
        return watch.record_call(now, _call_cost(expected, unmodified, planned), before)

    def _record_earnings(self, planned: Planned, usage: Usage, unmodified: Usage) -> None:
        """Count what marks earned with an answered call, or would have."""
        sent, trial = planned.evidence.sent, planned.trial
        if sent.regime.name != _ANTHROPIC:
            return
        earnings = self._earnings_of(planned.place)
        earnings.record_size(planned.evidence.expected.scale.total, usage.prompt_tokens)
        price, direct = _token_price(planned.target), prompt_cost(unmodified, sent.regime)
        if trial is None:
            self._trials.record_call(sent, usage, planned.evidence.now)
            earnings.record_call(direct * price, 0.0, -inf)
            return
        marked = usage
        if not trial.is_live:
            marked = expected_usage(trial.sent, trial.expected, usage.prompt_tokens)
        self._trials.record_call(trial.sent, marked, planned.evidence.now)
        saved, floor = direct - prompt_cost(marked, sent.regime), -inf
        if trial.number:
            earnings.release_stake(trial.number)
            earnings.balance += (direct - prompt_cost(usage, sent.regime)) * price
        if not trial.is_live:
            # Nothing was paid: bets that are not made cannot lose more than the next one.
            floor = -max(0.0, _extra_write_cost(marked, unmodified, sent.regime))
        earnings.record_call(direct * price, saved * price, floor * price)

    def _earnings_of(self, where: LayoutScope) -> MarkEarnings:
        return self._earnings.get_or_make(where, lambda: MarkEarnings(self._credit or 0.0))

    def reset_earnings(self, where: LayoutScope) -> None:
        """Let marks earn anew: what they were to earn lay in prefixes that are not stored."""
        earnings = self._earnings_of(where)
        earnings.earned = min(0.0, earnings.earned)

    def take_harm(self, place: LayoutScope, layout: int, now: float) -> Harm | None:
        """The harm that planning surely does to the place's calls of a layout; None for none.

        From then on its next calls alone are judged.
        """
        watch = self._watches.peek((place, layout))
        harm = watch.current_harm(now) if watch is not None else None
        if harm is None:
            return None
        self._watches.put((place, layout), HarmWatch(LAYOUT_STAKE if layout else inf))
        return msgspec.structs.replace(harm, layout=layout)


def _is_refused(usage: Usage, expected: Usage, regime: Regime) -> bool:
    """True if the provider stored and found nothing where there was something to store or find."""
    return has_stored_nothing(regime, usage) and bool(
        expected.cache_write_tokens or expected.cache_read
    )


def _token_price(target: PlanningTarget) -> float:
    """The price of a fresh token at this target, in any unit; 1 where it is unknown."""
    rates = target.rates
    return float(rates.input) if rates is not None and rates.input else 1.0


def _extra_write_cost(marked: Usage, unmodified: Usage, regime: Regime) -> float:
    """The extra cost of writing over what a prompt would have paid unmodified, in fresh tokens."""
    return write_surcharge(marked, regime) - write_surcharge(unmodified, regime)


def _call_cost(usage: Usage, unmodified: Usage, planned: Planned) -> CostComparison:
    regime, price = planned.target.regime, _token_price(planned.target)
    direct = prompt_cost(unmodified, regime) * price
    if usage is unmodified:
        return CostComparison(planned=direct, direct=direct)
    lives = [
        life for ttl, life in regime.lifetimes.items() if getattr(usage, WRITE_PREFIX + ttl, 0)
    ]
    return CostComparison(
        planned=prompt_cost(usage, regime) * price,
        direct=direct,
        surcharge=_extra_write_cost(usage, unmodified, regime) * price,
        lives=max(lives, default=0.0),
    )
