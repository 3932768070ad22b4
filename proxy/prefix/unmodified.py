"""The counterfactual: costs and cache contents if the same calls had been sent unmodified.

::

    unmodified_call ── predicts what a modified call would read, had all been sent unmodified
    record_call ────── the call was answered: its extra cost, judged over the latest calls
    take_harm ──────── reports planning that is now certain to cost more; the caller stops it
    can_compare ────── true while the feature can afford its control arm
    may_move ───────── true while a new conversation may use a layout

    compare_usage, compare_bill   what one answered call cost, beside the unmodified one

Control calls and planned calls cannot read each other's cache entries, so running both may cost
more than sending all calls directly: a feature's `ControlAccount` bounds that.
"""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from proxy.caches.bills import WRITE_PREFIX
from proxy.caches.regime import Regime, prompt_cost, write_surcharge
from proxy.prefix.arrangement import ArrangedPrompt, MarkedPrompt, unmodified_prompt
from proxy.prefix.breakpoints.feature_account import DEFAULT_STAKE
from proxy.prefix.breakpoints.policies import is_explicit
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.guard import CostComparison, Harm, HarmWatch
from proxy.prefix.planned import Draft, Planned, PlanningTarget, UnmodifiedCall, layout_place
from proxy.prefix.prediction.changes import CACHE_KEY_FIELDS, prefix_parameters
from proxy.prefix.prediction.lookups import (
    UnstoredPrefixes,
    has_stored_nothing,
    lookup_places,
    stores_marks_alone,
)
from proxy.prefix.prediction.prefix_chains import ExpectedRead, PrefixChainIndex, expected_usage
from proxy.prefix.prediction.sent_call import SentCall, TokenScale
from proxy.prefix.prompts.marks import route_marks
from proxy.prefix.prompts.prompt import ASSISTANT
from proxy.records.feature_mode import LayoutScope
from proxy.records.lru_cache import LruCache
from proxy.records.mark_account import TeamStake
from slo.usage import Usage

#: Bytes of the calls that a feature is judged by.
_WATCH_BYTES: Final = 5_500
#: Bytes of a feature that was modified, and of the account of its control arm.
_PLACE_BYTES: Final = 200
#: Parts of the stake, and of what planning earned, that the control arm may lose.
_CONTROL_STAKE_SHARE: Final = 0.25
_CONTROL_EARNED_SHARE: Final = 0.1
#: The cache in which a provider's own choice of breakpoints can be switched off.
_OPENAI: Final = "openai-breakpoint"


class ControlAccount:
    """Sums what a feature's control arm and layouts lost, beside what planning earned.

    Args:
        stake: Extra cost that a feature may lose in all.
    """

    __slots__ = ("_earned", "_free", "_lost", "_moved")

    def __init__(self, stake: float) -> None:
        self._free = stake * _CONTROL_STAKE_SHARE
        self._earned = self._lost = self._moved = 0.0

    def record_call(
        self, call: CostComparison, *, is_planned: bool, is_moved: bool = False
    ) -> float:
        """Count an answered call; returns the change of what the feature's team loses by it.

        Args:
            is_planned: True unless it is of the control arm.
            is_moved: True if it has a layout, and the marks' stake does not bear its loss.
        """
        before = self._team_loss
        if is_planned:
            self._earned += call.direct - call.planned
            self._moved += (call.direct - call.planned) * is_moved
        else:
            self._lost += call.planned - call.direct
        return self._team_loss - before

    @property
    def _team_loss(self) -> float:
        """The loss of layouts and of the control arm together."""
        return max(0.0, self._lost - self._moved)

    @property
    def balance(self) -> float:
        """Amount by which planning earned more than the control arm lost."""
        return self._earned - self._lost

    @property
    def has_credit(self) -> bool:
        """True while the control arm lost no more than it may."""
        return self._lost <= self._free + _CONTROL_EARNED_SHARE * max(0.0, self._earned)

    @property
    def unpaid_loss(self) -> float:
        """The control arm's loss beyond what planning earned; 0 where that is more."""
        return max(0.0, self._lost - max(0.0, self._earned))


class UsageComparison(NamedTuple):
    """Expected usage of a prompt as it is sent, and had it been sent unmodified."""

    sent: Usage
    unmodified: Usage

    def lost_tokens(self, regime: Regime) -> float:
        """The cost of the call over that of the unmodified one, in fresh tokens."""
        return prompt_cost(self.sent, regime) - prompt_cost(self.unmodified, regime)


def compare_usage(planned: Planned, usage: Usage) -> UsageComparison:
    """Compare the usage expected of an answered call with that expected of the unmodified call.

    Neither is what the provider counted: an entry that it dropped early would have been dropped for
    the unmodified call, too. The counted usage stands for both if nothing was modified, or if the
    provider neither stored nor read anything.
    """
    call, direct = planned.evidence.sent, planned.direct
    if direct is None:
        return UsageComparison(usage, usage)
    expected = expected_usage(call, planned.evidence.expected, usage.prompt_tokens)
    is_cacheable = expected.cache_write_tokens or expected.cache_read
    if is_cacheable and has_stored_nothing(call.regime, usage):
        return UsageComparison(usage, usage)
    total = usage.prompt_tokens * direct.sent.size // max(1, call.size)
    return UsageComparison(expected, expected_usage(direct.sent, direct.expected, total))


def compare_bill(planned: Planned, usage: Usage) -> UsageComparison:
    """Compare an answered call's bill with the expected usage of the unmodified call.

    Expected to read 9,000 tokens, a call read 7,000: the unmodified call would have missed as many
    of those that it shares. It read 10,000: the unmodified call would have read 1,000 more as well,
    unless it could read nothing, or only a mark of the gateway made another process store them.
    """
    expected, direct = compare_usage(planned, usage)
    if planned.direct is None or expected is direct:
        return UsageComparison(usage, usage)
    bill = msgspec.structs.replace(usage, output=0, reasoning=0)
    call = planned.direct.sent
    if _stores_nothing(call):
        return UsageComparison(bill, direct)
    more = usage.cache_read - expected.cache_read
    if more < 0:
        more = min(0, usage.cache_read - min(expected.cache_read, direct.cache_read))
    elif more > 0:
        more = _shared_reads(planned, usage, expected, direct)
    return UsageComparison(bill, _with_more_reads(direct, more, call.regime))


def _shared_reads(planned: Planned, usage: Usage, expected: Usage, direct: Usage) -> int:
    """Tokens that the unmodified call would have read, too, of those read beyond expectation.

    The read ended at the nearest place where the call looks. Up to what this process sent before,
    only its estimate of tokens was too low, for both calls if they read the same entry. Behind that
    another process stored the entry: at the end of the conversation's call before without a mark,
    at an earlier place by a mark, the gateway's unless the caller set one.
    """
    more, call, came = usage.cache_read - expected.cache_read, planned.evidence.sent, planned.direct
    if came is None or came.sent.early != call.early or not call.regime.takes_marks:
        return more
    read = planned.evidence.expected.rescale(usage.prompt_tokens)

    def distance(place: int) -> int:
        return abs(read.scale.tokens_of(call.ends[place]) - usage.cache_read)

    place = min(lookup_places(call), key=distance, default=0)
    if place <= read.same:
        return more if came.expected.hit == read.hit else 0
    if place <= call.block_ranges.messages.start or place < _previous_end(call):
        return more if came.sent.marks else 0
    is_same = came.sent.blocks is call.blocks
    return max(more, usage.cache_read - direct.cache_read) if is_same else more


def _previous_end(call: SentCall) -> int:
    """Number of blocks before the latest answer, where the call before ended; 0 for none."""
    is_answer = [block.role == ASSISTANT for block in call.blocks]
    end = len(is_answer)
    while end and not is_answer[end - 1]:
        end -= 1
    while end and is_answer[end - 1]:
        end -= 1
    return end


def _with_more_reads(usage: Usage, more: int, regime: Regime) -> Usage:
    """The usage with so many tokens more that are read, or less, which are written or fresh."""
    fields = [WRITE_PREFIX + ttl for ttl in regime.writes]
    usual = [WRITE_PREFIX + regime.usual_ttl] if regime.writes else []
    changed = {}
    for name in [*fields, "input"] if more > 0 else [*usual, "input"]:
        moved = min(more, getattr(usage, name))
        changed[name] = getattr(usage, name) - moved
        more -= moved
    read = usage.prompt_tokens - sum(
        changed.get(name, getattr(usage, name)) for name in (*fields, "input")
    )
    return msgspec.structs.replace(usage, cache_read=read, **changed)


class UnmodifiedBaseline:
    """Predicts what unmodified calls would have read and cost, beside those that were sent.

    Args:
        stake: Extra cost that a layout may lose, in nano-dollars times a million tokens.
        unstored: Prefixes that are known not to be stored.
        team: Limit of what all of the team's features lose in a day.
    """

    def __init__(
        self,
        stake: float,
        unstored: UnstoredPrefixes | None = None,
        team: TeamStake | None = None,
    ) -> None:
        self._stake, self._team = stake, team if team is not None else TeamStake()
        self._chains = PrefixChainIndex(is_brief=True, unstored=unstored)
        #: By place and version of the layout, for each is stopped by itself.
        self._watches: LruCache[tuple[LayoutScope, int], HarmWatch] = LruCache(
            entry_bytes=_WATCH_BYTES
        )
        #: Places of which calls were modified: unmodified ones may read what those stored.
        self._modified: LruCache[LayoutScope, float] = LruCache(entry_bytes=_PLACE_BYTES)
        #: By feature, on all families.
        self._controls: LruCache[LayoutScope, ControlAccount] = LruCache(entry_bytes=_PLACE_BYTES)
        own: Sequence[LruCache[Any, Any]] = (self._watches, self._modified, self._controls)
        self.indexes: Sequence[LruCache[Any, Any]] = (*self._chains.indexes, *own)

    def unmodified_call(
        self,
        draft: Draft,
        target: PlanningTarget,
        arrangement: ArrangedPrompt,
        sending: MarkedPrompt,
        evidence: CallEvidence,
    ) -> UnmodifiedCall | None:
        """The call as it would have been sent unmodified; None where that reads the same.

        A call that is sent unmodified may still find less where earlier ones were modified.

        Raises:
            Unplannable: If a message cannot be read.
        """
        planned_call, now = evidence.sent, evidence.now
        place = layout_place(draft.request, target.model)
        if sending.body is draft.request.body:
            if target.regime.name != _OPENAI and place not in self._modified:
                return None
            return UnmodifiedCall(
                sent=planned_call, expected=self._chains.expect_read(planned_call, now)
            )
        prompt = arrangement.prompt
        is_same = prompt.messages == draft.prompt.messages and prompt.tools == draft.prompt.tools
        came = arrangement if is_same else unmodified_prompt(draft, arrangement.plan)
        marks = route_marks(came.given, came.prompt, came.blocks, target.regime)
        explicit = is_explicit(came.prompt, target.regime)
        call = msgspec.structs.replace(planned_call, marks=marks, explicit=explicit)
        if is_same and sending.prompt.fields == draft.prompt.fields:
            call.share(planned_call)  # the same prefixes, hashed once
        else:
            where = prefix_parameters(came.prompt, target.regime, draft.fingerprint, target.model)
            call = msgspec.structs.replace(
                call,
                blocks=came.bare,
                lines=came.lines,
                early=where.early,
                late=where.late,
                tail=0 if not is_same else planned_call.tail,
            )
        if _stores_nothing(call):
            scale = evidence.expected.scale
            total = scale.total * call.size // max(1, planned_call.size)
            nothing = ExpectedRead(scale=TokenScale(size=call.size, total=total))
            return UnmodifiedCall(sent=call, expected=nothing)
        return UnmodifiedCall(sent=call, expected=self._chains.expect_read(call, now))

    def record_call(self, planned: Planned, compared: UsageComparison | None, before: int) -> int:
        """Compare an answered call with the same call unmodified.

        Args:
            before: Number of the conversation's previous call in its watch; 0 for none.

        Returns:
            The call's own number while it waits to be judged; 0 if it does not, and ``before`` if
            there is nothing to compare.
        """
        call, now, direct = planned.evidence.sent, planned.evidence.now, planned.direct
        unmarked = direct.sent if direct is not None else call
        if compared is None:
            self._record_sent(unmarked, None, now)
            return before
        expected, unmodified = compared
        self._record_sent(unmarked, unmodified, now)
        if planned.body is not planned.draft.request.body:
            self._modified.put(planned.place, now)
        cost, layout = _call_cost(expected, unmodified, planned), planned.plan.layout
        is_staked = planned.trial is not None and bool(planned.trial.number)
        change = self._control(planned.place).record_call(
            cost,
            is_planned=planned.plan.is_planned,
            is_moved=bool(layout) and not is_staked,
        )
        self._team.record(change, now)
        if not planned.plan.is_planned:
            return 0
        watch = self._watches.get_or_make((planned.place, layout), lambda: self._new_watch(layout))
        return watch.record_call(now, cost, before)

    def _record_sent(self, call: SentCall, usage: Usage | None, now: float) -> None:
        if not _stores_nothing(call):
            self._chains.record_call(call, usage, now)

    def take_harm(self, place: LayoutScope, layout: int, now: float) -> Harm | None:
        """The harm that planning surely does to the place's calls of a layout; None for none.

        From then on its next calls alone are judged.
        """
        watch = self._watches.peek((place, layout))
        spent = self._control(place).unpaid_loss
        harm = watch.current_harm(now, spent) if watch is not None else None
        if harm is None:
            return None
        self._watches.put((place, layout), self._new_watch(layout))
        return msgspec.structs.replace(harm, layout=layout)

    def can_compare(self, team: str, feature: str) -> bool:
        """True if the feature's control arm may cost more than its calls sent directly."""
        account = self._controls.peek(LayoutScope(team, feature))
        return account is None or account.has_credit

    def may_move(self, team: str, feature: str, now: float) -> bool:
        """True if a cent is left, of what the feature earned or of the team's dollar, for a layout.

        The feature's own stake, which may be more, bounds the harm of its layout.
        """
        account = self._controls.peek(LayoutScope(team, feature))
        balance = account.balance if account is not None else 0.0
        return self._team.allows(DEFAULT_STAKE - max(0.0, balance), now)

    def _control(self, place: LayoutScope) -> ControlAccount:
        """The account of a feature's control arm."""
        make = partial(ControlAccount, self._stake)
        return self._controls.get_or_make(place.all_families, make)

    def _new_watch(self, layout: int) -> HarmWatch:
        return HarmWatch(self._stake if layout else inf)


def _stores_nothing(call: SentCall) -> bool:
    """True if the cache stores only what is marked or keyed, and the call has no mark or key."""
    has_no_key = call.regime.needs_key and CACHE_KEY_FIELDS.isdisjoint(call.early)
    return has_no_key or (stores_marks_alone(call) and not call.marks)


def _call_cost(usage: Usage, unmodified: Usage, planned: Planned) -> CostComparison:
    regime, price = planned.target.regime, planned.target.token_price
    direct = prompt_cost(unmodified, regime) * price
    if usage is unmodified:
        return CostComparison(planned=direct, direct=direct)
    lives = [
        life for ttl, life in regime.lifetimes.items() if getattr(usage, WRITE_PREFIX + ttl, 0)
    ]
    return CostComparison(
        planned=prompt_cost(usage, regime) * price,
        direct=direct,
        surcharge=(write_surcharge(usage, regime) - write_surcharge(unmodified, regime)) * price,
        lives=max(lives, default=0.0),
    )
