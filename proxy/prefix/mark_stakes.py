"""Sends cache marks only while their losses stay bounded, where marks cost a surcharge (Anthropic).

::

    fully_marked_call ── all marks on paper: what the call should read if all calls had theirs
    reserve ──────────── True if some are sent; their possible loss is reserved until the call ended
    record_call ──────── it was answered: what its marks brought, compared with the unmodified call
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec

from proxy.caches.bills import WRITE_PREFIX
from proxy.caches.regime import Regime, prompt_cost, write_surcharge
from proxy.prefix.arrangement import MarkedPrompt
from proxy.prefix.breakpoints.feature_account import (
    DEFAULT_STAKE,
    MIN_EARNINGS_PER_STAKE,
    FeatureAccount,
    StakedCall,
)
from proxy.prefix.breakpoints.placement import (
    dearest_fee,
    extra_place_values,
    long_life_value,
    marked_place_count,
    place_spans,
)
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.planned import FullyMarkedCall, Planned, PlanningTarget, UnmodifiedCall
from proxy.prefix.prediction.lookups import stores_marks_alone
from proxy.prefix.prediction.prefix_chains import PaperCall, PrefixChainIndex, expected_usage
from proxy.records.amounts import money
from proxy.records.feature_mode import LayoutScope
from proxy.records.lru_cache import LruCache
from proxy.records.mark_account import (
    STAKE_UNITS_PER_DOLLAR,
    AccountNews,
    StoredMarkAccount,
    TeamStake,
)
from slo.usage import Usage

#: By feature, and family of models.
StoredAccounts = LruCache[LayoutScope, dict[str, StoredMarkAccount]]

_TRIED_AGAIN: Final = "they are tried again once they would have earned it back"
_TEAM_WAITS: Final = (
    "marks wait: the team's features lost or risk what they may lose in a day; they are tried again"
    " with the first call that fits, at the latest tomorrow"
)
_CALLER_CHOSE: Final = "marks wait: the caller asked for its own alone"
_TRIED_LATER: Final = "they are tried again once the loss counts less, which is half after a day"
_READS_FAIL: Final = (
    "marks wait: what they should read is not read; they are tried again within a day"
)
#: Least ratio of a call's tokens to the estimate that is believed: images make it smaller.
_MIN_SIZE_RATIO: Final = 0.8
#: Reasons that no mark stands from a place on, in wire order.
LOST_PLACES: Final = tuple(
    f"marks wait{where}: they lost more than they earned lately; {_TRIED_AGAIN}"
    for where in ("", " behind the tools", " behind the stable text", " at the conversation's end")
)


class MarkedVariant(NamedTuple):
    """A call with some marks, as it may be sent.

    Attributes:
        direct: The same call unmodified; None where that reads the same.
        has_layout: True if its conversation has a layout.
    """

    sending: MarkedPrompt
    evidence: CallEvidence
    direct: UnmodifiedCall | None
    has_layout: bool = False

    @property
    def adds_marks(self) -> bool:
        """True if it has other marks than the unmodified call."""
        return self.direct is not None and self.evidence.sent.marks != self.direct.sent.marks

    @property
    def marked_places(self) -> int:
        """Number of places, in wire order, up to the last one in which it adds a mark."""
        call = self.evidence.sent
        caller_marks = self.direct.sent.marks if self.direct is not None else {}
        return marked_place_count(call, call.marks.keys() - caller_marks.keys())

    def staked_call(self, costs: "VariantCosts", earned: float) -> StakedCall:
        """It as its feature's account sees it."""
        is_moved = (
            self.direct is not None and self.direct.sent.blocks is not self.evidence.sent.blocks
        )
        return StakedCall(
            costs.risk, earned, costs.direct, self.marked_places, self.has_layout and is_moved
        )


class VariantCosts(NamedTuple):
    """Costs of a variant's prompt beside the unmodified one, and the loss if nothing is read."""

    marked: float
    direct: float
    risk: float

    @property
    def should_pay(self) -> bool:
        """True if the call is cheaper with its marks already, as it reads what others wrote."""
        return self.marked < self.direct


class MarkStakes:
    """The stakes of one team's marks.

    Args:
        stake: Amount that a feature may lose, in nano-dollars times a million tokens.
        chains: Prefixes that were sent, and what is stored of them on paper.
        stored: Accounts as all processes counted them, of features that were not used here yet.
        team: Limit of what all of the team's features lose in a day.
    """

    def __init__(
        self,
        stake: float = DEFAULT_STAKE,
        chains: PrefixChainIndex | None = None,
        stored: StoredAccounts | None = None,
        team: TeamStake | None = None,
    ) -> None:
        self._stake, self._stored = stake, stored if stored is not None else LruCache(1)
        self._chains = chains if chains is not None else PrefixChainIndex()
        self._team = team if team is not None else TeamStake()
        self._numbers = count(1)
        self._accounts: LruCache[LayoutScope, FeatureAccount] = LruCache(
            weigh=lambda account: account.size_bytes
        )
        self.indexes: Sequence[LruCache[Any, Any]] = (self._accounts,)

    def fully_marked_call(self, whole: MarkedVariant) -> FullyMarkedCall | None:
        """The call with all marks, on paper; None where they cost nothing beside direct."""
        call, direct = whole.evidence.sent, whole.direct
        if direct is None or not stores_marks_alone(direct.sent) or call.marks == direct.sent.marks:
            return None
        expected = whole.evidence.expected
        on_paper = self._chains.expect_on_paper(call, expected, whole.evidence.now)
        return FullyMarkedCall(sent=call, expected=on_paper)

    def lifetime(self, where: LayoutScope, regime: Regime) -> str:
        """The lifetime that a feature's marks are bought for."""
        is_long = self._account_of(where).of(where.family).is_long_lived
        return regime.longest_ttl if is_long else regime.usual_ttl

    def marked_places(
        self, where: LayoutScope, target: PlanningTarget, whole: CallEvidence, calls_before: int
    ) -> int:
        """Number of places, in wire order, whose marks are worth their surcharge.

        A place that is read as a whole costs nothing, whatever other calls lost there.
        """
        scale, read = whole.expected.scale, whole.expected.tokens
        price = dearest_fee(whole.sent) * target.token_price
        spans = place_spans(whole.sent, scale)
        fees = tuple(price * (end - start) if end > read else 0.0 for start, end in spans)
        account = self._account_of(where).of(where.family)
        account.count_expired_writes(whole.now)
        return account.marked_places(fees, is_first_call=calls_before == 0)

    def reserve(
        self, where: LayoutScope, target: PlanningTarget, variant: MarkedVariant, places: int
    ) -> tuple[int, str]:
        """The number of the stake on a variant of a call; 0 and a reason where it is not sent.

        A call that is cheaper with its marks already is sent as long as such calls read what they
        should. What it may lose, if it reads nothing, is put by until it has ended.
        """
        if not variant.adds_marks:
            return 0, ""
        account, now = self._account_of(where), variant.evidence.now
        family = account.of(where.family)
        costs, earned = _variant_costs(variant, target, family.size_ratio), family.earnings(places)
        account.forget_losses(now)  # what is forgotten is no gain of the team's
        before, stake = account.exposure(), costs.risk
        is_unread = costs.should_pay and not account.expects_reads(stake)
        if is_unread or account.is_paused(where.family, now):
            return 0, _READS_FAIL
        if not costs.should_pay and not _may_lose(account, variant, costs, earned):
            return 0, self._loss_reason(account, target, variant, costs, earned)
        if not self._team.allows(account.exposure(stake) - before, now):
            return 0, _TEAM_WAITS
        number = next(self._numbers)
        account.reserve_stake(number, stake, now)
        self._end_change(account, before, now)
        return number, ""

    def _end_change(self, account: FeatureAccount, before: float, now: float) -> None:
        """Count a change of a feature's account among its team's losses, and its bytes."""
        self._team.record(account.exposure() - before, now)
        self._accounts.reweigh(account.measure())

    def _loss_reason(
        self,
        account: FeatureAccount,
        target: PlanningTarget,
        variant: MarkedVariant,
        costs: VariantCosts,
        earned: float,
    ) -> str:
        """The reason that a stake may not be lost."""
        staked = variant.staked_call(costs, earned)
        if not self._stake:
            return "marks wait: nothing is paid for in advance (THRIFTGATE_LEARNING_STAKE is 0)"
        if account.allows_stake(staked):
            return f"{_CALLER_CHOSE}; {_TRIED_LATER}"
        if target.rates is None or not target.rates.input:
            return f"marks wait: the feature lost what it may; {_TRIED_AGAIN}"
        amounts = account.exposure(), account.max_loss(staked), costs.risk
        nanos = [round(amount / STAKE_UNITS_PER_DOLLAR * 1e9) for amount in amounts]
        lost, max_loss, more = map(money, nanos)
        return (
            f"marks wait: the feature lost {lost} of {max_loss}, and these could lose {more} more;"
            f" {_TRIED_AGAIN}"
        )

    def release(self, planned: Planned) -> None:
        """A call has ended, however it did: nothing of it is at stake any more."""
        if planned.trial is None or not planned.trial.number:
            return
        account = self._account_of(planned.place)
        before = account.exposure()
        account.release_stake(planned.trial.number)
        self._end_change(account, before, planned.evidence.now)

    def record_unanswered_call(self, planned: Planned) -> None:
        """A call ended without usage: what it sent was sent, and what it may lose is lost."""
        if planned.trial is None:
            return
        now = planned.evidence.now
        account = self._account_of(planned.place)
        account.forget_losses(now)
        before = account.exposure()
        account.lose_stake(planned.trial.number, planned.place.family)
        self._end_change(account, before, now)

    def record_call(
        self,
        planned: Planned,
        usage: Usage,
        unmodified: Usage,
        paper: PaperCall | None,
        calls_before: int,
    ) -> None:
        """Count what the marks of an answered call brought, or would have.

        Args:
            paper: The call with all its marks; None where it counts none.
            calls_before: Earlier calls of its conversation.
        """
        call, trial, now = planned.evidence.sent, planned.trial, planned.evidence.now
        if paper is None or paper.usage is None:
            return
        account, price = self._account_of(planned.place), planned.target.token_price
        family = account.of(planned.place.family)
        family.record_size(planned.evidence.expected.scale.total, usage.prompt_tokens)
        unmodified = _without_lost_reads(unmodified, planned, usage)
        direct = prompt_cost(unmodified, call.regime) * price
        if trial is None:
            family.record_call(direct, 0.0)
            return
        scale = trial.expected.scale.with_total(paper.usage.prompt_tokens)
        values = extra_place_values(trial.sent, scale, paper.usage, unmodified, price)
        life = call.regime.lifetimes.get(self.lifetime(planned.place, call.regime), 0.0)
        gain, fee = long_life_value(trial.expected.rescale(usage.prompt_tokens), call.regime)
        family.record_long_life(gain * price, fee * price)
        family.record_values(values, planned.draft.conversation, calls_before, now, life)
        account.forget_losses(now)
        before = account.exposure()
        saved = direct - prompt_cost(usage, call.regime) * price if trial.number else 0.0
        if saved and (expected := planned.evidence.expected.tokens):
            account.reads_failed = saved < 0.0
            family.record_read(now, came=saved > 0.0 or 2 * usage.cache_read >= expected)
        account.release_stake(trial.number)
        family.record_call(direct, saved)
        self._end_change(account, before, now)

    def reset(self, where: LayoutScope) -> None:
        """Let marks earn anew: what they were to earn lay in prefixes that are not stored."""
        self._account_of(where).of(where.family).reset_places()

    def account_news(self) -> Iterator[tuple[LayoutScope, AccountNews]]:
        """The news of each feature's account since it was stored last."""
        for where, feature in self._accounts.items():
            for family, account in feature.families.items():
                if account.news.calls or account.news.saved:
                    scope = LayoutScope(where.team, where.feature, family)
                    yield scope, account.news.subtract(AccountNews())

    def adopt_account(
        self, stored: StoredMarkAccount, stored_news: AccountNews | None = None
    ) -> None:
        """Take over what all processes counted of a feature."""
        feature = self._accounts.peek(stored.scope.all_families)
        if feature is not None:
            feature.of(stored.scope.family).adopt_stored(stored, stored_news)
            self._accounts.reweigh(feature.measure())

    def _account_of(self, where: LayoutScope) -> FeatureAccount:
        scope = where.all_families
        account = self._accounts.get(scope)
        if account is None:
            account = FeatureAccount(self._stake)
            for family, stored in (self._stored.get(scope) or {}).items():
                account.of(family).adopt_stored(stored, None)
            account.measure()
            self._accounts.put(scope, account)
        return account


def _without_lost_reads(unmodified: Usage, planned: Planned, usage: Usage) -> Usage:
    """The unmodified call's usage without the reads that a provider lost of the call as sent."""
    expected = planned.evidence.expected.rescale(usage.prompt_tokens)
    lost = min(unmodified.cache_read, max(0, expected.tokens - usage.cache_read))
    ttl = planned.evidence.sent.regime.usual_ttl
    name = WRITE_PREFIX + ttl if ttl else "input"  # no price of writes is known
    written = {name: getattr(unmodified, name) + lost}
    return msgspec.structs.replace(unmodified, cache_read=unmodified.cache_read - lost, **written)


def _may_lose(
    account: FeatureAccount, variant: MarkedVariant, costs: VariantCosts, earned: float
) -> bool:
    """True if a stake is allowed; beside a caller's explicit mode only once it was earned."""
    is_explicit = variant.direct is not None and variant.direct.sent.explicit
    if is_explicit and earned < MIN_EARNINGS_PER_STAKE * costs.risk:
        return False
    return account.allows_stake(variant.staked_call(costs, earned))


def _variant_costs(
    variant: MarkedVariant, target: PlanningTarget, size_ratio: float
) -> VariantCosts:
    evidence, direct, price = variant.evidence, variant.direct, target.token_price
    call, total = evidence.sent, evidence.expected.scale.total
    marked = unmodified = expected_usage(call, evidence.expected, total)
    if direct is not None:
        unmodified = expected_usage(direct.sent, direct.expected, direct.expected.scale.total)
    surcharge = write_surcharge(marked, call.regime) - write_surcharge(unmodified, call.regime)
    dearest = total * dearest_fee(call)
    if not marked.cache_write_tokens and not marked.cache_read:
        # By estimate it is too short to be stored; if it is not, all of it is written.
        surcharge = dearest
    costs = VariantCosts(
        marked=prompt_cost(marked, call.regime) * price,
        direct=prompt_cost(unmodified, call.regime) * price,
        risk=max(0.0, surcharge) * max(_MIN_SIZE_RATIO, size_ratio) * price,
    )
    return costs._replace(risk=dearest * price) if costs.should_pay else costs
