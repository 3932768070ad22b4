"""Judges if planning a feature is dearer: by the control arm, and by each call's expected cost.

The control arm judges over weeks. Conversations are drawn into the arms, so they are what is
counted: calls of one conversation resemble each other. A rate is a sum over a sum, R = Σy/Σx (cost
or tokens read per input token), and its variance, by the delta method over the n conversations,

    var R = n/(n-1) · Σ(y - R x)² / (Σx)²

Costs are compared by ln(R_treated / R_control), hit rates by their difference; the variances of
both arms add.

Sources: Cochran, Sampling Techniques, 3rd edition (1977), section 6.3; Deng, Knoblich, Lu,
Applying the Delta Method in Metric Analytics (KDD 2018), section 3, for arms drawn by cluster.

The guard looks again and again, and any fixed bound is crossed by chance if one only looks often
enough. So it suspends by a bound that holds at all looks together, an asymptotic confidence
sequence, which is as many standard errors wide as

    √( (1 + 1/v) · (ln(1 + v) + 2 ln(1/ALPHA)) ),   v proportional to the conversations seen

Source: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, Time-uniform central limit theory and
asymptotic confidence sequences (Annals of Statistics 2024), theorem 2.2. It is asymptotic, which is
why small arms are not judged at all. An interval that a person reads once is the usual 95 % one, by
Student's t; it is shown for small arms, too, and counts from ``MIN_CONVERSATIONS`` on.

A control arm that is small keeps its own prefixes less warm than it would if all conversations were
in it, so savings from text that both arms share are somewhat overstated.

``HarmWatch`` judges within some fifty calls. Of each call it is known what it should cost as it is
sent, and what it should have cost unmodified, by one model of the provider's cache. What the
provider loses would be lost either way and is no matter of planning. A call that is dearer by marks
alone, which may still be read, is judged later: once its conversation went on, with or without
them, or once they died. One that is cheaper in any case counts at once, so that a first write is
not judged before the reads that it made possible. A feature is surely dearer when the calls judged
last cost more together than unmodified, by more than ``MAX_EXTRA_COST_SHARE`` and by more than
``MIN_STANDARD_ERRORS`` of their sum. A layout is stopped, too, as soon as one more call like its
latest would make it lose more than the learning stake in all, what the control arm lost beyond all
gains counted.
"""

import math
from collections import OrderedDict, deque
from enum import StrEnum
from itertools import count
from math import sqrt
from typing import Final, NamedTuple

import msgspec

from proxy.records.amounts import quantity

#: The chance that a feature on which planning changes nothing is ever suspended, for each measure.
ALPHA: Final = 0.005
#: Conversations that each arm must have to be judged, and for its measured figure to count.
MIN_CONVERSATIONS: Final = 50
#: Conversations that each arm must have for an interval.
MIN_SHOWN_CONVERSATIONS: Final = 3

#: Conversations in the control arm at which the bound is tightest.
_TIGHTEST_AT_CONVERSATIONS: Final = 200.0
_ODDS = 2 * math.log(1 / ALPHA)
_PACE = (_ODDS + math.log(1 + _ODDS)) / _TIGHTEST_AT_CONVERSATIONS
#: Standard errors to either side that hold 95 %: Student's t in powers of 1 ÷ degrees of freedom.
#: Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
_ERRORS_FOR_95_PERCENT: Final = (1.959964, 2.372272, 2.822503, 2.555852)
#: Calls that are judged together.
JUDGED_CALLS: Final = 50
#: Calls below which nothing is judged.
MIN_CALLS: Final = 20
#: Most extra cost that is borne, as a share of the unmodified cost.
MAX_EXTRA_COST_SHARE: Final = 0.02
#: Standard errors by which the sum has to be above nothing.
MIN_STANDARD_ERRORS: Final = 3.0
#: Calls that wait to be judged; beyond, the one that waited longest is judged as it stands.
_MAX_PENDING_CALLS: Final = 128
#: Seconds without a call after which a feature is judged afresh, but for what a layout lost.
_RESET_AFTER_S: Final = 21_600.0
_numbers = count(1)


class ArmTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of one arm's conversations: sums, and sums of products.

    Attributes:
        cost: In 1e-9 US dollars.
        reads: Input tokens read from a cache.
        cost_cost: The sum of each conversation's cost squared; the others likewise.
    """

    conversations: int = 0
    cost: int = 0
    tokens: int = 0
    reads: int = 0
    cost_cost: float = 0.0
    cost_tokens: float = 0.0
    tokens_tokens: float = 0.0
    reads_reads: float = 0.0
    reads_tokens: float = 0.0

    def __add__(self, other: "ArmTotals") -> "ArmTotals":
        """Both, as far as no conversation is in both."""
        return ArmTotals(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__}
        )


class Interval(msgspec.Struct, frozen=True):
    """A measured value with its 95 % confidence interval."""

    low: float
    value: float
    high: float


class ComparisonFinding(StrEnum):
    """The result of comparing the arms."""

    NOT_ENOUGH = "not enough"  #: Too few conversations, or nothing they can be compared by.
    EARLY = "early"  #: There is an interval of too few conversations to judge by.
    MEASURED = "measured"  #: There is an interval; it may hold nothing, or 0.
    WORSE = "worse"  #: Planning harms, beyond chance: the feature is to be suspended.


class ArmComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of a feature's two arms.

    Attributes:
        saving: The part of the control arm's cost per token that the treated arm saves; negative
            where it costs more. None where nothing was measured or nothing was paid.
    """

    finding: ComparisonFinding
    saving: Interval | None = None
    why: str


class _Estimate(msgspec.Struct, frozen=True):
    """A number and its standard error."""

    value: float
    error: float

    def interval(self, errors: float) -> tuple[float, float]:
        return self.value - errors * self.error, self.value + errors * self.error


def compare_arms(treated: ArmTotals, control: ArmTotals) -> ArmComparison:
    """Compare the arms; the error bound holds however often it is asked."""
    fewest = min(treated.conversations, control.conversations)
    if fewest < MIN_SHOWN_CONVERSATIONS or not treated.tokens or not control.tokens:
        why = f"{quantity(fewest, 'conversation')} in the smaller arm"
        needed = f"{MIN_SHOWN_CONVERSATIONS} are needed"
        return ArmComparison(finding=ComparisonFinding.NOT_ENOUGH, why=f"{why}; {needed}")
    cost, hits = _log_cost_ratio(treated, control), _hit_rate_difference(treated, control)
    finding, harm, errors = ComparisonFinding.EARLY, "", _errors_for_95_percent(fewest)
    if fewest >= MIN_CONVERSATIONS:
        harm = _harm_reason(cost, hits, _error_bound(treated, control))
        finding = ComparisonFinding.WORSE if harm else ComparisonFinding.MEASURED
    return ArmComparison(
        finding=finding,
        saving=None if cost is None else _saving_interval(cost, errors),
        why=harm or f"{control.conversations} conversations were sent unmodified",
    )


def conversations_needed(treated: ArmTotals, control: ArmTotals, share: float) -> int:
    """Number of further conversations, in both arms, to the next step of a comparison; 0 for none.

    First its measured figure is shown, then it counts.

    Args:
        share: The part of all conversations that is drawn into the control arm.
    """
    arms = (treated.conversations, control.conversations)
    step = MIN_SHOWN_CONVERSATIONS if min(arms) < MIN_SHOWN_CONVERSATIONS else MIN_CONVERSATIONS
    lacking = [step - conversations for conversations in arms]
    needs = zip(lacking, (1.0 - share, share), strict=True)
    return max(
        (math.ceil(least / part) for least, part in needs if least > 0 and part > 0), default=0
    )


def _harm_reason(cost: _Estimate | None, hits: _Estimate, errors: float) -> str:
    """The reason why the treated arm is worse beyond chance; "" where it is not.

    A lower hit rate is no harm where it is what saves money: a write that is not made is not read.
    """
    low, high = (0.0, 0.0) if cost is None else cost.interval(errors)
    if cost is not None and low > 0:
        return f"a token costs {math.expm1(cost.value):.1%} more than where nothing is planned"
    if hits.interval(errors)[1] < 0 and high >= 0:
        return f"the hit rate is {-hits.value:.1%} lower than where nothing is planned"
    return ""


def _log_cost_ratio(treated: ArmTotals, control: ArmTotals) -> _Estimate | None:
    """The logarithm of treated cost per token over control; None unless both paid something."""
    if treated.cost <= 0 or control.cost <= 0:
        return None
    relative = [
        _rate_variance(arm, arm.cost, arm.cost_cost, arm.cost_tokens) / (arm.cost / arm.tokens) ** 2
        for arm in (treated, control)
    ]
    ratio = (treated.cost / treated.tokens) / (control.cost / control.tokens)
    return _Estimate(math.log(ratio), math.sqrt(sum(relative)))


def _hit_rate_difference(treated: ArmTotals, control: ArmTotals) -> _Estimate:
    """The treated hit rate less the control's."""
    variances = [
        _rate_variance(arm, arm.reads, arm.reads_reads, arm.reads_tokens)
        for arm in (treated, control)
    ]
    difference = treated.reads / treated.tokens - control.reads / control.tokens
    return _Estimate(difference, math.sqrt(sum(variances)))


def _rate_variance(arm: ArmTotals, total: int, squares: float, products: float) -> float:
    """The variance of ``total`` ÷ tokens."""
    rate = total / arm.tokens
    rest = squares - 2 * rate * products + rate * rate * arm.tokens_tokens
    scale = arm.conversations / (arm.conversations - 1) / arm.tokens**2
    return max(rest, 0.0) * scale


def _error_bound(treated: ArmTotals, control: ArmTotals) -> float:
    """Number of standard errors of the bound that holds at all looks together."""
    sample_size = 1 / (1 / treated.conversations + 1 / control.conversations)
    pace = _PACE * sample_size
    return math.sqrt((1 + 1 / pace) * (math.log1p(pace) + _ODDS))


def _errors_for_95_percent(conversations: int) -> float:
    """Standard errors that hold 95 % where the smaller arm has so many conversations."""
    inverse = 1.0 / (conversations - 1)
    return sum(term * inverse**power for power, term in enumerate(_ERRORS_FOR_95_PERCENT))


def _saving_interval(cost: _Estimate, errors: float) -> Interval:
    low, high = cost.interval(errors)
    return Interval(-math.expm1(high), -math.expm1(cost.value), -math.expm1(low))


class CostComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One call; all in one unit, such as fresh tokens times their price.

    Attributes:
        direct: Expected cost had it been sent unmodified.
        surcharge: Cost of its writes beyond those of the unmodified call.
        lives: Seconds that what it wrote lives.
    """

    planned: float
    direct: float
    surcharge: float = 0.0
    lives: float = 0.0


class Harm(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence that planning makes a feature surely dearer.

    Attributes:
        calls: The calls judged last, which show it.
        more: Extra cost over unmodified calls, as a share of theirs.
        layout: Version of the layout that their conversations had; 0 for none.
    """

    calls: int
    more: float
    layout: int = 0

    @property
    def why(self) -> str:
        """The same in one sentence."""
        return (
            f"the last {self.calls} calls cost {self.more:.1%} more than the same calls should have"
            " cost unmodified"
        )


class _PendingCall(NamedTuple):
    """A call that is not judged yet: what it cost more, its direct cost, when its marks die."""

    more: float
    direct: float
    until: float


class HarmWatch:
    """Judges one feature on one family of models; 3 KB, and 100 bytes a call to be judged.

    Args:
        stake: Extra cost that may be lost in all.
    """

    def __init__(self, stake: float = math.inf) -> None:
        self._stake = stake
        #: Calls judged, what they cost more, and their direct cost, in all.
        self._calls = 0
        self._balance = self._total = 0.0
        #: Of the calls judged last: what each cost more, and its direct cost.
        self._more: deque[float] = deque(maxlen=JUDGED_CALLS)
        self._direct: deque[float] = deque(maxlen=JUDGED_CALLS)
        self._open: OrderedDict[int, _PendingCall] = OrderedDict()
        self._latest = 0.0

    def record_call(self, now: float, call: CostComparison, before: int) -> int:
        """Count a call; its number comes back while it waits to be judged, else 0.

        Args:
            before: The number of its conversation's call before, which is judged by this; 0 for
                none.
        """
        if now - self._latest > _RESET_AFTER_S:
            self._more.clear()
            self._direct.clear()
            self._open.clear()
            if self._balance < 0.0:  # savings of hours ago pay for no loss; a loss is kept
                self._calls, self._balance, self._total = 0, 0.0, 0.0
        self._latest = max(now, self._latest)
        if (earlier := self._open.pop(before, None)) is not None:
            self._judge_call(earlier)
        self._judge_expired(now)
        pending_call = _PendingCall(call.planned - call.direct, call.direct, now + call.lives)
        beyond = pending_call.more - call.surcharge
        # It is cheaper even if its marks are never read, or reading them does not pay for the rest.
        is_certain = pending_call.more <= 0.0 or beyond > MAX_EXTRA_COST_SHARE * call.direct
        if call.surcharge <= 0.0 or is_certain:
            self._judge_call(pending_call)
            return 0
        number = next(_numbers)
        self._open[number] = pending_call
        if len(self._open) > _MAX_PENDING_CALLS:
            self._judge_call(self._open.popitem(last=False)[1])
        return number

    def current_harm(self, now: float, spent: float = 0.0) -> Harm | None:
        """Return the harm that the latest judged calls show; None unless they are surely dearer.

        Args:
            spent: Part of the stake that is lost already.
        """
        self._judge_expired(now)
        if self._more and self._balance + spent + max(0.0, self._more[-1]) > self._stake:
            return Harm(calls=self._calls, more=self._balance / max(1.0, self._total))
        calls = len(self._more)
        if calls < MIN_CALLS:
            return None
        more, direct = sum(self._more), sum(self._direct)
        if direct <= 0.0 or more <= MAX_EXTRA_COST_SHARE * direct:
            return None
        squares = sum((added - more / calls) ** 2 for added in self._more)
        if more <= MIN_STANDARD_ERRORS * sqrt(squares):
            return None
        return Harm(calls=calls, more=more / direct)

    def _judge_expired(self, now: float) -> None:
        """Judge the calls whose marks have died."""
        while self._open and next(iter(self._open.values())).until < now:
            self._judge_call(self._open.popitem(last=False)[1])

    def _judge_call(self, call: _PendingCall) -> None:
        self._more.append(call.more)
        self._direct.append(call.direct)
        self._calls += 1
        self._balance += call.more
        self._total += call.direct
