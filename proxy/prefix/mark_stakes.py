"""Sends marks only as far as they are paid for, where a mark costs a surcharge (Anthropic).

::

    fully_marked_call ── all marks on paper: what the call should read if all calls had theirs
    reserve ──────────── whether some of them are sent; what they may lose is put by until it ended
    record_call ──────── it was answered: what its marks brought beside the unmodified call
"""

from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from typing import Any, Final, NamedTuple

import msgspec

from proxy.caches.bills import WRITE_PREFIX
from proxy.caches.regime import prompt_cost, write_surcharge
from proxy.prefix.arrangement import MarkedPrompt
from proxy.prefix.breakpoints.account import (
    DEFAULT_STAKE,
    MIN_EARNINGS_PER_STAKE,
    STAKE_UNITS_PER_DOLLAR,
    AccountNews,
    MarkAccount,
    PlaceValues,
    TeamStake,
)
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.planned import FullyMarkedCall, Planned, PlanningTarget, UnmodifiedCall
from proxy.prefix.prediction.lookups import UnstoredPrefixes, stores_marks_alone
from proxy.prefix.prediction.prefix_chains import ExpectedRead, PrefixChainIndex, expected_usage
from proxy.prefix.prediction.sent_call import SentCall, TokenScale
from proxy.records.amounts import money
from proxy.records.feature_mode import LayoutScope
from proxy.records.lru_cache import LruCache
from proxy.records.mark_account import StoredMarkAccount
from slo.usage import Usage

StoredAccounts = LruCache[LayoutScope, StoredMarkAccount]

_TRIED_AGAIN: Final = "they are tried again once they would have earned it back"
_TEAM_WAITS: Final = (
    "marks wait until tomorrow: the team's features lost all that they may in a day"
)
_CALLER_CHOSE: Final = "marks wait: the caller asked for its own alone"
_TRIED_LATER: Final = "they are tried again once the loss counts less, which is half after a day"
#: Reasons that no mark stands from a place on, in wire order.
LOST_PLACES: Final = tuple(
    f"marks wait{where}: they lost more than they earned lately; {_TRIED_AGAIN}"
    for where in ("", " behind the tools", " behind the stable text", " at the conversation's end")
)
#: Bytes of a feature's account.
_ACCOUNT_BYTES: Final = 900


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
    def adds_marks(self) -> bool:
        """True if it has other marks than the unmodified call."""
        return self.direct is not None and self.evidence.sent.marks != self.direct.sent.marks


class VariantCosts(NamedTuple):
    """Costs of a variant's prompt beside the unmodified one.

    Attributes:
        stake: Amount that its marks may lose.
        whole_write: Surcharge of writing all of it.
    """

    marked: float
    direct: float
    stake: float
    whole_write: float


class MarkStakes:
    """The stakes of one team's marks.

    Args:
        stake: Amount that a feature may lose, in nano-dollars times a million tokens.
        unstored: Prefixes that are known not to be stored.
        stored: Accounts as all processes counted them, of features that were not used here yet.

    Attributes:
        indexes: All that is remembered.
    """

    def __init__(
        self,
        stake: float = DEFAULT_STAKE,
        unstored: UnstoredPrefixes | None = None,
        stored: StoredAccounts | None = None,
    ) -> None:
        self._stake, self._stored = stake, stored if stored is not None else LruCache(1)
        self._trials = PrefixChainIndex(is_brief=True, unstored=unstored)
        self._team = TeamStake()
        self._numbers = count(1)
        self._accounts: LruCache[LayoutScope, MarkAccount] = LruCache(entry_bytes=_ACCOUNT_BYTES)
        self.indexes: Sequence[LruCache[Any, Any]] = (*self._trials.indexes, self._accounts)

    def fully_marked_call(self, whole: MarkedVariant) -> FullyMarkedCall | None:
        """The call with all marks, on paper; None where they cost nothing beside direct."""
        sent, direct = whole.evidence.sent, whole.direct
        if direct is None or not stores_marks_alone(direct.sent) or sent.marks == direct.sent.marks:
            return None
        return FullyMarkedCall(
            sent=sent, expected=self._trials.expect_read(sent, whole.evidence.now)
        )

    def marked_places(
        self, where: LayoutScope, target: PlanningTarget, whole: CallEvidence, calls_before: int
    ) -> int:
        """Number of places, in wire order, whose marks are worth their surcharge.

        A place that is read as a whole costs nothing, whatever other calls lost there.
        """
        regime, scale, read = whole.sent.regime, whole.expected.scale, whole.expected.tokens
        fee = float(regime.writes[regime.usual_ttl]) - 1.0
        price = fee * target.token_price
        spans = _place_spans(whole.sent, scale)
        fees = tuple(price * (end - start) if end > read else 0.0 for start, end in spans)
        return self._account_of(where).marked_places(fees, is_first_call=calls_before == 0)

    def reserve(
        self, where: LayoutScope, target: PlanningTarget, variant: MarkedVariant, places: int
    ) -> int:
        """The number of the stake on a variant of a call; 0 where it is not to be sent.

        A call that is cheaper with its marks already is sent as long as such calls read what they
        should. What it may lose, if it reads nothing, is put by until it has ended.

        Args:
            where: Whose account pays for it.
            target: Target of the call.
            variant: The call with some marks.
            places: Number of places that are marked, in wire order.
        """
        if not variant.adds_marks:
            return 0
        account, now = self._account_of(where), variant.evidence.now
        costs = _variant_costs(variant, target, account.size_ratio)
        account.forget_losses(now)  # what is forgotten is no gain of the team's
        before, stake = account.exposure(), costs.stake
        if costs.marked < costs.direct:
            stake = costs.whole_write
            if not account.expects_reads(stake):
                return 0
        elif not (
            _may_lose(account, variant, costs, account.earnings(places))
            and self._team.allows(account.exposure(stake) - before, now)
        ):
            return 0
        number = next(self._numbers)
        account.reserve_stake(number, stake, now)
        self._team.record(account.exposure() - before, now)
        return number

    def waiting_reason(
        self, where: LayoutScope, target: PlanningTarget, variant: MarkedVariant, places: int
    ) -> str:
        """The reason that no stake was reserved on a variant; the arguments are ``reserve``'s."""
        account = self._account_of(where)
        costs, earned = (
            _variant_costs(variant, target, account.size_ratio),
            account.earnings(places),
        )
        if costs.marked < costs.direct:
            return f"marks wait: what they should read is not read; {_TRIED_LATER}"
        if not self._stake:
            return "marks wait: nothing is paid for in advance (THRIFTGATE_LEARNING_STAKE is 0)"
        if account.allows_stake(costs.stake, earned, costs.direct):
            is_team = _may_lose(account, variant, costs, earned)
            return _TEAM_WAITS if is_team else f"{_CALLER_CHOSE}; {_TRIED_LATER}"
        limit = account.max_loss(costs.stake, earned, costs.direct)
        if target.rates is None or not target.rates.input:
            return f"marks wait: the feature lost what it may; {_TRIED_AGAIN}"
        lost, most, more = map(_dollars, (account.exposure(), limit, costs.stake))
        return (
            f"marks wait: the feature lost {lost} of {most}, and these could lose {more} more;"
            f" {_TRIED_AGAIN}"
        )

    def release(self, planned: Planned) -> None:
        """A call has ended, however it did: nothing of it is at stake any more."""
        if planned.trial is None or not planned.trial.number:
            return
        account = self._account_of(planned.place)
        before = account.exposure()
        account.release_stake(planned.trial.number)
        self._team.record(account.exposure() - before, planned.evidence.now)

    def record_unanswered_call(self, planned: Planned) -> None:
        """A call ended without usage: what it sent was sent, and what it may lose is lost."""
        if planned.trial is None:
            return
        now = planned.evidence.now
        self._trials.record_call(planned.trial.sent, None, now)
        account = self._account_of(planned.place)
        account.forget_losses(now)
        before = account.exposure()
        account.lose_stake(planned.trial.number, now)
        self._team.record(account.exposure() - before, now)

    def record_call(
        self, planned: Planned, usage: Usage, unmodified: Usage, calls_before: int
    ) -> None:
        """Count what the marks of an answered call brought, or would have.

        Args:
            planned: The call.
            usage: Usage as counted by its provider.
            unmodified: The same had it been sent unmodified.
            calls_before: Earlier calls of its conversation.
        """
        sent, trial, now = planned.evidence.sent, planned.trial, planned.evidence.now
        if not stores_marks_alone(planned.direct.sent if planned.direct is not None else sent):
            return
        account, price = self._account_of(planned.place), planned.target.token_price
        account.record_size(planned.evidence.expected.scale.total, usage.prompt_tokens)
        unmodified = _without_lost_reads(unmodified, planned, usage)
        direct = prompt_cost(unmodified, sent.regime) * price
        if trial is None:
            self._trials.record_call(sent, usage, now)
            account.record_call(direct, 0.0, now)
            return
        marked = usage
        if not trial.is_live:
            marked = expected_usage(trial.sent, trial.expected, usage.prompt_tokens)
        self._trials.record_call(trial.sent, marked, now)
        values = _extra_values(trial, marked, unmodified, price)
        life = sent.regime.lifetimes.get(sent.regime.usual_ttl, 0.0)
        account.record_values(values, planned.draft.conversation, calls_before, now, life)
        account.forget_losses(now)
        before = account.exposure()
        saved = direct - prompt_cost(usage, sent.regime) * price if trial.number else 0.0
        if saved and planned.evidence.expected.tokens:
            account.reads_failed = saved < 0.0
        account.release_stake(trial.number)
        account.record_call(direct, saved, now)
        self._team.record(account.exposure() - before, now)

    def reset(self, where: LayoutScope) -> None:
        """Let marks earn anew: what they were to earn lay in prefixes that are not stored."""
        self._account_of(where).reset_places()

    def account_news(self) -> Iterator[tuple[LayoutScope, AccountNews]]:
        """The news of each feature's account since it was stored last."""
        for where, account in self._accounts.items():
            if account.news.calls or account.news.saved:
                yield where, account.news.subtract(AccountNews())

    def adopt_account(self, stored: StoredMarkAccount, sent: AccountNews | None = None) -> None:
        """Take over what all processes counted of a feature.

        Args:
            stored: The account as it is stored.
            sent: The news that are in it; None for none.
        """
        account = self._accounts.get(stored.scope)
        if account is not None:
            account.adopt_stored(stored, sent)

    def _account_of(self, where: LayoutScope) -> MarkAccount:
        account = self._accounts.get(where)
        if account is None:
            account = MarkAccount(self._stake)
            if (stored := self._stored.get(where)) is not None:
                account.adopt_stored(stored, None)
            self._accounts.put(where, account)
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
    account: MarkAccount, variant: MarkedVariant, costs: VariantCosts, earned: float
) -> bool:
    """True if a stake is allowed; beside a caller's explicit mode only once it was earned."""
    is_explicit = variant.direct is not None and variant.direct.sent.explicit
    if is_explicit and earned < MIN_EARNINGS_PER_STAKE * costs.stake:
        return False
    return account.allows_stake(costs.stake, earned, costs.direct)


def _variant_costs(
    variant: MarkedVariant, target: PlanningTarget, size_ratio: float
) -> VariantCosts:
    evidence, direct, price = variant.evidence, variant.direct, target.token_price
    sent, total = evidence.sent, evidence.expected.scale.total
    marked = unmodified = expected_usage(sent, evidence.expected, total)
    if direct is not None:
        unmodified = expected_usage(direct.sent, direct.expected, direct.expected.scale.total)
    surcharge = write_surcharge(marked, sent.regime) - write_surcharge(unmodified, sent.regime)
    dearest = total * (float(min(sent.regime.writes.values())) - 1.0)
    if not marked.cache_write_tokens and not marked.cache_read:
        # By estimate it is too short to be stored; if it is not, all of it is written.
        surcharge = dearest
    return VariantCosts(
        marked=prompt_cost(marked, sent.regime) * price,
        direct=prompt_cost(unmodified, sent.regime) * price,
        stake=max(0.0, surcharge) * max(1.0, size_ratio) * price,
        whole_write=dearest * price,
    )


def _dollars(amount: float) -> str:
    """An amount as people read it."""
    return money(round(amount / STAKE_UNITS_PER_DOLLAR * 1e9))


def _extra_values(
    trial: FullyMarkedCall, marked: Usage, unmodified: Usage, price: float
) -> PlaceValues:
    """The values of a call's marks beyond those that the unmodified call has."""
    values = _place_values(trial.sent, trial.expected, marked)
    direct = _place_values(trial.sent, trial.expected, unmodified)
    return PlaceValues(
        tuple((a - b) * price for a, b in zip(values.gains, direct.gains, strict=True)),
        tuple((a - b) * price for a, b in zip(values.fees, direct.fees, strict=True)),
    )


def _place_values(sent: SentCall, expected: ExpectedRead, usage: Usage) -> PlaceValues:
    """Savings of each place's tokens that were read, and cost of those written, in fresh tokens.

    A prompt is read from its beginning, and written right behind what was read.
    """
    regime, total = sent.regime, usage.prompt_tokens
    read, written = usage.cache_read, usage.cache_write_tokens
    fee = write_surcharge(usage, regime) / written if written else 0.0
    gain = 1.0 - float(regime.read)
    spans = _place_spans(sent, expected.scale.with_total(total))
    return PlaceValues(
        tuple(gain * _overlap(span, (0, read)) for span in spans),
        tuple(fee * _overlap(span, (read, read + written)) for span in spans),
    )


def _overlap(span: tuple[int, int], other: tuple[int, int]) -> int:
    return max(0, min(span[1], other[1]) - max(span[0], other[0]))


def _place_spans(sent: SentCall, scale: TokenScale) -> Sequence[tuple[int, int]]:
    """The tokens of each place, in wire order, from the first to the one behind the last."""
    ends, start = sent.ends, sent.start
    places = (start.tools, start.stable, sent.block_ranges.messages.start)
    return [*pairwise((0, *(scale.tokens_of(ends[at]) for at in places), scale.total))]
